//! Workers that try to make verification succeed without doing the work.

use std::fs;

use drawloom_checkout::{Config, Program, Status, Verify, VerifyCommand};
use drawloom_process::{Access, Command, Confined, Input, Limits, Network, Output};

use crate::support::{GOAL, Room, SECRET, git, shell, verify, write, write_program};

#[tokio::test]
async fn edited_added_and_deleted_tests_are_verified_as_the_base_has_them() {
    let room = Room::new();
    room.write("tests/more.sh", "grep -q 'fn main' src/main.rs\n");
    room.write("check.toml", "strict = true\n");
    room.commit("more tests");
    let (_, path) = room.one_writer().await;
    write(&path.join("src/main.rs"), "broken\n");
    write(&path.join("tests/check.sh"), "exit 0\n");
    fs::remove_file(path.join("tests/more.sh")).expect("removed");
    write(&path.join("tests/conftest.sh"), "exit 0\n");
    write(&path.join("check.toml"), "strict = false\n");
    let commit = room.checkpoint("a", "k1").await.commit.expect("a commit");
    let script = "ls tests && grep -q true check.toml && for test in tests/*.sh; do sh $test || exit 1; done";
    let unprotected = room.checkouts.verify(GOAL, &verify(&commit, "sh tests/check.sh")).await.expect("verified");
    assert!(unprotected.passed, "the shim works where tests are not protected");
    let protect = vec!["tests/**".to_owned(), "check.toml".to_owned()];
    let asked = Verify { protect, ..verify(&commit, script) };
    let verified = room.checkouts.verify(GOAL, &asked).await.expect("verified");
    assert!(!verified.passed);
    assert_eq!(verified.results[0].output_tail, "check.sh\nmore.sh\n");
    let tampered: Vec<(&str, Status)> =
        verified.tampered.iter().map(|file| (file.path.as_str(), file.status)).collect();
    let expected = [
        ("check.toml", Status::Modified),
        ("tests/check.sh", Status::Modified),
        ("tests/conftest.sh", Status::Added),
        ("tests/more.sh", Status::Deleted),
    ];
    assert_eq!(tampered, expected);
    assert_ne!(verified.tree, verified.protected_tree);
    let reason = "the protected path tests/conftest.sh was added; it was verified as the base has it, and the work must leave it so";
    assert!(verified.reasons.iter().any(|given| given == reason), "{:?}", verified.reasons);
}

#[tokio::test]
async fn a_directory_of_tests_replaced_by_a_link_is_restored() {
    let room = Room::new();
    let (_, path) = room.one_writer().await;
    fs::rename(path.join("tests"), path.join("fake")).expect("moved");
    write(&path.join("fake/check.sh"), "exit 0\n");
    std::os::unix::fs::symlink("fake", path.join("tests")).expect("a link");
    write(&path.join("src/main.rs"), "broken\n");
    let commit = room.checkpoint("a", "k1").await.commit.expect("a commit");
    for protect in ["tests/**", "tests", "tests/"] {
        let asked =
            Verify { protect: vec![protect.to_owned()], ..verify(&commit, "test ! -L tests && sh tests/check.sh") };
        let verified = room.checkouts.verify(GOAL, &asked).await.expect("verified");
        assert!(!verified.passed, "{protect}");
        assert_eq!(verified.results[0].exit_code, Some(1), "{protect}");
        assert!(verified.tampered.iter().any(|file| file.path == "tests"), "{protect}: {:?}", verified.tampered);
    }
}

