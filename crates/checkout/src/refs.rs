//! Refs of the user's repository that are ours, and who has a branch checked out.

use std::{fs, path::PathBuf};

use crate::{checkouts::Checkouts, error::Error, git::Repository, oid::Oid, state::Goal};

impl Checkouts {
    /// Creates a ref of ours. One that is there already must be the same.
    pub(crate) async fn keep_ref(&self, goal: &Goal, reference: &str, oid: &Oid) -> Result<(), Error> {
        self.move_ref(goal, reference, oid, None).await
    }

    /// Moves a ref of ours by compare-and-swap; `from` is absent for one that is not there yet. One that is moved already is
    /// fine. Callers hold the lock of the goal's refs, or a ref that no other call uses.
    pub(crate) async fn move_ref(
        &self,
        goal: &Goal,
        reference: &str,
        to: &Oid,
        from: Option<&Oid>,
    ) -> Result<(), Error> {
        // Only we write refs with these names, and no git of an earlier process runs: a lock is what a killed git left.
        let _ = fs::remove_file(goal.record.common.join(format!("{reference}.lock")));
        let old = from.map_or_else(|| to.zero(), Oid::to_string);
        let git = self.git(goal, Repository::Users).setting("core.logAllRefUpdates=false");
        let moved = git.args(["update-ref", "--no-deref", reference, to.as_str(), &old]).ok().await;
        let Err(error @ Error::Git { .. }) = moved else { return moved.map(|_| ()) };
        match self.read_ref(goal, reference).await? {
            Some(found) if found == *to => Ok(()),
            Some(found) => Err(match from {
                Some(expected) => Error::HeadMoved {
                    branch: reference.trim_start_matches("refs/heads/").to_owned(),
                    expected: expected.clone(),
                    found: found.to_string(),
                },
                None => {
                    Error::RefTaken { reference: reference.to_owned(), wanted: to.clone(), found: found.to_string() }
                }
            }),
            None => Err(error),
        }
    }

    pub(crate) async fn read_ref(&self, goal: &Goal, reference: &str) -> Result<Option<Oid>, Error> {
        let git = self.git(goal, Repository::Users);
        let found = git.args(["rev-parse", "--verify", "--quiet", reference]).run(&[0, 1]).await?;
        if found.code == 0 { found.oid().map(Some) } else { Ok(None) }
    }

    /// The worktree of the user that has the branch checked out, or is rebasing it.
    pub(crate) async fn checked_out(&self, goal: &Goal, branch: &str) -> Result<Option<PathBuf>, Error> {
        let listed = self.git(goal, Repository::Users).args(["worktree", "list", "--porcelain", "-z"]);
        let (full, mut here) = (format!("branch refs/heads/{branch}"), PathBuf::new());
        for line in listed.ok().await?.parts()? {
            let line = String::from_utf8_lossy(&line);
            if let Some(path) = line.strip_prefix("worktree ") {
                here = PathBuf::from(path);
            } else if line == full {
                return Ok(Some(here));
            }
        }
        let linked = fs::read_dir(goal.record.common.join("worktrees")).into_iter().flatten().flatten();
        let directories = linked.map(|entry| entry.path()).chain([goal.record.common.clone()]);
        let full = format!("refs/heads/{branch}");
        for directory in directories {
            for name in ["rebase-merge/head-name", "rebase-apply/head-name"] {
                if fs::read_to_string(directory.join(name)).is_ok_and(|rebased| rebased.trim() == full) {
                    return Ok(Some(directory));
                }
            }
        }
        Ok(None)
    }

    /// Whether the first commit is the second or one of its ancestors.
    pub(crate) async fn is_ancestor(&self, goal: &Goal, ancestor: &Oid, of: &Oid) -> Result<bool, Error> {
        let git = self.git(goal, Repository::Shared);
        let asked = git.args(["merge-base", "--is-ancestor", ancestor.as_str(), of.as_str()]);
        Ok(asked.run(&[0, 1]).await?.code == 0)
    }

    /// The tree of a commit that the repository must contain.
    pub(crate) async fn tree_of(&self, goal: &Goal, commit: &Oid) -> Result<Oid, Error> {
        let git = self.git(goal, Repository::Ours);
        let found =
            git.args(["rev-parse", "--verify", "--quiet", &format!("{commit}^{{tree}}")]).run(&[0, 1, 128]).await?;
        if found.code == 0 { found.oid() } else { Err(Error::UnknownCommit { commit: commit.clone() }) }
    }
}
