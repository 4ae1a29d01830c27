//! What of a checkout is the work of a worker, and which of its files make tools of the user run something.

use std::{collections::BTreeMap, fs, os::unix::fs::symlink, path::Path};

use drawloom_checkout::{Checkpoint, Cleanup, Config, Merge, Reason};

use crate::support::{AT, GOAL, Room, git, write, write_program};

fn left_out(checkpoint: &Checkpoint) -> BTreeMap<&str, Reason> {
    checkpoint.left_out.iter().map(|left| (left.path.as_str(), left.reason)).collect()
}

fn changed(checkpoint: &Checkpoint) -> Vec<&str> {
    checkpoint.changed.iter().map(|change| change.path.as_str()).collect()
}

/// A git directory without `.git`, whose config runs a program.
fn plant(directory: &Path, trap: &Path) {
    write(&directory.join("HEAD"), "ref: refs/heads/main\n");
    write(&directory.join("config"), &format!("[core]\n\tfsmonitor = {}\n\tworktree = .\n", trap.display()));
    write(&directory.join("objects/keep"), "");
    write(&directory.join("refs/heads/keep"), "");
    write(&directory.join("index.html"), "x\n");
}

#[tokio::test]
async fn embedded_git_directories_are_left_out_at_any_depth_and_run_nothing() {
    let room = Room::new();
    room.write("fixtures/repo.git/HEAD", "ref: refs/heads/main\n");
    room.write("fixtures/repo.git/objects/keep", "");
    room.write("fixtures/repo.git/refs/keep", "");
    room.commit("a fixture");
    let (prepared, path) = room.one_writer().await;
    let mark = room.directory.path().join("mark");
    let trap = room.directory.path().join("trap.sh");
    write_program(&trap, &format!("#!/bin/sh\ntouch {}\n", mark.display()));
    plant(&path.join("lib"), &trap);
    plant(&path.join("a/b/c.git"), &trap);
    // One that shares what another one has, and one of the base that gets a config.
    write(&path.join("shared/HEAD"), "ref: refs/heads/main\n");
    write(&path.join("shared/commondir"), "../elsewhere\n");
    write(&path.join("fixtures/repo.git/config"), &format!("[core]\n\tfsmonitor = {}\n", trap.display()));
    write(&path.join("fine.txt"), "fine\n");
    let made = room.checkpoint("a", "k1").await;
    assert_eq!(changed(&made), ["fine.txt"]);
    let left = left_out(&made);
    for planted in
        ["lib/HEAD", "lib/config", "lib/index.html", "a/b/c.git/config", "shared/commondir", "fixtures/repo.git/config"]
    {
        assert_eq!(left.get(planted), Some(&Reason::EmbeddedRepository), "{planted}: {left:?}");
    }
    let merged = room.checkouts.merge(GOAL, &prepared.base, &made.commit.expect("a commit"), "m", AT).await;
    assert!(matches!(merged, Ok(Merge::Merged { .. })));
    git(&room.repository, &["merge", "-q", "--ff-only", "drawloom/g1"]);
    for directory in ["fixtures/repo.git", "fixtures"] {
        let _ = std::process::Command::new("git").arg("status").current_dir(room.repository.join(directory)).output();
    }
    assert!(!mark.exists(), "git ran the program of the worker");
}

#[tokio::test]
async fn an_embedded_git_directory_that_two_workers_made_together_must_be_accepted() {
    let room = Room::new();
    let (prepared, a) = room.one_writer().await;
    let b = room.writer("b", &prepared.base).await.path;
    write(&a.join("lib/HEAD"), "ref: refs/heads/main\n");
    write(&b.join("lib/config"), "[core]\n\tfsmonitor = x\n");
    write(&b.join("lib/objects/x"), "");
    write(&b.join("lib/refs/x"), "");
    let mut head = prepared.base.clone();
    for name in ["a", "b"] {
        let commit = room.checkpoint(name, "k1").await.commit.expect("a commit");
        let merged = room.checkouts.merge(GOAL, &head, &commit, "m", AT).await.expect("a merge");
        let Merge::Merged { commit, .. } = merged else { panic!("{merged:?}") };
        head = commit;
    }
    let triggers = room.checkouts.triggers(GOAL, &prepared.base, &head).await.expect("a list");
    let paths: Vec<&str> = triggers.iter().map(|trigger| trigger.path.as_str()).collect();
    assert_eq!(paths, ["lib/HEAD", "lib/config", "lib/objects/x", "lib/refs/x"]);
}

#[tokio::test]
async fn compiled_files_are_left_out_and_may_be_deleted() {
    let room = Room::new();
    room.write("old.pyc", "old\n");
    room.write("kept.pyc", "kept\n");
    room.commit("compiled");
    let (_, path) = room.one_writer().await;
    for name in
        ["lib/__pycache__/x.cpython-311.pyc", "lib/__pycache__/readme", "y.pyo", "el/x.elc", "Main.class", "kept.pyc"]
    {
        write(&path.join(name), "compiled\n");
    }
    fs::remove_file(path.join("old.pyc")).expect("removed");
    write(&path.join("lib/x.py"), "x = 1\n");
    let made = room.checkpoint("a", "k1").await;
    assert_eq!(changed(&made), ["lib/x.py", "old.pyc"]);
    assert!(left_out(&made).values().all(|reason| *reason == Reason::Bytecode) && made.left_out.len() == 6, "{made:?}");
    // They come back with the next run, so they keep no checkout.
    let cleaned = room.checkouts.clean(GOAL, Cleanup::Auto, AT).await.expect("cleaned");
    assert!(cleaned.kept.is_empty(), "{cleaned:?}");
}

