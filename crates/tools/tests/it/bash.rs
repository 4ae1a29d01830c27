//! `Bash`.

use std::time::Duration;

use drawloom_contract::tool::Repeat;
use drawloom_tools::BashNetwork;
use serde_json::json;

use crate::support::{HANGS, Room};

#[tokio::test]
async fn a_command_runs_in_the_volume_and_its_end_is_told() {
    let room = Room::new();
    room.put("a.txt", "text\n");
    assert_eq!(
        room.fails("Bash", json!({ "command": "cat a.txt; echo oops >&2; exit 3" })).await,
        "text\noops\n[exit code 3]"
    );
    assert_eq!(room.done("Bash", json!({ "command": "true" })).await, "[no output]\n[exit code 0]");
    assert_eq!(room.fails("Bash", json!({ "command": "printf x; kill -9 $$" })).await, "x\n[killed by signal 9]");
    assert_eq!(
        room.done("Bash", json!({ "command": "sleep 1000 & sleep 1000 & echo on" })).await,
        "on\n[exit code 0]\n[2 processes left running were killed]"
    );
    assert_eq!(
        room.done("Bash", json!({ "command": "printf 'a\\0b\\377'" })).await,
        "a\u{fffd}b\u{fffd}\n[exit code 0]\n[bytes that are not UTF-8 are shown as \u{fffd}]"
    );
    assert_eq!(std::fs::read_dir(room.temporary.path()).expect("the directory").count(), 0, "nothing temporary stays");
    assert!(matches!(room.tool("Bash").repeat(), Repeat::Outlives(_)));
}

#[tokio::test]
async fn only_what_the_operator_lists_is_in_its_environment() {
    let mut room = Room::new();
    let command = json!({ "command": "echo $PATH $LANG; echo ${SECRET:-none}; echo ${CARGO_MANIFEST_DIR:-none}" });
    assert_eq!(room.done("Bash", command.clone()).await, "/usr/bin:/bin C.UTF-8\nnone\nnone\n[exit code 0]");
    room.config.bash.env = vec!["SECRET".into(), "NOT_SET".into()];
    assert_eq!(room.done("Bash", command).await, "/usr/bin:/bin C.UTF-8\ns3cret\nnone\n[exit code 0]");
}

#[tokio::test]
async fn time_and_output_have_limits_that_are_told() {
    let mut room = Room::new();
    let slow = room.fails("Bash", json!({ "command": "echo begun; sleep 1000", "timeout_seconds": 1 })).await;
    assert!(
        slow.starts_with("begun\n[timed out after 1 s") && slow.contains("tools.bash.max_timeout_seconds"),
        "{slow}"
    );
    room.config.bash.max_timeout_seconds = 10;
    for bad in [
        json!({ "command": "true", "timeout_seconds": 11 }),
        json!({ "command": "true", "timeout_seconds": 0 }),
        json!({ "command": " " }),
    ] {
        room.fails("Bash", bad).await;
    }
}

/// Of output beyond the limit the head, the tail, the exit code and the notices are kept, and a failure stays one. The lines
/// that the cut divides are dropped whole, so that no part of a secret in them is shown.
#[tokio::test]
async fn the_end_of_long_output_is_kept() {
    let room = Room::new();
    let script = |last: &str| {
        format!(
            "echo first; yes 0123456789012345678901234567890123456789 | head -n 70000; sleep 1000 & echo last; {last}"
        )
    };
    let long = room.fails("Bash", json!({ "command": script("exit 3") })).await;
    assert!(long.starts_with("first\n0123456789"));
    assert!(
        long.ends_with("\nlast\n[exit code 3]\n[1 process left running was killed]"),
        "{}",
        &long[long.len() - 200..]
    );
    assert!(long.len() <= 1024 * 1024, "it fits into what a tool may answer: {}", long.len());
    let (head, rest) = long.split_once("\n[truncated: ").expect("it was cut");
    let (_, tail) = rest.split_once(" bytes omitted]\n").expect("and that is said");
    for line in [head, tail].iter().flat_map(|part| part.lines()).filter(|line| line.starts_with('0')) {
        assert_eq!(line.len(), 40, "a line is whole or not there");
    }
    assert!(room.done("Bash", json!({ "command": script("exit 0") })).await.contains("\nlast\n[exit code 0]\n"));
}