#[tokio::test]
async fn programs_of_the_checkout_are_never_found_by_name() {
    let mut room = Room::new();
    let root = room.directory.path().join("checkouts");
    // A search path that leads into the checkout, relative and absolute, before the real directories.
    for (name, value) in &mut room.environment {
        if name == "PATH" {
            *value =
                format!(".:node_modules/.bin::{0}/{GOAL}/verify/v1:{0}/{GOAL}/verify/v1/bin:{value}", root.display());
        }
    }
    room.reopen();
    let (_, path) = room.one_writer().await;
    for name in [
        "cargo-check",
        "node_modules/.bin/cargo-check",
        "bin/cargo-check",
        "grep",
        "bin/grep",
        "node_modules/.bin/grep",
    ] {
        write_program(&path.join(name), "#!/bin/sh\nexit 0\n");
    }
    write(&path.join("src/main.rs"), "broken\n");
    let commit = room.checkpoint("a", "k1").await.commit.expect("a commit");
    let argv = |words: &[&str]| VerifyCommand {
        name: words.join(" "),
        program: Program::Argv(words.iter().map(|word| (*word).to_owned()).collect()),
        timeout_seconds: None,
    };
    let commands = vec![
        argv(&["cargo-check"]),
        shell("cargo-check"),
        argv(&["grep", "-q", "fn main", "src/main.rs"]),
        shell("grep -q 'fn main' src/main.rs"),
        argv(&[]),
    ];
    let asked = Verify { commands, ..verify(&commit, "") };
    let verified = room.checkouts.verify(GOAL, &asked).await.expect("verified");
    assert!(!verified.passed && verified.results.iter().all(|result| !result.ok), "{:#?}", verified.results);
    assert_eq!(verified.results[1].exit_code, Some(127));
    assert_eq!(verified.results[2].exit_code, Some(1));
}

#[tokio::test]
async fn what_a_background_writer_does_after_the_checkpoint_has_no_effect() {
    let room = Room::new();
    let (_, path) = room.one_writer().await;
    write(&path.join("src/main.rs"), "broken\n");
    let commit = room.checkpoint("a", "k1").await.commit.expect("a commit");
    // Later than the checkpoint, and before it is verified.
    write(&path.join("src/main.rs"), "fn main() {}\n");
    let verified = room.checkouts.verify(GOAL, &verify(&commit, "sh tests/check.sh")).await.expect("verified");
    assert!(!verified.passed, "the tree of the checkpoint is verified, not the checkout");
    assert_eq!(git(&room.repository, &["show", &format!("{commit}:src/main.rs")]), "broken");
}

#[tokio::test]
async fn a_worker_that_left_a_writer_behind_is_over_before_the_checkpoint() {
    let room = Room::new();
    let (_, path) = room.one_writer().await;
    let command = Command {
        program: "/bin/sh".into(),
        args: vec![
            "-c".into(),
            "(setsid sh -c 'trap \"\" TERM HUP; while :; do date +%N > late; done') & echo done > early".into(),
        ],
        directory: fs::File::open(&path).expect("the checkout").into(),
        access: Access::ReadWrite,
        readable: vec![],
        writable: vec![],
        guarded: vec![],
        network: Network::None,
        environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
        input: Input::Empty,
        output: Output::Together { most: 1024 },
        confined: Confined::Yes,
        home: None,
        temporary: room.directory.path().join("worker"),
        limits: Limits::default(),
        time_limit: std::time::Duration::from_secs(30),
        grace: std::time::Duration::from_millis(100),
    };
    let own = std::env::current_exe().expect("this program");
    let program = own.parent().and_then(std::path::Path::parent).expect("deps").join("examples/checkout_launcher");
    let launcher = drawloom_process::Launcher::new(program, &[]);
    let finished = launcher.run(&command, &drawloom_testkit::TestClock::default()).await.expect("it runs");
    assert!(finished.left > 0, "the writer was still there: {finished:?}");
    let first = room.checkpoint("a", "k1").await;
    let second = room.checkpoint("a", "k2").await;
    assert_eq!((second.commit, second.tree), (None, first.tree), "nothing writes any more");
}

#[tokio::test]
async fn verify_commands_cannot_write_elsewhere_read_keys_or_reach_the_network() {
    let room = Room::new();
    let before = room.fingerprint();
    let home = room.directory.path().join("home");
    write(&home.join(".ssh/id_rsa"), "private\n");
    let (prepared, path) = room.one_writer().await;
    let repository = room.repository.display();
    for script in [
        format!("cat {}/.ssh/id_rsa", home.display()),
        format!("git -C {repository} branch planted"),
        "exec 3<>/dev/tty".to_owned(),
        "cat < /dev/tcp/127.0.0.1/1".to_owned(),
    ] {
        let verified = room.checkouts.verify(GOAL, &verify(&prepared.base, &script)).await.expect("verified");
        assert!(!verified.passed, "{script}: {:?}", verified.results);
    }
    // Below /tmp a command writes to a directory of its own, which is gone with it: what counts is what is left.
    for directory in [room.repository.as_path(), &path] {
        let script = format!("mkdir -p {0}; echo x > {0}/planted; true", directory.display());
        room.checkouts.verify(GOAL, &verify(&prepared.base, &script)).await.expect("verified");
    }
    assert_eq!(room.fingerprint(), before);
    assert!(!path.join("planted").exists());
    let fine = "touch here && test -z \"$(cat)\" && git log -1 --format=%s && test -w \"$TMPDIR\"";
    let verified = room.checkouts.verify(GOAL, &verify(&prepared.base, fine)).await.expect("verified");
    assert!(verified.passed, "{:?}", verified.results);
}

