//! The whole life of a goal: prepare, add, checkpoint, merge, verify, land, clean up.

use std::fs;

use drawloom_checkout::{Cleanup, Kind, Land, Merge, Status, Step, Verdict};

use crate::support::{AT, GOAL, Room, SECRET, git, verify, write};

#[tokio::test]
async fn two_workers_are_merged_verified_and_landed_and_the_checkout_of_the_user_is_untouched() {
    let room = Room::new();
    git(&room.repository, &["branch", "other"]);
    room.write("untracked.txt", "mine\n");
    let before = room.fingerprint();
    let prepared = room.prepare().await;
    assert_eq!(prepared.base, room.oid("main"));
    assert_eq!((prepared.base_branch.as_deref(), prepared.branch.as_str()), (Some("main"), "drawloom/g1"));
    assert_eq!(prepared.warnings, ["workers do not see 1 uncommitted file of your checkout, such as untracked.txt"]);
    let (a, b) = (room.writer("a", &prepared.base).await, room.writer("b", &prepared.base).await);
    assert_eq!(git(&a.path, &["status", "--porcelain"]), "");
    assert_eq!(git(&a.path, &["log", "--format=%s"]), "first");
    assert!(!a.path.join("untracked.txt").exists());
    write(&a.path.join("src/new.rs"), "pub fn two() {}\n");
    write(&a.path.join("target/build"), "x");
    fs::remove_file(b.path.join("README.md")).expect("removed");
    write(&b.path.join("src/lib.rs"), "pub fn one() -> u32 {\n    2\n}\n");
    let (first, second) = (room.checkpoint("a", "k1").await, room.checkpoint("b", "k1").await);
    assert_eq!((first.insertions, first.deletions, first.changed.len()), (1, 0, 1));
    assert_eq!((first.changed[0].path.as_str(), first.changed[0].status), ("src/new.rs", Status::Added));
    assert_eq!(first.left_out.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), ["target/"]);
    assert_eq!(
        second.changed.iter().map(|change| change.status).collect::<Vec<_>>(),
        [Status::Deleted, Status::Modified]
    );
    let commits = [first.commit.expect("a commit"), second.commit.expect("a commit")];
    let mut head = prepared.base.clone();
    let mut tree = None;
    for commit in &commits {
        match room.checkouts.merge(GOAL, &head, commit, "merge", AT).await.expect("a merge") {
            Merge::Merged { commit, tree: merged } => (head, tree) = (commit, Some(merged)),
            other => panic!("{other:?}"),
        }
    }
    let again = room.checkouts.merge(GOAL, &head, &commits[0], "merge", AT).await.expect("a merge");
    assert_eq!(again, Merge::Nothing);
    assert_eq!(room.oid("drawloom/g1"), head);
    assert_eq!(room.paths(&head), [".gitignore", "src/lib.rs", "src/main.rs", "src/new.rs", "tests/check.sh"]);
    let verified =
        room.checkouts.verify(GOAL, &verify(&head, "sh tests/check.sh && test ! -e README.md && echo ok")).await;
    let verified = verified.expect("verified");
    assert!(verified.passed, "{verified:?}");
    assert_eq!((Some(&verified.tree), verified.results[0].output_tail.as_str()), (tree.as_ref(), "ok\n"));
    let again =
        room.checkouts.verify(GOAL, &verify(&head, "sh tests/check.sh && test ! -e README.md && echo ok")).await;
    assert!(again.expect("verified").cached);
    let verdict = Verdict::Passed(verified.tree.clone());
    let landed = room.checkouts.land(GOAL, None, &head, &verdict).await.expect("an answer");
    let Land::CheckedOut { command, .. } = landed else { panic!("{landed:?}") };
    assert_eq!(command, "git merge --ff-only drawloom/g1");
    assert_eq!(room.fingerprint(), before);
    let landed = room.checkouts.land(GOAL, Some("other"), &head, &verdict).await.expect("an answer");
    assert_eq!(landed, Land::FastForwarded { branch: "other".into(), old: prepared.base.clone(), new: head.clone() });
    let repeated = room.checkouts.land(GOAL, Some("other"), &head, &verdict).await.expect("an answer");
    assert_eq!(repeated, Land::AlreadyLanded { branch: "other".into(), at: head.clone() });
    assert_eq!(room.oid("other"), head);
    git(&room.repository, &command.split(' ').skip(1).collect::<Vec<_>>());
    assert_eq!(room.oid("main"), head);
    let info = room.checkouts.info(GOAL).await.expect("info");
    assert_eq!((info.checkouts.len(), info.head), (2, Some(head)));
    let cleaned = room.checkouts.clean(GOAL, Cleanup::Auto, AT).await.expect("cleaned");
    assert!(cleaned.kept.is_empty() && cleaned.bytes > 0, "{cleaned:?}");
    assert!(!a.path.exists() && !b.path.exists());
    assert_eq!(room.checkouts.list().await.expect("a list"), [GOAL]);
    assert_eq!(room.oid("refs/drawloom/g1/a/1"), commits[0]);
}

