//! Setup, leased ports, the disk, and cleaning up without losing anything.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    time::Duration,
};

use drawloom_checkout::{Cleanup, Config, Kind, ResultBranch, Retention};
use drawloom_contract::{failure::Explain as _, time::Timestamp};

use crate::support::{AT, GOAL, Room, write};

#[tokio::test]
async fn setup_runs_once_in_each_writable_checkout_and_a_failure_says_why() {
    let setup = Some("echo \"$PORT\" >> target-ports.log; git log -1 --format=%s; exec ls src".into());
    let room = Room::with_config(Config { setup, ..Config::default() });
    let prepared = room.prepare().await;
    let added = room.writer("a", &prepared.base).await;
    let again = room.writer("a", &prepared.base).await;
    assert_eq!(again, added);
    let port = &added.environment.iter().find(|(name, _)| name == "PORT").expect("a port").1;
    assert_eq!(fs::read_to_string(added.path.join("target-ports.log")).expect("it ran"), format!("{port}\n"));
    let other = room.writer("b", &prepared.base).await;
    assert_ne!(other.environment, added.environment, "each has ports of its own");
    assert!(added.writable.iter().all(|path| path.is_dir()) && added.readable.iter().all(|path| path.is_dir()));
    let plan = room.checkouts.add(GOAL, "plan", &prepared.base, Kind::ReadOnly).await.expect("added");
    assert!(!plan.path.join("target-ports.log").exists());
    let room = Room::with_config(Config { setup: Some("echo no network; exit 7".into()), ..Config::default() });
    let prepared = room.prepare().await;
    for _ in 0..2 {
        let error = room.checkouts.add(GOAL, "a", &prepared.base, Kind::Writer).await.expect_err("it failed");
        assert_eq!(error.to_string(), "the setup command failed: it exited with code 7\nno network\n");
    }
}

#[tokio::test]
async fn checkouts_are_private_to_the_user() {
    let room = Room::new();
    let (_, path) = room.one_writer().await;
    let root = room.directory.path().join("checkouts");
    for directory in [root.clone(), root.join(GOAL), path] {
        assert_eq!(fs::metadata(&directory).expect("there").permissions().mode() & 0o777, 0o700, "{directory:?}");
    }
}

#[tokio::test]
async fn what_is_set_aside_is_gone_at_once_and_freed_later_also_by_another_process() {
    let mut room = Room::new();
    let (prepared, a) = room.one_writer().await;
    let view = room.checkouts.add(GOAL, "view", &prepared.base, Kind::ReadOnly).await.expect("added").path;
    let cleaned = room.checkouts.set_aside(GOAL, Cleanup::Auto, AT).await.expect("cleaned");
    assert!(cleaned.kept.is_empty() && !a.exists() && !view.exists());
    let before = room.checkouts.usage(GOAL).await.expect("usage").bytes;
    assert_eq!(room.checkouts.list_with_trash().await.expect("listed"), [GOAL]);
    room.reopen();
    room.checkouts.empty(GOAL).await.expect("freed");
    room.checkouts.empty(GOAL).await.expect("nothing to do");
    assert!(room.checkouts.list_with_trash().await.expect("listed").is_empty());
    assert!(room.checkouts.usage(GOAL).await.expect("usage").bytes < before);
    let again = room.writer("a", &prepared.base).await.path;
    assert!(again.join("src/lib.rs").exists(), "the goal can go on");
}

#[tokio::test]
async fn a_read_only_checkout_goes_to_another_commit_by_what_differs() {
    let room = Room::new();
    let (prepared, path) = room.one_writer().await;
    let view = room.checkouts.add(GOAL, "view", &prepared.base, Kind::ReadOnly).await.expect("added").path;
    let inode = |name: &str| fs::metadata(view.join(name)).map(|found| found.ino()).ok();
    let same = inode("src/main.rs");
    write(&path.join("src/lib.rs"), "pub fn two() {}\n");
    fs::remove_file(path.join("README.md")).expect("removed");
    let commit = room.checkpoint("a", "k1").await.commit.expect("a commit");
    room.checkouts.add(GOAL, "view", &commit, Kind::ReadOnly).await.expect("added");
    assert_eq!(fs::read_to_string(view.join("src/lib.rs")).expect("a file"), "pub fn two() {}\n");
    assert!(!view.join("README.md").exists());
    assert_eq!(inode("src/main.rs"), same, "it was not written again");
    write(&view.join("src/main.rs"), "changed\n");
    room.checkouts.add(GOAL, "view", &prepared.base, Kind::ReadOnly).await.expect("added");
    assert_eq!(fs::read_to_string(view.join("src/main.rs")).expect("a file"), "fn main() {}\n");
    assert!(view.join("README.md").exists());
}

