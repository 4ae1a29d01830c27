//! Repositories of many kinds, and what of the user's checkout a goal takes in.

use std::fs;

use drawloom_checkout::{Checkouts, Config, Error, Kind, Land, Merge, Prepare, Prepared, Verdict};
use drawloom_contract::failure::Explain as _;

use crate::support::{AT, GOAL, Room, SECRET, git, verify, write};

fn options() -> Prepare {
    Prepare { at: AT, ..Prepare::default() }
}

/// A change by one worker, merged and verified.
async fn one_change(checkouts: &Checkouts, prepared: &Prepared) -> drawloom_checkout::Oid {
    let added = checkouts.add(GOAL, "a", &prepared.base, Kind::Writer).await.expect("added");
    write(&added.directory.join("new.txt"), "new\n");
    let step = drawloom_checkout::Step { message: "m", at: AT, key: "k1" };
    let commit = checkouts.checkpoint(GOAL, "a", &step).await.expect("a checkpoint").commit.expect("a commit");
    let merged = checkouts.merge(GOAL, &prepared.base, &commit, "m", AT).await.expect("a merge");
    let Merge::Merged { commit, .. } = merged else { panic!("{merged:?}") };
    let verified = checkouts.verify(GOAL, &verify(&commit, "test -e new.txt && git log -1")).await.expect("verified");
    assert!(verified.passed, "{verified:?}");
    commit
}

#[tokio::test]
async fn a_repository_with_sha256_works() {
    let room = Room::with(&["init", "-q", "-b", "main", "--object-format=sha256"], Config::default());
    let prepared = room.prepare().await;
    let head = one_change(&room.checkouts, &prepared).await;
    assert_eq!(head.as_str().len(), 64);
    assert_eq!(
        git(&room.checkouts.info(GOAL).await.expect("info").checkouts[0].path, &["status", "--porcelain"]),
        "?? new.txt"
    );
}

#[tokio::test]
async fn a_linked_worktree_works_and_its_branch_is_not_moved() {
    let room = Room::new();
    let linked = room.directory.path().join("linked");
    git(&room.repository, &["worktree", "add", "-q", "-b", "feature", linked.to_str().expect("text")]);
    write(&linked.join("only-here.txt"), "x\n");
    git(&linked, &["add", "."]);
    git(&linked, &["commit", "-qm", "in the worktree"]);
    let before = room.fingerprint();
    let prepared = room.checkouts.prepare(GOAL, &linked, &options()).await.expect("prepared");
    assert_eq!((prepared.base_branch.as_deref(), &prepared.repository), (Some("feature"), &linked));
    assert_eq!(prepared.base, room.oid("feature"));
    let head = one_change(&room.checkouts, &prepared).await;
    let landed = room.checkouts.land(GOAL, None, &head, &Verdict::NotAsked).await.expect("an answer");
    let Land::CheckedOut { branch, worktree, .. } = landed else { panic!("{landed:?}") };
    assert_eq!((branch.as_str(), worktree.as_str()), ("feature", linked.to_str().expect("text")));
    assert_eq!(room.fingerprint(), before);
}

#[tokio::test]
async fn a_shallow_clone_works() {
    let origin = Room::new();
    origin.commit("second");
    origin.commit("third");
    let room = Room::empty(&["init", "-q"], Config::default());
    let shallow = room.directory.path().join("shallow");
    let url = format!("file://{}", origin.repository.display());
    git(room.directory.path(), &["clone", "-q", "--depth=1", &url, shallow.to_str().expect("text")]);
    let prepared = room.checkouts.prepare(GOAL, &shallow, &options()).await.expect("prepared");
    assert_eq!(prepared.warnings, ["the repository is a shallow clone: workers see only the history that it has"]);
    let head = one_change(&room.checkouts, &prepared).await;
    git(&shallow, &["fsck", "--strict"]);
    assert_eq!(git(&shallow, &["rev-parse", "drawloom/g1"]), head.to_string());
}

#[tokio::test]
async fn a_partial_clone_works_when_it_has_the_files_of_the_base() {
    let origin = Room::new();
    git(&origin.repository, &["config", "uploadpack.allowFilter", "true"]);
    let room = Room::empty(&["init", "-q"], Config::default());
    let partial = room.directory.path().join("partial");
    let url = format!("file://{}", origin.repository.display());
    let clone = ["clone", "-q", "--filter=blob:none", "--no-checkout", &url, partial.to_str().expect("text")];
    git(room.directory.path(), &clone);
    let error = room.checkouts.prepare(GOAL, &partial, &options()).await.expect_err("it lacks files");
    assert!(error.to_string().ends_with("lacks files of the base: 5 files are not fetched"), "{error}");
    git(&partial, &["checkout", "-q", "main"]);
    let prepared = room.checkouts.prepare(GOAL, &partial, &options()).await.expect("prepared");
    one_change(&room.checkouts, &prepared).await;
}

