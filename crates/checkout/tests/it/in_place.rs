//! Goals without isolation: workers change the user's own checkout.

use std::fs;

use drawloom_checkout::{Checkouts, Cleanup, Error, Kind, Merge, Oid, Prepare, Prepared, open};
use drawloom_contract::failure::Explain as _;

use crate::support::{AT, GOAL, Room, git, verify, write};

fn in_place() -> Prepare {
    Prepare { at: AT, in_place: true, ..Prepare::default() }
}

async fn prepare(room: &Room) -> Prepared {
    room.checkouts.prepare(GOAL, &room.repository, &in_place()).await.expect("prepared")
}

async fn refused(room: &Room, goal: &str) -> Error {
    room.checkouts.prepare(goal, &room.repository, &in_place()).await.expect_err("refused")
}

async fn merged(checkouts: &Checkouts, head: &Oid, commit: &Oid) -> Oid {
    match checkouts.merge(GOAL, head, commit, "merge", AT).await.expect("a merge") {
        Merge::Merged { commit, .. } => commit,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn workers_change_the_checkout_one_after_another_and_each_has_a_checkpoint_of_its_own_work() {
    let room = Room::new();
    let before = room.oid("HEAD");
    let prepared = prepare(&room).await;
    assert_eq!(prepared.base, before);
    assert_eq!(room.oid("refs/drawloom/g1/base"), before, "the state before is kept");
    let [warning] = &prepared.warnings[..] else { panic!("{:?}", prepared.warnings) };
    assert!(warning.contains("git reset --hard refs/drawloom/g1/base && git clean -fd"), "{warning}");

    let a = room.writer("a", &prepared.base).await;
    assert_eq!(a.path, room.repository);
    write(&a.path.join("src/new.rs"), "pub fn two() {}\n");
    write(&a.path.join(".env"), "KEY=1\n");
    let first = room.checkpoint("a", "k").await;
    assert_eq!(first.changed.iter().map(|change| change.path.as_str()).collect::<Vec<_>>(), ["src/new.rs"]);
    assert_eq!(first.left_out.iter().map(|left| left.path.as_str()).collect::<Vec<_>>(), [".env"]);
    let head = merged(&room.checkouts, &prepared.base, first.commit.as_ref().expect("a commit")).await;

    room.writer("b", &head).await;
    write(&room.repository.join("src/new.rs"), "pub fn three() {}\n");
    fs::remove_file(room.repository.join("README.md")).expect("removed");
    let second = room.checkpoint("b", "k").await;
    assert_eq!(second.changed.len(), 2, "the work of the first is not in it: {second:?}");
    assert_eq!(room.checkpoint("b", "k").await, second, "a repeated call answers the same");
    let head = merged(&room.checkouts, &head, second.commit.as_ref().expect("a commit")).await;
    assert_eq!(room.show(&head, "src/new.rs"), "pub fn three() {}");

    let verified = room.checkouts.verify(GOAL, &verify(&head, "test ! -e .env && grep -q three src/new.rs")).await;
    assert!(verified.expect("verified").passed, "a clean checkout is verified, not the user's");
    let status = git(&room.repository, &["status", "--porcelain"]);
    assert_eq!(status, " D README.md\n?? .env\n?? src/new.rs", "HEAD and index are as before");
    assert_eq!(room.oid("HEAD"), before);

    for cleanup in [Cleanup::Never, Cleanup::Always] {
        room.checkouts.clean(GOAL, cleanup, AT).await.expect("cleaned");
    }
    assert!(room.repository.join(".env").is_file() && room.repository.join("src/new.rs").is_file());
    git(&room.repository, &["reset", "--hard", "-q", "refs/drawloom/g1/base"]);
    git(&room.repository, &["clean", "-fdq"]);
    assert_eq!(git(&room.repository, &["status", "--porcelain"]), "");
}

#[tokio::test]
async fn a_checkout_with_changes_is_refused_and_nothing_is_claimed() {
    for (change, named) in [("src/lib.rs", "src/lib.rs"), ("untracked.txt", "untracked.txt")] {
        let room = Room::new();
        room.write(change, "mine\n");
        let error = refused(&room, GOAL).await;
        assert_eq!((error.code(), error.to_string().contains(named)), ("not_clean", true), "{error}");
        assert!(!room.refs().keys().any(|name| name.starts_with("refs/drawloom")), "{:?}", room.refs());
    }
    let room = Room::new();
    room.write("src/lib.rs", "staged\n");
    git(&room.repository, &["add", "-A"]);
    git(&room.repository, &["restore", "--worktree", "--source=HEAD", "src/lib.rs"]);
    assert_eq!(refused(&room, GOAL).await.code(), "not_clean", "a change that is only staged counts");
    let room = Room::new();
    room.write("target/build", "ignored\n");
    prepare(&room).await;
}

#[tokio::test]
async fn a_checkout_belongs_to_one_goal_until_that_ends() {
    let mut room = Room::new();
    prepare(&room).await;
    let error = refused(&room, "g2").await;
    assert_eq!(error.code(), "in_place_taken", "{error}");
    assert!(error.hint().expect("a hint").contains("drawloom goal cancel g1"), "{error}");
    room.reopen();
    prepare(&room).await;
    assert_eq!(refused(&room, "g3").await.code(), "in_place_taken", "a restart does not give it back");
    let isolated = Prepare { at: AT, ..Prepare::default() };
    room.checkouts.prepare("g4", &room.repository, &isolated).await.expect("isolated goals do not mind");
    room.checkouts.clean(GOAL, Cleanup::Never, AT).await.expect("cleaned");
    room.checkouts.clean(GOAL, Cleanup::Never, AT).await.expect("cleaned twice");
    assert!(!room.refs().keys().any(|name| name.contains("in-place")), "{:?}", room.refs());
    room.checkouts.prepare("g5", &room.repository, &in_place()).await.expect("it is free again");
}

#[tokio::test]
async fn what_a_worker_of_a_cancelled_goal_left_becomes_one_commit_and_the_checkout_is_free() {
    let room = Room::new();
    let prepared = prepare(&room).await;
    room.writer("a", &prepared.base).await;
    write(&room.repository.join("one.txt"), "1\n");
    let first = room.checkpoint("a", "k").await.commit.expect("a commit");
    let head = merged(&room.checkouts, &prepared.base, &first).await;
    room.writer("b", &head).await;
    write(&room.repository.join("two.txt"), "2\n");
    let kept = room.checkouts.last_checkpoints(GOAL, AT).await.expect("kept");
    let [(name, last)] = &kept[..] else { panic!("{kept:?}") };
    assert_eq!((name.as_str(), last.changed.len(), last.changed[0].path.as_str()), ("b", 1, "two.txt"));
    assert_eq!(room.checkouts.last_checkpoints(GOAL, AT).await.expect("kept"), kept);
    assert!(room.repository.join("two.txt").is_file());
    assert!(!room.refs().keys().any(|name| name.contains("in-place")));
}

#[tokio::test]
async fn another_branch_in_the_checkout_stops_the_goal() {
    let room = Room::new();
    let prepared = prepare(&room).await;
    git(&room.repository, &["switch", "-q", "-c", "other"]);
    let error = room.checkouts.add(GOAL, "a", &prepared.base, Kind::Writer).await.expect_err("refused");
    assert_eq!(error.code(), "not_in_place");
    assert!(error.to_string().ends_with("other is checked out now, and it was main"), "{error}");
}

#[tokio::test]
async fn planners_read_a_checkout_of_their_own_and_nothing_resets_the_users() {
    let room = Room::new();
    let prepared = prepare(&room).await;
    let view = room.checkouts.add(GOAL, "view", &prepared.base, Kind::ReadOnly).await.expect("added");
    assert!(view.path != room.repository && view.path.join("README.md").is_file());
    let a = room.writer("a", &prepared.base).await;
    write(&a.path.join("one.txt"), "1\n");
    room.checkouts.reset(GOAL, "a", &prepared.base).await.expect_err("never");
    let root = room.directory.path().join("checkouts");
    let opened = open(&root, GOAL, "a").expect("open");
    assert!(opened.is_in_place && opened.path == room.repository);
    assert!(!open(&root, GOAL, "view").expect("open").is_in_place);
    room.checkouts.clean(GOAL, Cleanup::Always, AT).await.expect("cleaned");
    assert!(!view.path.exists() && a.path.join("one.txt").is_file());
}

#[tokio::test]
async fn a_linked_worktree_is_a_checkout_too_and_a_bare_repository_is_none() {
    let room = Room::new();
    let linked = room.directory.path().join("linked");
    git(&room.repository, &["worktree", "add", "-q", "-b", "side", linked.to_str().expect("text")]);
    let prepared = room.checkouts.prepare(GOAL, &linked, &in_place()).await.expect("prepared");
    let a = room.checkouts.add(GOAL, "a", &prepared.base, Kind::Writer).await.expect("added");
    assert_eq!(a.path, linked);
    assert!(a.readable.contains(&room.repository.join(".git")), "git works there: {:?}", a.readable);
    let other = room.checkouts.prepare("g2", &room.repository, &in_place()).await;
    other.expect("another worktree is another checkout");
    let bare = room.directory.path().join("bare.git");
    git(&room.repository, &["clone", "-q", "--bare", ".", bare.to_str().expect("text")]);
    let error = room.checkouts.prepare("g3", &bare, &in_place()).await.expect_err("refused");
    assert_eq!(error.code(), "not_in_place", "{error}");
}