#[tokio::test]
async fn a_command_that_a_rule_stopped_is_told_the_rule_and_the_key() {
    let mut room = Room::new();
    room.config.bash.max_processes = 20;
    for (command, key) in [
        (
            "perl -MSocket -e 'socket(S, AF_INET, SOCK_STREAM, 0) && connect(S, pack_sockaddr_in(9, inet_aton(q(192.0.2.1)))) or die $!'",
            "tools.bash.network",
        ),
        ("echo x > /usr/new", "tools.bash.writable_paths"),
        ("cat /home/someone/file", "tools.bash.readable_paths"),
        ("unshare -U true", "no setting changes that"),
        ("for i in $(seq 40); do sleep 1000 & done; wait", "tools.bash.max_processes"),
    ] {
        let told = room.fails("Bash", json!({ "command": command })).await;
        assert!(told.contains(key), "{command}: {told}");
    }
    room.mode = drawloom_contract::tool::Mode::ReadOnly;
    let told = room.fails("Bash", json!({ "command": "echo x > new" })).await;
    assert!(told.contains("mode: rw"), "{told}");
}

/// A rule that has nothing to do with a failure would send the model the wrong way.
#[tokio::test]
async fn a_command_that_failed_by_itself_is_told_no_rule() {
    let room = Room::new();
    room.put("script", "exit 0");
    for command in [
        "cat missing.txt",
        "cat ./missing/file",
        "cat /etc/no-such-setting",
        "no-such-program --version",
        "chmod 644 script; ./script",
        "cat $TMPDIR/none",
        "cat $PWD/none",
    ] {
        let told = room.fails("Bash", json!({ "command": command })).await;
        assert!(!told.contains("possible cause") && !told.contains("[rule"), "{command}: {told}");
    }
    // A server of the machine is not there: the words say of which loopback they speak.
    let connect = "perl -MSocket -e 'socket(S, AF_INET, SOCK_STREAM, 0) && connect(S, pack_sockaddr_in(9, inet_aton(q(127.0.0.1)))) or die $!'";
    let told = room.fails("Bash", json!({ "command": connect })).await;
    assert!(told.contains("[possible cause: a command has its own loopback network"), "{told}");
    assert!(!told.contains("commands have no network"), "{told}");
}

#[tokio::test]
async fn the_network_needs_the_operator_and_an_agent_that_may_reach_every_host() {
    let mut room = Room::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let connect = json!({ "command": format!(
        "perl -MSocket -e 'socket(S, AF_INET, SOCK_STREAM, 0) && connect(S, pack_sockaddr_in({port}, inet_aton(q(127.0.0.1)))) or die $!'"
    ) });
    let conditions = |room: &Room| room.tool("Bash").conditions(&room.context()).expect("how it is confined");
    for (network, hosts) in
        [(BashNetwork::None, "*"), (BashNetwork::Host, "127.0.0.1"), (BashNetwork::Host, "*.example")]
    {
        room.config.bash.network = network;
        room.hosts = vec![hosts.into()];
        let told = room.fails("Bash", connect.clone()).await;
        assert!(told.contains("tools.bash.network: host"), "{told}");
        assert!(conditions(&room).ends_with("; no network"), "{}", conditions(&room));
    }
    room.hosts = vec!["*".into()];
    room.done("Bash", connect).await;
    assert!(conditions(&room).ends_with("; host network"), "{}", conditions(&room));
}

