//! Git, or drawloom, killed at every git command: the calls are repeated, and the result is that of an undisturbed run.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use drawloom_checkout::{Checkpoint, Cleanup, Config, Error, Kind, Land, Merge, Oid, Prepare, Step, Verdict, Verified};

use crate::support::{AT, GOAL, Room, git, verify, write, write_program};

/// What is done at one of the git commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// Git is killed before it does anything.
    Before,
    /// Git is killed when it is done and has not said so.
    After,
    /// Drawloom is killed while git waits, and started again.
    Drawloom,
}

/// A git that counts its calls and can be killed at one of them.
struct Faulty {
    directory: PathBuf,
}

impl Faulty {
    /// A git with no fault.
    fn new(directory: &Path) -> Self {
        let directory = directory.join("faulty");
        fs::create_dir_all(directory.join("calls")).expect("a directory");
        let real = String::from_utf8(std::process::Command::new("which").arg("git").output().expect("which").stdout);
        let script = format!(
            "#!/bin/sh\nn=$(ls {place}/calls | wc -l)\nuntil mkdir {place}/calls/$n 2>/dev/null; do n=$((n+1)); done\n\
             if [ \"$n\" = \"$(cat {place}/at 2>/dev/null)\" ]; then : > {place}/hit; case $(cat {place}/fault) in\n\
             Before) kill -9 $$;;\n\
             After) {git} \"$@\" >/dev/null; kill -9 $$;;\n\
             Drawloom) : > {place}/reached; exec sleep 1000;;\nesac; fi\nexec {git} \"$@\"\n",
            place = directory.display(),
            git = real.expect("a path").trim(),
        );
        write_program(&directory.join("git"), &script);
        Self { directory }
    }

    fn set(&self, at: usize, fault: Fault) {
        write(&self.directory.join("at"), &at.to_string());
        write(&self.directory.join("fault"), &format!("{fault:?}"));
    }

    fn calls(&self) -> usize {
        fs::read_dir(self.directory.join("calls")).expect("a directory").count()
    }

    async fn until_reached(&self) {
        while !self.directory.join("reached").exists() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    fn forget(&self) {
        let _ = fs::remove_file(self.directory.join("reached"));
        let _ = fs::remove_file(self.directory.join("at"));
    }
}

/// Makes a call until git and drawloom live long enough.
macro_rules! until_done {
    ($room:ident, $faulty:ident, |$checkouts:ident| $call:expr) => {{
        loop {
            let done: Option<Result<_, Error>> = {
                let $checkouts = &$room.checkouts;
                tokio::select! {
                    biased;
                    () = $faulty.until_reached() => None,
                    done = async { $call.await } => Some(done),
                }
            };
            match done {
                Some(Ok(done)) => break done,
                Some(Err(Error::GitStopped { .. })) => {}
                Some(Err(error)) => panic!("{error:?}"),
                None => {
                    $faulty.forget();
                    $room.reopen();
                }
            }
        }
    }};
}

/// What a life of a goal answers and leaves.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    checkpoints: Vec<Checkpoint>,
    merges: Vec<Merge>,
    verified: (bool, Oid, Oid),
    /// The branch and where it is.
    landed: (String, Oid),
    refs: BTreeMap<String, String>,
    files: Vec<String>,
}

/// A room whose commits have the same ids each time.
fn room() -> (Room, Faulty) {
    let mut room = Room::new();
    git(&room.repository, &["-c", "user.useConfigOnly=false", "branch", "other"]);
    let faulty = Faulty::new(room.directory.path());
    room.config = Config { git: faulty.directory.join("git").display().to_string(), ..Config::default() };
    // The same base each time: all that git would take from the clock is given.
    let base = std::process::Command::new("git")
        .args(["commit-tree", "HEAD^{tree}", "-m", "base"])
        .envs([("GIT_AUTHOR_DATE", "@1 +0000"), ("GIT_COMMITTER_DATE", "@1 +0000")])
        .envs([
            ("GIT_AUTHOR_NAME", "u"),
            ("GIT_AUTHOR_EMAIL", "u"),
            ("GIT_COMMITTER_NAME", "u"),
            ("GIT_COMMITTER_EMAIL", "u"),
        ])
        .current_dir(&room.repository)
        .output()
        .expect("git runs");
    let base = String::from_utf8(base.stdout).expect("an id");
    git(&room.repository, &["reset", "-q", "--soft", base.trim()]);
    git(&room.repository, &["branch", "-q", "-f", "other", base.trim()]);
    room.write("uncommitted.txt", "uncommitted\n");
    room.reopen();
    (room, faulty)
}