#[tokio::test]
async fn what_lies_in_a_checkout_can_be_looked_at_and_is_a_ref_when_the_checkout_is_removed() {
    let room = Room::new();
    let prepared = room.prepare().await;
    let a = room.writer("a", &prepared.base).await;
    let clean = room.checkouts.contents(GOAL, "a").await.expect("contents");
    assert!(clean.changed.is_empty() && clean.left_out.is_empty() && clean.bytes > 0, "{clean:?}");
    write(&a.path.join("src/new.rs"), "pub fn two() {}\n");
    write(&a.path.join(".env"), "KEY=1\n");
    let refs = git(&room.repository, &["for-each-ref"]);
    let found = room.checkouts.contents(GOAL, "a").await.expect("contents");
    assert_eq!(found.changed.iter().map(|change| change.path.as_str()).collect::<Vec<_>>(), ["src/new.rs"]);
    assert_eq!(found.left_out.iter().map(|left| left.path.as_str()).collect::<Vec<_>>(), [".env"]);
    assert_eq!(git(&room.repository, &["for-each-ref"]), refs, "a look makes no ref");
    let diff = room.checkouts.diff(GOAL, &prepared.base, &found.tree, 10_000).await.expect("a difference");
    assert!(diff.text.contains("+pub fn two() {}"), "{}", diff.text);
    let kept = room.checkouts.clean(GOAL, Cleanup::Auto, AT).await.expect("cleaned");
    assert!(kept.kept.len() == 1 && kept.saved.is_empty() && a.path.is_dir(), "{kept:?}");
    let removed = room.checkouts.clean(GOAL, Cleanup::Always, AT).await.expect("cleaned");
    let [(name, reference)] = &removed.saved[..] else { panic!("{removed:?}") };
    assert!(name == "a" && removed.kept.is_empty() && !a.path.exists(), "{removed:?}");
    assert_eq!(git(&room.repository, &["show", &format!("{reference}:src/new.rs")]), "pub fn two() {}");
}

#[tokio::test]
async fn a_checkpoint_has_our_identity_the_given_time_and_the_same_id_each_time() {
    let mut ids = Vec::new();
    for _ in 0..2 {
        let room = Room::new();
        // The base must be the same too.
        git(&room.repository, &["commit", "-q", "--amend", "-m", "first", "--date=@1 +0000"]);
        let tree = git(&room.repository, &["rev-parse", "HEAD^{tree}"]);
        let (_, path) = room.one_writer().await;
        write(&path.join("src/new.rs"), "new\n");
        let checkpoint = room.checkpoint("a", "k1").await;
        let commit = checkpoint.commit.expect("a commit");
        let shown = git(&room.repository, &["show", "-s", "--format=%an %ae %at %cn %ce %ct %s", commit.as_str()]);
        let expected = "drawloom drawloom@localhost 1700000000 drawloom drawloom@localhost 1700000000 a step";
        assert_eq!(shown, expected);
        ids.push((tree, checkpoint.tree));
    }
    assert_eq!(ids[0], ids[1]);
}