#[tokio::test]
async fn what_setup_made_or_changed_is_not_the_work_of_a_worker() {
    let setup = "mkdir -p gen && echo made > gen/file && echo changed >> README.md && rm src/lib.rs && chmod +x tests/check.sh && \
                 echo lock > lock.json && echo other > other.json";
    let room = Room::with_config(Config { setup: Some(setup.into()), ..Config::default() });
    let (_, path) = room.one_writer().await;
    let untouched = room.checkpoint("a", "k1").await;
    assert_eq!(untouched.commit, None, "{untouched:?}");
    let left = left_out(&untouched);
    for name in ["gen/file", "README.md", "src/lib.rs", "tests/check.sh", "lock.json"] {
        assert_eq!(left.get(name), Some(&Reason::Setup), "{name}: {left:?}");
    }
    write(&path.join("new.txt"), "work\n");
    write(&path.join("lock.json"), "worker\n");
    fs::remove_file(path.join("other.json")).expect("removed");
    let made = room.checkpoint("a", "k2").await;
    assert_eq!(changed(&made), ["lock.json", "new.txt"]);
    let commit = made.commit.expect("a commit");
    assert_eq!(room.show(&commit, "README.md"), "# Project\n\nText.");
    assert!(room.paths(&commit).contains(&"src/lib.rs".to_owned()));
    // It is the same after a restart, and what setup made keeps no checkout.
    let mut room = room;
    room.reopen();
    let again = room.checkpoint("a", "k3").await;
    assert_eq!((&again.commit, left_out(&again).get("gen/file")), (&None, Some(&Reason::Setup)));
    let cleaned = room.checkouts.clean(GOAL, Cleanup::Auto, AT).await.expect("cleaned");
    assert!(cleaned.kept.is_empty(), "{cleaned:?}");
}

#[tokio::test]
async fn a_goal_of_an_earlier_version_goes_on() {
    let room = Room::new();
    let (_, path) = room.one_writer().await;
    let goal = room.directory.path().join("checkouts").join(GOAL);
    // It had one git directory, and knew no inode.
    fs::remove_dir_all(goal.join("git-plain")).expect("removed");
    let record = fs::read_to_string(goal.join("goal.json")).expect("a record");
    let mut record: serde_json::Value = serde_json::from_str(&record).expect("JSON");
    record.as_object_mut().expect("an object").remove("inode");
    fs::write(goal.join("goal.json"), record.to_string()).expect("written");
    write(&path.join("new.txt"), "new\n");
    assert_eq!(changed(&room.checkpoint("a", "k1").await), ["new.txt"]);
}

#[tokio::test]
async fn files_that_make_tools_run_something_are_listed_with_the_reason() {
    let room = Room::new();
    room.write("package.json", "{\"name\": \"x\", \"scripts\": {\"test\": \"true\"}}\n");
    room.write("web/package.json", "{\"name\": \"web\"}\n");
    room.write(".npmrc.example", "x\n");
    room.write("agents/notes.md", "x\n");
    symlink("agents", room.repository.join(".claude")).expect("a link");
    room.write(".vscode/tasks.json", "{}\n");
    room.commit("base");
    let (prepared, path) = room.one_writer().await;
    for name in [
        "drawloom.yaml",
        "deep/.claude/settings.json",
        ".mcp.json",
        "mise.toml",
        ".gitattributes",
        ".githooks/pre-commit",
        "tools/post-checkout",
        ".github/workflows/ci.yml",
        "agents/settings.json",
        "src/ok.rs",
        ".gitignore",
    ] {
        write(&path.join(name), "x\n");
    }
    write(&path.join("package.json"), "{\"name\": \"x\", \"scripts\": {\"test\": \"true\", \"prepare\": \"sh x\"}}\n");
    write(&path.join("web/package.json"), "{\"name\": \"web\", \"version\": \"2\"}\n");
    fs::remove_file(path.join(".vscode/tasks.json")).expect("removed");
    let commit = room.checkpoint("a", "k1").await.commit.expect("a commit");
    let triggers = room.checkouts.triggers(GOAL, &prepared.base, &commit).await.expect("a list");
    let paths: Vec<&str> = triggers.iter().map(|trigger| trigger.path.as_str()).collect();
    let expected = [
        ".gitattributes",
        ".githooks/pre-commit",
        ".github/workflows/ci.yml",
        ".mcp.json",
        ".vscode/tasks.json",
        "agents/settings.json",
        "deep/.claude/settings.json",
        "drawloom.yaml",
        "mise.toml",
        "package.json",
        "tools/post-checkout",
    ];
    assert_eq!(paths, expected);
    assert!(triggers.iter().all(|trigger| !trigger.why.is_empty()));
    assert_eq!(triggers[9].why, "package managers and hooks run what it names (scripts)");
}