#[tokio::test]
async fn a_goal_whose_preparation_was_killed_starts_from_the_head_of_now() {
    let room = Room::new();
    git(&room.repository, &["update-ref", "refs/drawloom/g1/base", "HEAD"]);
    let moved = room.commit("meanwhile");
    assert_eq!(room.prepare().await.base, moved);
    assert_eq!(room.oid("refs/drawloom/g1/base"), moved);
}

#[tokio::test]
async fn a_bare_repository_lands_on_its_branch() {
    let origin = Room::new();
    let bare = origin.directory.path().join("bare.git");
    git(origin.directory.path(), &["clone", "-q", "--bare", "project", "bare.git"]);
    let prepared = origin.checkouts.prepare(GOAL, &bare, &options()).await.expect("prepared");
    let head = one_change(&origin.checkouts, &prepared).await;
    let landed = origin.checkouts.land(GOAL, None, &head, &Verdict::NotAsked).await.expect("landed");
    assert_eq!(landed, Land::FastForwarded { branch: "main".into(), old: prepared.base, new: head.clone() });
    assert_eq!(git(&bare, &["rev-parse", "main"]), head.to_string());
}

#[tokio::test]
async fn a_detached_head_needs_a_branch_to_land_on() {
    let room = Room::new();
    git(&room.repository, &["checkout", "-q", "--detach"]);
    let prepared = room.prepare().await;
    assert_eq!(prepared.base_branch, None);
    let head = one_change(&room.checkouts, &prepared).await;
    let error = room.checkouts.land(GOAL, None, &head, &Verdict::NotAsked).await.expect_err("no branch");
    assert_eq!(error.code(), "no_branch");
    let landed = room.checkouts.land(GOAL, Some("main"), &head, &Verdict::NotAsked).await.expect("landed");
    assert!(matches!(landed, Land::FastForwarded { .. }), "{landed:?}");
    let error = room.checkouts.land(GOAL, Some("typo"), &head, &Verdict::NotAsked).await.expect_err("no such branch");
    assert_eq!(error.to_string(), "unknown branch \"typo\"");
}

#[tokio::test]
async fn landing_refuses_other_trees_and_branches_that_went_on() {
    let room = Room::new();
    git(&room.repository, &["checkout", "-q", "-b", "else"]);
    let prepared =
        room.checkouts.prepare(GOAL, &room.repository, &Prepare { base: Some("main".into()), ..options() }).await;
    let prepared = prepared.expect("prepared");
    assert_eq!(prepared.base_branch.as_deref(), Some("main"));
    let head = one_change(&room.checkouts, &prepared).await;
    let other = Verdict::Passed(prepared.base_tree.clone());
    let landed = room.checkouts.land(GOAL, None, &head, &other).await.expect("an answer");
    assert!(matches!(landed, Land::NotVerified { .. }), "{landed:?}");
    git(&room.repository, &["checkout", "-q", "main"]);
    let gone_on = room.commit("meanwhile");
    git(&room.repository, &["checkout", "-q", "else"]);
    let landed = room.checkouts.land(GOAL, None, &head, &Verdict::NotAsked).await.expect("an answer");
    assert_eq!(
        landed,
        Land::NotFastForward { branch: "main".into(), at: gone_on.clone(), command: "git merge drawloom/g1".into() }
    );
    assert_eq!(room.oid("main"), gone_on);
}

#[tokio::test]
async fn the_branch_of_the_goal_is_not_moved_while_it_is_checked_out() {
    let room = Room::new();
    let prepared = room.prepare().await;
    let head = one_change(&room.checkouts, &prepared).await;
    git(&room.repository, &["checkout", "-q", "drawloom/g1"]);
    write(&room.checkouts.info(GOAL).await.expect("info").checkouts[0].path.join("more.txt"), "x\n");
    let commit = room.checkpoint("a", "k2").await.commit.expect("a commit");
    let error = room.checkouts.merge(GOAL, &head, &commit, "m", AT).await.expect_err("refused");
    assert_eq!(error.code(), "branch_checked_out");
    assert_eq!(room.oid("HEAD"), head);
    git(&room.repository, &["checkout", "-q", "main"]);
    room.checkouts.merge(GOAL, &head, &commit, "m", AT).await.expect("merged");
}

