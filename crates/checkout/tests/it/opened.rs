//! Goals work in the directories that the operator allows, and in the repository that they were started for. Ports belong to one
//! checkout of the machine.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Stdio},
};

use drawloom_checkout::{Config, Error, Kind, Land, Merge, Ports, Prepare, Verdict};
use drawloom_contract::failure::Explain as _;

use crate::support::{AT, GOAL, Room, git, write};

fn options() -> Prepare {
    Prepare { at: AT, ..Prepare::default() }
}

/// A room where goals may work in `allowed` only. The project lies outside of it.
fn restricted() -> Room {
    let mut room = Room::new();
    let allowed = room.directory.path().join("allowed");
    fs::create_dir(&allowed).expect("made");
    room.directories = vec![allowed];
    room.reopen();
    room
}

async fn refused(room: &Room, directory: &Path) -> Error {
    room.checkouts.prepare(GOAL, directory, &options()).await.expect_err("refused")
}

#[tokio::test]
async fn the_opened_repository_must_lie_in_an_allowed_directory() {
    let room = restricted();
    let allowed = room.directories[0].clone();
    let (project, own) = (room.repository.clone(), |name: &str| allowed.join(name));
    let text = |path: &Path| path.to_str().expect("text").to_owned();
    git(&allowed, &["init", "-q", "-b", "main", "good"]);
    write(&own("good/a"), "x\n");
    git(&own("good"), &["add", "."]);
    git(&own("good"), &["commit", "-q", "-m", "first"]);
    // A `.git` file that leads elsewhere.
    write(&own("gitfile/.git"), &format!("gitdir: {}\n", text(&project.join(".git"))));
    // A linked worktree of the project.
    git(&project, &["worktree", "add", "-q", "-b", "linked", &text(&own("linked"))]);
    // A git directory with the parts of another one.
    fs::create_dir_all(own("common/.git")).expect("made");
    write(&own("common/.git/HEAD"), "ref: refs/heads/main\n");
    write(&own("common/.git/commondir"), &text(&project.join(".git")));
    // Borrowed objects.
    git(&allowed, &["clone", "-q", "--shared", &text(&project), "alternates"]);
    // Links in a git directory.
    for part in ["objects", "refs", "info"] {
        let name = format!("link-{part}");
        git(&allowed, &["clone", "-q", "--no-hardlinks", &text(&project), &name]);
        fs::remove_dir_all(own(&name).join(".git").join(part)).expect("removed");
        symlink(project.join(".git").join(part), own(&name).join(".git").join(part)).expect("a link");
    }
    git(&allowed, &["clone", "-q", "--no-hardlinks", &text(&project), "excludes"]);
    let exclude = own("excludes/.git/info/exclude");
    let _ = fs::remove_file(&exclude);
    symlink(project.join("README.md"), exclude).expect("a link");
    // A checkout elsewhere.
    git(&allowed, &["clone", "-q", "--no-hardlinks", &text(&project), "elsewhere"]);
    git(&own("elsewhere"), &["config", "core.worktree", &text(&project)]);
    for name in ["gitfile", "linked", "common", "alternates", "link-objects", "link-refs", "link-info", "excludes"] {
        let error = refused(&room, &own(name)).await;
        assert_eq!(error.code(), "cwd_denied", "{name}: {error}");
    }
    let error = refused(&room, &own("elsewhere")).await;
    assert!(matches!(error.code(), "cwd_denied" | "not_a_repository"), "{error}");
    assert_eq!(refused(&room, &project).await.code(), "cwd_denied");
    symlink(own("good"), own("alias")).expect("a link");
    assert_eq!(refused(&room, &own("alias")).await.code(), "other_directory");
    room.checkouts.prepare(GOAL, &own("good"), &options()).await.expect("prepared");
}

#[tokio::test]
async fn excludes_that_a_repository_names_are_not_read_from_elsewhere() {
    let room = restricted();
    let own = room.directories[0].join("own");
    git(&room.directories[0], &["clone", "-q", "--no-hardlinks", room.repository.to_str().expect("text"), "own"]);
    let secret = room.directory.path().join("secret");
    write(&secret, "a-secret-line\n");
    git(&own, &["config", "core.excludesFile", secret.to_str().expect("text")]);
    let prepared = room.checkouts.prepare(GOAL, &own, &options()).await.expect("prepared");
    let path = room.writer("a", &prepared.base).await.path;
    let exclude = fs::read_to_string(path.join(".git/info/exclude")).expect("a file");
    assert!(!exclude.contains("a-secret-line"), "{exclude}");
}

#[tokio::test]
async fn a_directory_that_was_exchanged_after_the_start_is_not_touched() {
    let room = Room::new();
    let other = Room::new();
    let (prepared, path) = room.one_writer().await;
    write(&path.join("new.txt"), "new\n");
    let commit = room.checkpoint("a", "k1").await.commit.expect("a commit");
    let merged = room.checkouts.merge(GOAL, &prepared.base, &commit, "m", AT).await.expect("a merge");
    let Merge::Merged { commit: head, .. } = merged else { panic!("{merged:?}") };
    let away = room.directory.path().join("away");
    let land = async || room.checkouts.land(GOAL, Some("main"), &head, &Verdict::NotAsked).await;
    fs::rename(&room.repository, &away).expect("moved");
    symlink(&other.repository, &room.repository).expect("a link");
    let before = other.refs();
    assert_eq!(land().await.expect_err("a link").code(), "other_directory");
    fs::remove_file(&room.repository).expect("removed");
    git(room.directory.path(), &["clone", "-q", away.to_str().expect("text"), "project"]);
    assert_eq!(land().await.expect_err("another repository").code(), "other_directory");
    assert_eq!(other.refs(), before);
    fs::remove_dir_all(&room.repository).expect("removed");
    fs::rename(&away, &room.repository).expect("moved back");
    assert!(matches!(land().await, Ok(Land::CheckedOut { .. })));
}