/// The whole life of a goal with two workers.
async fn life(room: &mut Room, faulty: &Faulty) -> Outcome {
    let options = Prepare { uncommitted: true, at: AT, ..Prepare::default() };
    let directory = room.repository.clone();
    let prepared = until_done!(room, faulty, |checkouts| checkouts.prepare(GOAL, &directory, &options));
    let base = prepared.base;
    let mut checkpoints = Vec::new();
    let step = |key: &'static str| Step { message: "a step", at: AT, key };
    for name in ["a", "b"] {
        let added = until_done!(room, faulty, |checkouts| checkouts.add(GOAL, name, &base, Kind::Writer));
        write(&added.path.join(format!("src/{name}.rs")), "one\n");
        write(&added.path.join("debug.log"), "ignored\n");
        if name == "b" {
            fs::remove_file(added.path.join("README.md")).expect("removed");
        }
        checkpoints.push(until_done!(room, faulty, |checkouts| checkouts.wip(GOAL, name, &step(name))));
        checkpoints.push(until_done!(room, faulty, |checkouts| checkouts.checkpoint(GOAL, name, &step("k1"))));
    }
    let (mut head, mut merges) = (base.clone(), Vec::new());
    for checkpoint in [1, 3] {
        let commit = checkpoints[checkpoint].commit.clone().expect("a commit");
        let merge = until_done!(room, faulty, |checkouts| checkouts.merge(GOAL, &head, &commit, "merge", AT));
        if let Merge::Merged { commit, .. } = &merge {
            head = commit.clone();
        }
        merges.push(merge);
    }
    until_done!(room, faulty, |checkouts| checkouts.reset(GOAL, "a", &head));
    let path = until_done!(room, faulty, |checkouts| checkouts.add(GOAL, "a", &base, Kind::Writer)).path;
    until_done!(room, faulty, |checkouts| checkouts.add(GOAL, "review", &head, Kind::ReadOnly));
    write(&path.join("src/b.rs"), "two\n");
    checkpoints.push(until_done!(room, faulty, |checkouts| checkouts.checkpoint(GOAL, "a", &step("k2"))));
    let commit = checkpoints[4].commit.clone().expect("a commit");
    let merge = until_done!(room, faulty, |checkouts| checkouts.merge(GOAL, &head, &commit, "merge", AT));
    let Merge::Merged { commit: head, .. } = &merge else { panic!("{merge:?}") };
    let mut asked = verify(head, "grep -q two src/b.rs && sh tests/check.sh");
    asked.protect = vec!["tests/**".into(), "src/main.rs".into(), "README.md".into()];
    asked.witness = true;
    let verified: Verified = until_done!(room, faulty, |checkouts| checkouts.verify(GOAL, &asked));
    let verdict = Verdict::Passed(verified.tree.clone());
    let landed = until_done!(room, faulty, |checkouts| checkouts.land(GOAL, Some("other"), head, &verdict));
    let landed = match landed {
        // A git that was killed after it had moved the branch is told by the next call.
        Land::FastForwarded { branch, new: at, .. } | Land::AlreadyLanded { branch, at } => (branch, at),
        other => panic!("{other:?}"),
    };
    until_done!(room, faulty, |checkouts| checkouts.clean(GOAL, Cleanup::Auto, AT));
    assert!(!path.exists(), "cleaned");
    let files = room.paths(head);
    merges.push(merge.clone());
    Outcome {
        checkpoints,
        merges,
        verified: (verified.passed, verified.tree, verified.protected_tree),
        landed,
        refs: room.refs(),
        files,
    }
}