#[tokio::test]
async fn the_end_of_the_output_is_kept_secrets_are_masked_and_bytes_that_are_no_text_do_no_harm() {
    let room = Room::with_config(Config { max_output_bytes: 10_000, ..Config::default() });
    let prepared = room.prepare().await;
    let script = format!("echo begin; seq 1 100000; printf '\\377\\n'; echo {SECRET}; echo 3 failed; exit 3");
    let verified = room.checkouts.verify(GOAL, &verify(&prepared.base, &script)).await.expect("verified");
    let result = &verified.results[0];
    assert_eq!((result.ok, result.exit_code, result.timed_out), (false, Some(3), false));
    assert!(result.output_head.starts_with("begin\n1\n"));
    assert!(result.output_tail.ends_with("\n\u{fffd}\n[redacted]\n3 failed\n"), "{}", result.output_tail);
    assert!(result.bytes > 588_000 && result.output_tail.len() < 10_000);
    assert_eq!(verified.reasons, ["the command \"check\" failed: it exited with code 3"]);
}

#[tokio::test]
async fn a_command_that_takes_too_long_is_ended_with_all_its_processes_and_not_remembered() {
    let room = Room::new();
    let prepared = room.prepare().await;
    let slow = VerifyCommand { timeout_seconds: Some(1), ..shell("echo up; sleep 1000 & sleep 1000") };
    let asked = Verify { commands: vec![slow], ..verify(&prepared.base, "") };
    for _ in 0..2 {
        let verified = room.checkouts.verify(GOAL, &asked).await.expect("verified");
        let result = &verified.results[0];
        assert!(result.timed_out && !result.ok && !verified.cached, "{result:?}");
        assert_eq!(result.error.as_deref(), Some("it took longer than 1 seconds"));
        assert_eq!(result.output_tail, "up\n");
    }
}

#[tokio::test]
async fn all_commands_together_take_no_longer_than_the_goal_has_left() {
    let room = Room::new();
    let prepared = room.prepare().await;
    let commands = vec![shell("sleep 1000"), shell("sleep 1000")];
    let within = Some(std::time::Duration::from_secs(1));
    let verified = room.checkouts.verify(GOAL, &Verify { commands, within, ..verify(&prepared.base, "") }).await;
    let verified = verified.expect("verified");
    for result in &verified.results {
        assert!(result.timed_out && !result.ok, "{result:?}");
        let error = result.error.as_deref().unwrap_or_default();
        assert!(error.ends_with("the goal had no time left (max_seconds)"), "{error}");
    }
    assert!(verified.results[1].duration_ms < 1_000_000, "the second one was not given its own time again");
}

#[tokio::test]
async fn commands_that_change_tracked_files_are_reported() {
    let room = Room::new();
    let prepared = room.prepare().await;
    let asked = verify(&prepared.base, "echo more >> README.md; rm src/lib.rs; touch new");
    let verified = room.checkouts.verify(GOAL, &asked).await.expect("verified");
    assert!(verified.passed);
    assert_eq!(verified.changed_by_commands, ["README.md", "src/lib.rs"]);
}