#[tokio::test]
async fn what_cannot_be_prepared_is_an_error_that_says_what_to_do() {
    let room = Room::empty(&["init", "-q"], Config::default());
    let prepare = async |directory: &std::path::Path, options: &Prepare| -> Error {
        room.checkouts.prepare(GOAL, directory, options).await.expect_err("an error")
    };
    let error = prepare(&room.repository, &options()).await;
    assert_eq!((error.code(), error.hint().is_some()), ("no_commit", true));
    // Not below a repository, as the directory of tests is.
    let elsewhere = tempfile::tempdir().expect("a directory");
    assert_eq!(prepare(elsewhere.path(), &options()).await.code(), "not_a_repository");
    assert_eq!(prepare(&room.directory.path().join("none"), &options()).await.code(), "not_a_repository");
    room.write("a", "x\n");
    room.commit("first");
    for base in ["nonsense", "--upload-pack=x", ""] {
        let error = prepare(&room.repository, &Prepare { base: Some(base.into()), ..options() }).await;
        assert_eq!(error.code(), "unknown_base", "{base}");
    }
    git(&room.repository, &["branch", "drawloom"]);
    assert_eq!(prepare(&room.repository, &options()).await.code(), "branch_exists");
    git(&room.repository, &["branch", "-m", "drawloom", "drawloom/g1"]);
    assert_eq!(prepare(&room.repository, &options()).await.code(), "branch_exists");
    git(&room.repository, &["branch", "-D", "drawloom/g1"]);
    room.checkouts.prepare(GOAL, &room.repository, &options()).await.expect("prepared");
    let other = Prepare { uncommitted: true, ..options() };
    assert_eq!(prepare(&room.repository, &other).await.code(), "other_options");
    let error = room.checkouts.prepare("../x", &room.repository, &options()).await.expect_err("an invalid name");
    assert_eq!(error.code(), "invalid_checkout_value");
    let error = room.checkouts.info("none").await.expect_err("unknown");
    assert_eq!(error.to_string(), "unknown goal none: it has no checkouts here");
}

#[tokio::test]
async fn workers_get_the_same_subdirectory() {
    let room = Room::new();
    room.write("packages/one/package.json", "{}\n");
    room.commit("a package");
    let prepared =
        room.checkouts.prepare(GOAL, &room.repository.join("packages/one"), &options()).await.expect("prepared");
    assert_eq!(prepared.subdirectory, "packages/one");
    let added = room.checkouts.add(GOAL, "a", &prepared.base, Kind::Writer).await.expect("added");
    assert_eq!(added.directory, added.path.join("packages/one"));
    write(&added.path.join("outside.txt"), "x\n");
    write(&added.directory.join("inside.txt"), "x\n");
    let checkpoint = room.checkpoint("a", "k1").await;
    assert_eq!(checkpoint.changed.len(), 2);
    let commit = checkpoint.commit.expect("a commit");
    let verified =
        room.checkouts.verify(GOAL, &verify(&commit, "test -e inside.txt && test -e ../../outside.txt")).await;
    assert!(verified.expect("verified").passed);
}

#[tokio::test]
async fn uncommitted_files_become_a_commit_of_ours_and_the_index_of_the_user_stays() {
    let room = Room::new();
    room.write("README.md", "unstaged\n");
    room.write("staged.txt", "staged\n");
    git(&room.repository, &["add", "staged.txt"]);
    room.write("staged.txt", "staged, then changed\n");
    room.write("untracked.txt", "untracked\n");
    room.write("secret.txt", &format!("{SECRET}\n"));
    room.write(".env", "KEY=x\n");
    room.write("debug.log", "ignored\n");
    fs::remove_file(room.repository.join("src/lib.rs")).expect("removed");
    git(&room.repository, &["rm", "-q", "--cached", "tests/check.sh"]);
    let before = room.fingerprint();
    let asked = Prepare { uncommitted: true, ..options() };
    let prepared = room.checkouts.prepare(GOAL, &room.repository, &asked).await.expect("prepared");
    assert_eq!(room.fingerprint(), before);
    assert_eq!(prepared.base_commit, room.oid("HEAD"));
    assert_ne!(prepared.base, prepared.base_commit);
    assert_eq!(room.oid(&format!("{}^", prepared.base)), prepared.base_commit);
    let paths = [".gitignore", "README.md", "src/main.rs", "staged.txt", "tests/check.sh", "untracked.txt"];
    assert_eq!(room.paths(&prepared.base), paths);
    assert_eq!(room.show(&prepared.base, "staged.txt"), "staged, then changed");
    assert_eq!(room.oid("refs/drawloom/g1/base"), prepared.base);
    let left_out =
        ["the uncommitted file .env is left out: secret_name", "the uncommitted file secret.txt is left out: secret"];
    assert_eq!(prepared.warnings, left_out);
    let again = room.checkouts.prepare(GOAL, &room.repository, &asked).await.expect("prepared");
    assert_eq!(again, prepared);
    one_change(&room.checkouts, &prepared).await;
}