#[tokio::test]
async fn the_next_step_builds_on_the_last_and_a_reset_brings_the_merged_state() {
    let room = Room::new();
    let (prepared, a) = room.one_writer().await;
    let b = room.writer("b", &prepared.base).await.path;
    write(&a.join("one"), "1\n");
    write(&b.join("two"), "2\n");
    let (first, second) = (room.checkpoint("a", "k1").await, room.checkpoint("b", "k1").await);
    let repeated = room.checkpoint("a", "k1").await;
    assert_eq!(repeated, first);
    write(&a.join("one"), "11\n");
    let third = room.checkpoint("a", "k2").await;
    assert_eq!(
        (Some(&third.parent), third.reference.as_deref()),
        (first.commit.as_ref(), Some("refs/drawloom/g1/a/2"))
    );
    let nothing = room.checkpoint("a", "k3").await;
    assert_eq!((nothing.commit, nothing.reference, nothing.tree), (None, None, third.tree.clone()));
    let mut head = prepared.base;
    for commit in [&third.commit, &second.commit] {
        let commit = commit.as_ref().expect("a commit");
        let merged = room.checkouts.merge(GOAL, &head, commit, "m", AT).await.expect("a merge");
        let Merge::Merged { commit, .. } = merged else { panic!("{merged:?}") };
        head = commit;
    }
    write(&a.join("one"), "111\n");
    write(&a.join("build.log"), "kept\n");
    let refused = room.checkouts.reset(GOAL, "a", &head).await.expect_err("it has changes");
    assert_eq!(refused.to_string(), "the checkout \"a\" has changes that are not in a checkpoint: one");
    room.checkpoint("a", "k4").await;
    room.checkouts.reset(GOAL, "a", &head).await.expect("reset");
    room.checkouts.reset(GOAL, "a", &head).await.expect("reset again");
    let read = |name: &str| fs::read_to_string(a.join(name)).expect("a file");
    assert_eq!((read("one"), read("two"), read("build.log")), ("11\n".into(), "2\n".into(), "kept\n".into()));
    assert_eq!(git(&a, &["status", "--porcelain"]), "");
    assert_eq!(git(&a, &["rev-parse", "HEAD"]), head.to_string());
    write(&a.join("three"), "3\n");
    let next = room.checkpoint("a", "k5").await;
    assert_eq!((next.parent, next.changed.len()), (head, 1));
    assert_eq!(room.oid("refs/drawloom/g1/a/4"), next.commit.expect("a commit"));
}

#[tokio::test]
async fn a_read_only_checkout_is_brought_to_the_commit_exactly_and_a_writer_is_kept() {
    let room = Room::new();
    let (prepared, a) = room.one_writer().await;
    write(&a.join("src/new.rs"), "new\n");
    let commit = room.checkpoint("a", "k1").await.commit.expect("a commit");
    let plan = room.checkouts.add(GOAL, "plan", &prepared.base, Kind::ReadOnly).await.expect("added").path;
    assert!(!plan.join("src/new.rs").exists());
    for (name, content) in
        [("left.txt", "x"), ("target/left", "x"), ("README.md", "changed"), (".git/hooks/post-checkout", "x")]
    {
        write(&plan.join(name), content);
    }
    let again = room.checkouts.add(GOAL, "plan", &commit, Kind::ReadOnly).await.expect("added");
    assert_eq!(again.path, plan);
    assert!(plan.join("src/new.rs").exists() && !plan.join("left.txt").exists() && !plan.join("target").exists());
    assert!(!plan.join(".git/hooks/post-checkout").exists());
    assert_eq!(git(&plan, &["status", "--porcelain", "--ignored"]), "");
    assert_eq!(git(&plan, &["rev-parse", "HEAD"]), commit.to_string());
    let error = room.checkouts.checkpoint(GOAL, "plan", &Step { message: "m", at: AT, key: "k" }).await;
    assert_eq!(error.expect_err("refused").to_string(), "the checkout \"plan\" is read-only; it has nothing to keep");
    write(&a.join("more"), "more\n");
    assert_eq!(room.writer("a", &prepared.base).await.path, a);
    assert!(a.join("more").exists() && a.join("src/new.rs").exists());
}

#[tokio::test]
async fn a_checkout_is_opened_by_its_goal_and_name_and_no_link_is_followed() {
    let room = Room::new();
    let prepared = room.prepare().await;
    let added = room.writer("a", &prepared.base).await;
    let root = added.path.ancestors().nth(3).expect("the directory of all checkouts").to_owned();
    let opened = drawloom_checkout::open(&root, GOAL, "a").expect("a checkout");
    assert_eq!((opened.kind, &opened.path), (Kind::Writer, &added.path));
    assert_eq!((&opened.environment, &opened.readable), (&added.environment, &added.readable));
    for (goal, name) in [("g2", "a"), (GOAL, "b"), (GOAL, ".."), ("..", "a"), (GOAL, "a/src")] {
        assert!(drawloom_checkout::open(&root, goal, name).is_err(), "{goal} {name}");
    }
    fs::rename(&added.path, added.path.with_file_name("moved")).expect("moved");
    std::os::unix::fs::symlink(added.path.with_file_name("moved"), &added.path).expect("a link");
    assert!(drawloom_checkout::open(&root, GOAL, "a").is_err(), "a link in its place");
}