#[tokio::test]
async fn a_witness_must_be_red_before_and_green_after() {
    let room = Room::new();
    let (_, path) = room.one_writer().await;
    write(&path.join("done"), "x\n");
    let commit = room.checkpoint("a", "k1").await.commit.expect("a commit");
    let asked = |script: &str| Verify { witness: true, ..verify(&commit, script) };
    let shown = room.checkouts.verify(GOAL, &asked("test -e done")).await.expect("verified");
    assert_eq!((shown.passed, shown.red_before), (true, Some(true)));
    let empty = room.checkouts.verify(GOAL, &asked("true")).await.expect("verified");
    assert_eq!((empty.passed, empty.red_before), (false, Some(false)));
    assert_eq!(empty.reasons, ["the commands succeed on the base too, so they do not show that anything was done"]);
    let red = room.checkouts.verify(GOAL, &asked("false")).await.expect("verified");
    assert_eq!((red.passed, red.red_before), (false, None));
}

#[tokio::test]
async fn work_that_changes_protected_files_is_refused_although_the_commands_succeed() {
    let room = Room::new();
    let (_, path) = room.one_writer().await;
    write(&path.join("tests/check.sh"), "exit 0\n");
    let commit = room.checkpoint("a", "k1").await.commit.expect("a commit");
    for protect in ["tests/**", "./tests/**", "/tests"] {
        let asked = Verify { protect: vec![protect.to_owned()], ..verify(&commit, "sh tests/check.sh") };
        let verified = room.checkouts.verify(GOAL, &asked).await.expect("verified");
        assert!(!verified.passed && verified.results[0].ok && verified.tampered.len() == 1, "{protect}: {verified:?}");
    }
    let asked = Verify { protect: vec!["test/**".to_owned()], ..verify(&commit, "true") };
    let verified = room.checkouts.verify(GOAL, &asked).await.expect("verified");
    assert!(verified.passed, "{verified:?}");
    assert_eq!(verified.reasons, ["the protected glob \"test/**\" matches no file of the base"]);
    for outside in ["../tests/**", "", "["] {
        let asked = Verify { protect: vec![outside.to_owned()], ..verify(&commit, "true") };
        room.checkouts.verify(GOAL, &asked).await.expect_err("not a glob of paths inside");
    }
}

#[tokio::test]
async fn globs_of_a_goal_in_a_subdirectory_begin_there() {
    let room = Room::new();
    room.write("sub/tests/check.sh", "grep -q right answer\n");
    room.write("sub/answer", "wrong\n");
    room.commit("a part");
    let options = drawloom_checkout::Prepare { at: crate::support::AT, ..drawloom_checkout::Prepare::default() };
    let prepared = room.checkouts.prepare(GOAL, &room.repository.join("sub"), &options).await.expect("prepared");
    let path = room.writer("a", &prepared.base).await.path;
    write(&path.join("sub/tests/check.sh"), "exit 0\n");
    let commit = room.checkpoint("a", "k1").await.commit.expect("a commit");
    let asked = Verify { protect: vec!["tests/**".to_owned()], ..verify(&commit, "sh tests/check.sh") };
    let verified = room.checkouts.verify(GOAL, &asked).await.expect("verified");
    assert!(!verified.passed && verified.tampered[0].path == "sub/tests/check.sh", "{verified:?}");
}

#[tokio::test]
async fn a_base_on_which_a_command_does_not_finish_is_no_witness() {
    let room = Room::new();
    let (_, path) = room.one_writer().await;
    write(&path.join("new"), "x\n");
    let commit = room.checkpoint("a", "k1").await.commit.expect("a commit");
    let slow = VerifyCommand { timeout_seconds: Some(1), ..shell("test -e new || sleep 1000") };
    let asked = Verify { witness: true, commands: vec![slow], ..verify(&commit, "") };
    let verified = room.checkouts.verify(GOAL, &asked).await.expect("verified");
    assert_eq!((verified.passed, verified.red_before), (false, Some(false)), "{verified:?}");
    assert!(verified.reasons[0].contains("did not finish"), "{:?}", verified.reasons);
}

#[tokio::test]
async fn verify_commands_have_ports_and_a_temporary_directory() {
    let room = Room::new();
    let prepared = room.prepare().await;
    let script = "test \"$PORT\" -gt 1024 && test -n \"$DRAWLOOM_PORTS\" && touch \"$DRAWLOOM_TEMPORARY/x\" && test \"$DRAWLOOM_GOAL\" = g1";
    let verified = room.checkouts.verify(GOAL, &verify(&prepared.base, script)).await.expect("verified");
    assert!(verified.passed, "{verified:?}");
}