#[tokio::test]
async fn nothing_that_is_in_no_checkpoint_is_removed() {
    let room = Room::new();
    let (prepared, a) = room.one_writer().await;
    let b = room.writer("b", &prepared.base).await.path;
    write(&a.join("unsaved"), "x\n");
    write(&b.join("debug.log"), "ignored\n");
    let cleaned = room.checkouts.clean(GOAL, Cleanup::Never, AT).await.expect("cleaned");
    assert_eq!((cleaned.bytes, a.exists() && b.exists()), (0, true));
    let cleaned = room.checkouts.clean(GOAL, Cleanup::Auto, AT).await.expect("cleaned");
    assert_eq!(
        cleaned.kept,
        [("a".to_owned(), "it has changes that are in no checkpoint, such as unsaved".to_owned())]
    );
    assert!(a.join("unsaved").exists() && !b.exists());
    let cleaned = room.checkouts.clean(GOAL, Cleanup::Always, AT).await.expect("cleaned");
    assert!(cleaned.kept.is_empty() && !a.exists());
    let kept = room.oid(&format!("refs/drawloom/g1/wip/clean-a-{AT}"));
    assert_eq!(room.show(&kept, "unsaved"), "x");
    room.checkouts.clean(GOAL, Cleanup::Always, AT).await.expect("nothing left to clean");
    // A worker of a later step gets its checkout again, as it was at its last checkpoint, and ports that no other has.
    let other = room.writer("c", &prepared.base).await;
    let again = room.writer("a", &prepared.base).await;
    assert_ne!(again.environment[0], other.environment[0]);
    let again = again.path;
    assert!(again.join("README.md").exists() && !again.join("unsaved").exists());
}

#[tokio::test]
async fn a_tree_of_directories_without_rights_and_of_great_depth_is_removed() {
    let room = Room::new();
    let (_, path) = room.one_writer().await;
    let mut here = path.join("target");
    for _ in 0..300 {
        here.push("deep");
    }
    fs::create_dir_all(&here).expect("directories");
    fs::create_dir_all(path.join("target/closed/inner")).expect("directories");
    fs::set_permissions(path.join("target/closed"), fs::Permissions::from_mode(0o000)).expect("closed");
    let cleaned = room.checkouts.clean(GOAL, Cleanup::Auto, AT).await.expect("cleaned");
    assert!(cleaned.kept.is_empty() && !path.exists());
}

#[tokio::test]
async fn a_goal_stops_before_the_disk_is_full() {
    let mut room = Room::new();
    let (_, path) = room.one_writer().await;
    room.checkouts.check_disk(GOAL).await.expect("enough space");
    write(&path.join("target/large"), &"x".repeat(2_000_000));
    room.config.quota_bytes = Some(1_000_000);
    room.reopen();
    let error = room.checkouts.check_disk(GOAL).await.expect_err("too much");
    assert_eq!(error.code(), "checkout_quota");
    (room.config.quota_bytes, room.config.min_free_bytes) = (None, u64::MAX);
    room.reopen();
    assert_eq!(room.checkouts.check_disk(GOAL).await.expect_err("too little").code(), "disk_full");
}