#[tokio::test]
async fn the_printed_command_works_while_uncommitted_files_lie_in_the_checkout() {
    for diverged in [false, true] {
        let room = Room::new();
        room.write("README.md", "not committed\n");
        room.write("staged.txt", "staged\n");
        git(&room.repository, &["add", "staged.txt"]);
        room.write("new.txt", "new\n");
        room.write("sub/[odd] name.txt", "odd\n");
        room.write(".env", "KEY=x\n");
        fs::remove_file(room.repository.join("src/lib.rs")).expect("removed");
        let options = Prepare { uncommitted: true, ..options() };
        let prepared = room.checkouts.prepare(GOAL, &room.repository, &options).await.expect("prepared");
        let path = room.writer("a", &prepared.base).await.path;
        write(&path.join("new.txt"), "new, by the worker\n");
        write(&path.join("work.txt"), "work\n");
        let commit = room.checkpoint("a", "k1").await.commit.expect("a commit");
        let merged = room.checkouts.merge(GOAL, &prepared.base, &commit, "m", AT).await.expect("a merge");
        let Merge::Merged { commit: head, .. } = merged else { panic!("{merged:?}") };
        if diverged {
            room.write("else.txt", "meanwhile\n");
            git(&room.repository, &["add", "else.txt"]);
            git(&room.repository, &["commit", "-q", "-m", "meanwhile", "--", "else.txt"]);
        }
        let command = match room.checkouts.land(GOAL, None, &head, &Verdict::NotAsked).await.expect("an answer") {
            Land::CheckedOut { command, .. } if !diverged => command,
            Land::NotFastForward { command, .. } if diverged => command,
            other => panic!("{other:?}"),
        };
        let script = format!("export GIT_MERGE_AUTOEDIT=no; {command}");
        let ran = Command::new("sh")
            .args(["-c", &script])
            .current_dir(room.repository.join("sub"))
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .envs([("GIT_AUTHOR_NAME", "user"), ("GIT_AUTHOR_EMAIL", "u@example.com")])
            .envs([("GIT_COMMITTER_NAME", "user"), ("GIT_COMMITTER_EMAIL", "u@example.com")])
            .output()
            .expect("it runs");
        assert!(ran.status.success(), "{command}: {}", String::from_utf8_lossy(&ran.stderr));
        assert_eq!(fs::read_to_string(room.repository.join("new.txt")).expect("a file"), "new, by the worker\n");
        assert_eq!(fs::read_to_string(room.repository.join(".env")).expect("a file"), "KEY=x\n");
        assert!(room.repository.join("work.txt").exists() && !room.repository.join("src/lib.rs").exists());
        assert_eq!(git(&room.repository, &["status", "--porcelain"]), "?? .env");
        let again = room.checkouts.land(GOAL, None, &head, &Verdict::NotAsked).await.expect("an answer");
        assert!(matches!(again, Land::AlreadyLanded { .. }), "{again:?}");
    }
}

/// A range that no other test leases from.
const PORTS: Ports = Ports { first: 19_000, last: 19_029 };

/// Where the process that is killed writes its port.
const LEASE: &str = "DRAWLOOM_TEST_LEASE";

fn port_of(environment: &[(String, String)]) -> u16 {
    let found = environment.iter().find(|(name, _)| name == "PORT").expect("PORT");
    found.1.parse().expect("a number")
}

/// Leases ports, writes the first to `place`, and keeps them until this process is killed.
async fn lease_until_killed(place: &str) {
    let room = Room::with_config(Config { ports: PORTS, ..Config::default() });
    let prepared = room.prepare().await;
    let added = room.writer("a", &prepared.base).await;
    fs::write(place, port_of(&added.environment).to_string()).expect("written");
    // The parent reads this, and then it kills.
    let mut output = std::io::stderr();
    std::io::Write::write_all(&mut output, b"leased\n").expect("said");
    let _ = std::io::stdin().read(&mut [0]);
}

#[tokio::test]
async fn ports_are_leased_over_all_projects_and_end_with_a_killed_process() {
    // The other process is this test, told where to write.
    if let Ok(place) = std::env::var(LEASE) {
        return lease_until_killed(&place).await;
    }
    let config = Config { ports: PORTS, ..Config::default() };
    let room = Room::with_config(config.clone());
    let place = room.directory.path().join("lease");
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "opened::ports_are_leased_over_all_projects_and_end_with_a_killed_process", "--nocapture"])
        .env(LEASE, &place)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a process");
    let lines = BufReader::new(child.stderr.take().expect("its output")).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("leased")));
    let theirs: u16 = fs::read_to_string(&place).expect("a file").parse().expect("a port");
    let prepared = room.prepare().await;
    let first = port_of(&room.writer("a", &prepared.base).await.environment);
    let second = port_of(&room.writer("b", &prepared.base).await.environment);
    assert!(first != theirs && second != theirs && first != second, "{theirs} {first} {second}");
    let third = room.checkouts.add(GOAL, "c", &prepared.base, Kind::Writer).await.expect_err("all are leased");
    assert_eq!(third.code(), "no_ports");
    child.kill().expect("killed");
    child.wait().expect("ended");
    assert_eq!(port_of(&room.writer("c", &prepared.base).await.environment), theirs);
    // After a restart a checkout has its own ports again.
    let mut room = room;
    room.reopen();
    assert_eq!(port_of(&room.writer("b", &prepared.base).await.environment), second);
}