#[tokio::test]
async fn a_conflict_goes_back_with_the_output_and_the_branch_stays() {
    let room = Room::new();
    let (prepared, a) = room.one_writer().await;
    let b = room.writer("b", &prepared.base).await.path;
    write(&a.join("README.md"), "# Project\n\nText of a.\n");
    write(&b.join("README.md"), "# Project\n\nText of b.\n");
    let first = room.checkpoint("a", "k1").await.commit.expect("a commit");
    let second = room.checkpoint("b", "k1").await.commit.expect("a commit");
    let merged = room.checkouts.merge(GOAL, &prepared.base, &first, "m", AT).await.expect("a merge");
    let Merge::Merged { commit: head, .. } = merged else { panic!("{merged:?}") };
    let conflict = room.checkouts.merge(GOAL, &head, &second, "m", AT).await.expect("an answer");
    let Merge::Conflict { files, output } = conflict else { panic!("{conflict:?}") };
    assert_eq!(files, ["README.md"]);
    assert!(output.contains("CONFLICT (content)") && output.contains("+Text of a."), "{output}");
    assert_eq!(room.oid("drawloom/g1"), head);
    let late = room.checkouts.merge(GOAL, &prepared.base, &second, "m", AT).await.expect_err("the branch is elsewhere");
    assert!(late.to_string().contains("not at"), "{late}");
}

#[tokio::test]
async fn a_diff_is_cut_in_the_middle_of_a_file_and_masks_secrets() {
    let room = Room::new();
    room.write("old.txt", &format!("{SECRET}\n"));
    room.commit("a secret of the user");
    let (prepared, a) = room.one_writer().await;
    let many: String = (0..2000).map(|line| format!("line {line}\n")).collect();
    write(&a.join("many.txt"), &many);
    fs::remove_file(a.join("old.txt")).expect("removed");
    let commit = room.checkpoint("a", "k1").await.commit.expect("a commit");
    let diff = room.checkouts.diff(GOAL, &prepared.base, &commit, 4000).await.expect("a diff");
    assert!(diff.truncated && diff.text.len() < 4100 && diff.text.contains("bytes omitted"), "{}", diff.text);
    assert!(diff.text.contains("+line 0\n") && diff.text.contains("+line 1999"));
    assert!(diff.text.contains(" bytes of the difference of many.txt are not shown]\n"), "{}", diff.text);
    assert!(diff.text.contains("--- a/old.txt"), "the other file is whole: {}", diff.text);
    let sizes: Vec<_> = diff.files.iter().map(|file| (file.path.as_str(), file.bytes)).collect();
    assert_eq!(sizes, [("many.txt", Some(many.len() as u64)), ("old.txt", Some(0))]);
    assert_eq!((diff.files.len(), diff.insertions, diff.deletions), (2, 2000, 1));
    let whole = room.checkouts.diff(GOAL, &prepared.base, &commit, 1_000_000).await.expect("a diff");
    assert!(!whole.truncated && whole.text.contains("+line 1000\n"));
    assert!(whole.text.contains("-[redacted]\n") && !whole.text.contains(SECRET));
}

#[tokio::test]
async fn setup_prepares_checkouts_of_verification_and_its_failure_there_is_a_failed_verification() {
    let setup = Some("mkdir -p target && sh deps.sh > target/deps".into());
    let room = Room::with_config(drawloom_checkout::Config { setup, ..drawloom_checkout::Config::default() });
    room.write("deps.sh", "echo installed\n");
    room.commit("second");
    let (prepared, path) = room.one_writer().await;
    let asked = verify(&prepared.base, "grep -q installed target/deps");
    let verified = room.checkouts.verify(GOAL, &asked).await.expect("verified");
    assert!(verified.passed && verified.results.len() == 1, "{verified:?}");
    write(&path.join("deps.sh"), "echo broken >&2; exit 3\n");
    let commit = room.checkpoint("a", "k1").await.commit.expect("a commit");
    let asked = verify(&commit, "true");
    let verified = room.checkouts.verify(GOAL, &asked).await.expect("verified");
    let [failed] = &verified.results[..] else { panic!("{verified:?}") };
    assert!(!verified.passed && failed.name.starts_with("setup: ") && failed.exit_code == Some(3), "{verified:?}");
}