#[tokio::test]
async fn retention_removes_old_goals_first_and_never_active_ones() {
    let room = Room::new();
    let options = drawloom_checkout::Prepare { at: AT, ..Default::default() };
    for goal in ["active", "new", "old"] {
        let prepared = room.checkouts.prepare(goal, &room.repository, &options).await.expect("prepared");
        let path = room.checkouts.add(goal, "a", &prepared.base, Kind::Writer).await.expect("added").path;
        write(&path.join("unsaved"), goal);
    }
    let touched = |goal: &str| fs::metadata(room.directory.path().join(format!("checkouts/{goal}/state/a.json")));
    let written = touched("old").and_then(|state| state.modified()).expect("a time");
    let now = written.duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let day = Duration::from_secs(86_400);
    for (goal, days) in [("old", 20), ("new", 5), ("active", 40)] {
        for file in ["state/a.json", "goal.json"] {
            let path = room.directory.path().join("checkouts").join(goal).join(file);
            let file = fs::File::options().write(true).open(path).expect("a file");
            file.set_modified(written - day * days).expect("set");
        }
    }
    let now = Timestamp::from_millis(i64::try_from(now.as_millis()).expect("a time"));
    let active = ["active".to_owned()];
    let asked = Retention { active: &active, keep: day * 10, quota_bytes: None };
    let done = room.checkouts.retain(now, &asked).await.expect("done");
    assert_eq!((done.removed, done.failed), (vec!["old".to_owned()], vec![]));
    assert!(room.refs().keys().any(|name| name.starts_with("refs/drawloom/old/wip/clean-a-")), "{:?}", room.refs());
    let asked = Retention { active: &active, keep: day * 10, quota_bytes: Some(0) };
    let done = room.checkouts.retain(now, &asked).await.expect("done");
    assert_eq!(done.removed, ["new"]);
    assert_eq!(room.checkouts.info("active").await.expect("info").checkouts.len(), 1);
}

#[tokio::test]
async fn a_checkout_with_files_that_no_checkpoint_has_is_not_removed_by_itself() {
    let room = Room::new();
    let (_, path) = room.one_writer().await;
    write(&path.join(".env.local"), "KEY=1\n");
    write(&path.join("target/built"), "x\n");
    room.checkpoint("a", "k1").await;
    let kept = room.checkouts.clean(GOAL, Cleanup::Auto, AT).await.expect("cleaned");
    let expected = ("a".to_owned(), "it has files that checkpoints leave out, such as .env.local".to_owned());
    assert_eq!(kept.kept, [expected]);
    fs::remove_file(path.join(".env.local")).expect("removed");
    let gone = room.checkouts.clean(GOAL, Cleanup::Auto, AT).await.expect("cleaned");
    assert!(gone.kept.is_empty() && !path.exists(), "ignored files do not keep it: {gone:?}");
}

#[tokio::test]
async fn setup_ends_with_the_time_of_its_goal() {
    let room = Room::with_config(Config { setup: Some("sleep 1000".into()), ..Config::default() });
    let prepared = room.prepare().await;
    let within = Some(std::time::Duration::from_millis(500));
    let error = room.checkouts.add_within(GOAL, "a", &prepared.base, Kind::Writer, within).await.expect_err("too slow");
    assert!(error.to_string().contains("it took longer than its timeout"), "{error}");
}

#[tokio::test]
async fn a_forgotten_goal_leaves_its_branch_and_nothing_else() {
    let room = Room::new();
    let (_, path) = room.one_writer().await;
    write(&path.join("new.txt"), "x\n");
    room.checkpoint("a", "k1").await;
    let before = room.refs();
    let forgotten = room.checkouts.forget(GOAL, ResultBranch::Keep).await.expect("forgotten");
    let ours: Vec<&String> = before.keys().filter(|name| name.starts_with("refs/drawloom/")).collect();
    assert_eq!(forgotten.refs, ours.len());
    assert!(!ours.is_empty() && room.refs().keys().all(|name| !name.starts_with("refs/drawloom/")), "{ours:?}");
    assert!(!room.directory.path().join("checkouts").join(GOAL).exists());
    assert!(room.checkouts.list().await.expect("listed").is_empty());
    let again = room.checkouts.forget(GOAL, ResultBranch::Keep).await.expect("it can be repeated");
    assert_eq!((again.refs, again.branch, again.repository), (0, None, None));
}