#[tokio::test]
async fn dropping_the_call_answers_at_once_and_ends_the_command() {
    let room = Room::new();
    let (tool, context) = (room.tool("Bash"), room.context());
    let mark = format!("MARK={}", room.volume.path().display());
    let script = "trap '' TERM; (setsid sleep 1000 &); echo up > started; while :; do sleep 1; done";
    let command = json!({ "command": format!("export {mark}; exec sh -c \"{script}\"") });
    let call = tokio::spawn(async move { tool.call(&context, command).await });
    let started = room.volume.path().join("started");
    let until = |done: Box<dyn Fn() -> bool>| async move {
        let wait = async {
            while !done() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(HANGS, wait).await.expect("it happens");
    };
    let path = started.clone();
    until(Box::new(move || std::fs::read_to_string(&path).is_ok_and(|text| text.ends_with('\n')))).await;
    call.abort();
    assert!(call.await.expect_err("it was dropped").is_cancelled());
    until(Box::new(move || crate::walls::marked(&mark) == 0)).await;
    let temporary = room.temporary.path().to_owned();
    until(Box::new(move || std::fs::read_dir(&temporary).expect("the directory").count() == 0)).await;
}

#[tokio::test]
async fn what_the_operator_opens_is_open_and_nothing_else() {
    let mut room = Room::new();
    let (readable, writable) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    std::fs::write(readable.path().join("tool"), "read me\n").expect("a file");
    let (from, to) = (readable.path().display(), writable.path().display());
    let command = json!({ "command": format!("cat {from}/tool; echo x > {to}/new; echo y > {from}/new") });
    let closed = room.fails("Bash", command.clone()).await;
    assert!(!closed.contains("read me") && !writable.path().join("new").exists(), "{closed}");
    room.config.bash.readable_paths = vec![readable.path().to_owned()];
    room.config.bash.writable_paths = vec![writable.path().to_owned()];
    let open = room.fails("Bash", command).await;
    assert!(open.contains("read me") && writable.path().join("new").exists(), "{open}");
    assert!(!readable.path().join("new").exists());
}

/// A listed path inside a volume is what it was when the server started. An agent that replaces it, or a directory above it,
/// by a link opens nothing.
#[tokio::test]
async fn a_listed_path_cannot_be_pointed_elsewhere() {
    let mut room = Room::new();
    let outside = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(outside.path().join("cache")).expect("a directory");
    std::fs::write(outside.path().join("cache/key"), "s3cret\n").expect("a file");
    room.put("deps/cache/lib", "library\n");
    let volume = room.volume.path().to_owned();
    room.config.bash.readable_paths = vec![volume.join("deps/cache")];
    room.config.bash.writable_paths = vec![volume.join("deps/cache")];
    let bash = room.tool("Bash");
    let run = async |command: String| bash.call(&room.context(), json!({ "command": command })).await;
    let outside = outside.path().display();
    run("cat deps/cache/lib && mv deps old".into()).await.expect("it may");
    for (replace, look) in [
        (
            format!("ln -s {outside} deps"),
            format!("cat {outside}/cache/key deps/cache/key; echo x > {outside}/cache/new"),
        ),
        (
            format!("rm deps && mkdir deps && ln -s {outside}/cache deps/cache"),
            format!("cat {outside}/cache/key deps/cache/key; echo x > {outside}/cache/new"),
        ),
    ] {
        // The link is made from outside: the command that makes it is refused already where the path is missing.
        let status = std::process::Command::new("sh").args(["-c", &replace]).current_dir(&volume).status();
        assert!(status.expect("a shell").success());
        let said = run(look).await.expect_err("the path is a link now").to_string();
        assert!(!said.contains("s3cret") && said.contains("restart the server"), "{said}");
        assert!(!std::path::Path::new(&format!("{outside}/cache/new")).exists());
    }
}

/// A skill may lie in a volume that the command can write: its folder is read-only all the same.
#[tokio::test]
async fn the_folder_of_a_skill_can_be_read_and_run_but_not_changed_and_other_folders_are_not_there() {
    let mut room = Room::new();
    let shelf = tempfile::tempdir().expect("a directory");
    for name in ["weave", "dye"] {
        std::fs::create_dir(shelf.path().join(name)).expect("a folder");
        std::fs::write(shelf.path().join(name).join("say.sh"), format!("echo {name}\n")).expect("a file");
    }
    let (weave, dye) = (shelf.path().join("weave"), shelf.path().join("dye"));
    room.put("own/say.sh", "echo own\n");
    let own = room.volume.path().join("own");
    room.skills = [("weave".to_owned(), weave.clone()), ("own".to_owned(), own.clone())].into();
    for (folder, says) in [(&weave, "weave"), (&own, "own")] {
        let script = folder.join("say.sh").display().to_string();
        let said = room.done("Bash", json!({ "command": format!("sh {script}") })).await;
        assert_eq!(said, format!("{says}\n[exit code 0]"));
        let command = format!("echo x > {script} || echo x > {}/new || mv {script} /tmp/", folder.display());
        room.fails("Bash", json!({ "command": command })).await;
        assert_eq!(std::fs::read_to_string(&script).expect("the file"), format!("echo {says}\n"));
    }
    room.fails("Bash", json!({ "command": format!("ls {}", dye.display()) })).await;
    std::fs::remove_dir_all(&weave).expect("a folder");
    let after = room.done("Bash", json!({ "command": "echo on" })).await;
    assert_eq!(after, "on\n[exit code 0]", "a skill that is gone does not stop commands");
}