/// At which of all git commands a test has a fault: some of them, or as many as `PROVE_POINTS` says.
fn chosen(all: usize) -> Vec<usize> {
    let points = std::env::var("PROVE_POINTS").ok().and_then(|points| points.parse().ok()).unwrap_or(3);
    let points = all.min(points);
    (0..points).map(|point| (2 * point + 1) * all / (2 * points)).collect()
}

async fn disturbed(fault: Fault) {
    let (mut quiet, faulty) = room();
    let before = quiet.fingerprint();
    let expected = life(&mut quiet, &faulty).await;
    let (passed, tree, protected) = &expected.verified;
    assert!(!passed && tree != protected, "protected paths were changed and restored: {expected:#?}");
    assert_eq!(expected.files.len(), 7);
    let calls = faulty.calls();
    assert!(calls > 50, "{calls}");
    let changed: Vec<PathBuf> = difference(&before, &quiet.fingerprint());
    assert_eq!(changed, [Path::new("./.git/logs/refs/heads/other"), Path::new("./.git/refs/heads/other")]);
    for at in chosen(calls) {
        let (mut room, faulty) = room();
        faulty.set(at, fault);
        let outcome = life(&mut room, &faulty).await;
        assert_eq!(outcome, expected, "{fault:?} at {at}");
        assert!(faulty.directory.join("hit").exists(), "there was no fault at {at}");
        git(&room.repository, &["fsck", "--strict", "--connectivity-only"]);
        let left = fs::read_dir(room.directory.path().join("tmp")).expect("a directory").count();
        assert_eq!(left, 0, "temporary directories are left: {fault:?} at {at}");
    }
}

/// Paths that differ.
fn difference(before: &BTreeMap<PathBuf, String>, after: &BTreeMap<PathBuf, String>) -> Vec<PathBuf> {
    let all: std::collections::BTreeSet<&PathBuf> = before.keys().chain(after.keys()).collect();
    all.into_iter().filter(|path| before.get(*path) != after.get(*path)).cloned().collect()
}

#[tokio::test]
async fn git_killed_before_it_works_changes_nothing_in_the_end() {
    disturbed(Fault::Before).await;
}

#[tokio::test]
async fn git_killed_after_its_work_changes_nothing_in_the_end() {
    disturbed(Fault::After).await;
}

#[tokio::test]
async fn drawloom_killed_while_git_runs_changes_nothing_in_the_end() {
    disturbed(Fault::Drawloom).await;
}

#[tokio::test]
async fn locks_that_a_killed_git_left_do_not_stop_us() {
    let room = Room::new();
    let (prepared, path) = room.one_writer().await;
    write(&path.join("new"), "x\n");
    let (refs, indexes) = (room.repository.join(".git/refs"), room.directory.path().join("checkouts/g1/index/a"));
    write(&indexes.join("next.lock"), "");
    write(&indexes.join("next"), "half an index");
    write(&refs.join("drawloom/g1/a/1.lock"), "");
    write(&refs.join("heads/drawloom/g1.lock"), "");
    let commit = room.checkpoint("a", "k1").await.commit.expect("a commit");
    let merged = room.checkouts.merge(GOAL, &prepared.base, &commit, "m", AT).await.expect("merged");
    assert!(matches!(merged, Merge::Merged { .. }), "{merged:?}");
    // A branch of the user has a lock of the user: it is not ours to remove.
    git(&room.repository, &["branch", "other"]);
    let lock = refs.join("heads/other.lock");
    write(&lock, "");
    let Merge::Merged { commit, .. } = merged else { unreachable!("checked above") };
    let error = room.checkouts.land(GOAL, Some("other"), &commit, &Verdict::NotAsked).await.expect_err("locked");
    assert!(matches!(error, Error::Git { .. }) && lock.exists(), "{error}");
}