#[tokio::test]
async fn included_ignored_files_are_copied_into_each_checkout_and_never_committed() {
    let room = Room::new();
    room.write(".env", "KEY=x\n");
    room.write("target/cache/data", "cached\n");
    room.write("notes/todo.txt", "untracked\n");
    room.write("other.txt", "not included\n");
    let include = vec![".env".to_owned(), "target/cache/**".to_owned(), "notes/*.txt".to_owned()];
    let prepared =
        room.checkouts.prepare(GOAL, &room.repository, &Prepare { include, ..options() }).await.expect("prepared");
    assert!(room.paths(&prepared.base).contains(&"notes/todo.txt".to_owned()));
    let (a, plan) = (room.writer("a", &prepared.base).await.path, "plan");
    let plan = room.checkouts.add(GOAL, plan, &prepared.base, Kind::ReadOnly).await.expect("added").path;
    for path in [&a, &plan] {
        assert_eq!(fs::read_to_string(path.join(".env")).expect("copied"), "KEY=x\n");
        assert!(path.join("target/cache/data").exists() && path.join("notes/todo.txt").exists());
        assert!(!path.join("other.txt").exists());
    }
    write(&a.join("new.txt"), "new\n");
    let checkpoint = room.checkpoint("a", "k1").await;
    assert_eq!(checkpoint.changed.len(), 1, "{:?}", checkpoint.changed);
    let verified = room.checkouts.verify(GOAL, &verify(&checkpoint.commit.expect("a commit"), "cat .env")).await;
    assert!(verified.expect("verified").passed);
}

#[tokio::test]
async fn line_ends_are_kept_as_the_user_has_them() {
    let room = Room::new();
    git(&room.repository, &["config", "core.autocrlf", "true"]);
    room.write("text.txt", "one\r\ntwo\r\n");
    room.commit("text");
    assert_eq!(git(&room.repository, &["cat-file", "blob", "HEAD:text.txt"]), "one\ntwo");
    let (_, path) = room.one_writer().await;
    assert_eq!(fs::read(path.join("text.txt")).expect("text"), b"one\r\ntwo\r\n");
    assert_eq!(room.checkpoint("a", "k0").await.commit, None);
    write(&path.join("text.txt"), "one\r\ntwo\r\nthree\r\n");
    let checkpoint = room.checkpoint("a", "k1").await;
    assert_eq!((checkpoint.insertions, checkpoint.deletions), (1, 0));
}

#[tokio::test]
async fn rules_about_ignored_files_of_the_user_count_and_large_files_of_lfs_are_pointers() {
    let room = Room::new();
    write(&room.repository.join(".git/info/exclude"), "*.tmp\n");
    write(&room.directory.path().join("home/.config/git/ignore"), "*.swp\n");
    room.write(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n");
    room.commit("attributes");
    let (prepared, path) = room.one_writer().await;
    assert_eq!(
        prepared.warnings,
        ["Git LFS is not used in checkouts: workers see pointer files in place of large files"]
    );
    for name in ["a.tmp", "b.swp", "c.txt"] {
        write(&path.join(name), "x\n");
    }
    let checkpoint = room.checkpoint("a", "k1").await;
    assert_eq!(checkpoint.changed.iter().map(|change| change.path.as_str()).collect::<Vec<_>>(), ["c.txt"]);
}

#[tokio::test]
async fn a_file_with_the_name_of_an_old_directory_and_the_other_way_round() {
    let room = Room::new();
    let (_, path) = room.one_writer().await;
    fs::remove_dir_all(path.join("src")).expect("removed");
    write(&path.join("src"), "a file\n");
    fs::remove_file(path.join("README.md")).expect("removed");
    write(&path.join("README.md/inside"), "x\n");
    let commit = room.checkpoint("a", "k1").await.commit.expect("a commit");
    assert_eq!(room.paths(&commit), [".gitignore", "README.md/inside", "src", "tests/check.sh"]);
    let base = room.oid("main");
    room.checkouts.reset(GOAL, "a", &base).await.expect("reset");
    assert_eq!(git(&path, &["status", "--porcelain"]), "");
}
