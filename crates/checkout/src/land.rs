//! Landing: a branch of the user is fast-forwarded to the goal's result.

use serde::{Deserialize, Serialize};

use crate::{checkouts::Checkouts, error::Error, git::Repository, oid::Oid, state::Goal};

/// Whether the result was verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Verification passed for this tree. No other tree is landed.
    Passed(Oid),
    /// The goal has no verification.
    NotAsked,
}

/// The outcome of landing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Land {
    FastForwarded {
        branch: String,
        old: Oid,
        new: Oid,
    },
    /// The branch has the work already.
    AlreadyLanded {
        branch: String,
        at: Oid,
    },
    /// The branch is checked out, so the user must take the result.
    CheckedOut {
        branch: String,
        worktree: String,
        command: String,
    },
    /// The branch has commits that the result lacks.
    NotFastForward {
        branch: String,
        at: Oid,
        command: String,
    },
    /// The verdict is about another tree.
    NotVerified {
        tree: Oid,
        verified: Oid,
    },
}

impl Checkouts {
    /// Fast-forwards a branch, usually the one that the goal started from, to `head` by compare-and-swap. A branch that is
    /// checked out anywhere is never moved.
    pub async fn land(&self, goal: &str, into: Option<&str>, head: &Oid, verdict: &Verdict) -> Result<Land, Error> {
        let _refs = self.lock_refs(goal).await;
        let goal = self.goal(goal).await?;
        let branch = into.or(goal.record.prepared.base_branch.as_deref()).ok_or(Error::NoBranch)?.to_owned();
        let unknown = || Error::UnknownBranch { branch: branch.clone() };
        let reference = format!("refs/heads/{branch}");
        let checked = self.git(&goal, Repository::Users).args(["check-ref-format", &reference]).run(&[0, 1]).await?;
        if checked.code != 0 {
            return Err(unknown());
        }
        let tree = self.tree_of(&goal, head).await?;
        if let Verdict::Passed(verified) = verdict
            && *verified != tree
        {
            return Ok(Land::NotVerified { tree, verified: verified.clone() });
        }
        let (old, worktree) = tokio::try_join!(self.read_ref(&goal, &reference), self.checked_out(&goal, &branch))?;
        let old = old.ok_or_else(unknown)?;
        if old == *head || self.is_ancestor(&goal, head, &old).await? {
            return Ok(Land::AlreadyLanded { branch, at: old });
        }
        let is_behind = self.is_ancestor(&goal, &old, head).await?;
        let way = if is_behind { Way::Forward } else { Way::Merge };
        let place = if worktree.is_some() { Place::CheckedOut } else { Place::Elsewhere };
        let command = command(&goal, way, place);
        match (way, worktree) {
            (Way::Merge, _) => Ok(Land::NotFastForward { branch, at: old, command }),
            (Way::Forward, Some(worktree)) => {
                Ok(Land::CheckedOut { branch, worktree: worktree.display().to_string(), command })
            }
            (Way::Forward, None) => self.fast_forward(&goal, &reference, (branch, old, head.clone())).await,
        }
    }

    /// Whether a branch, usually the one that the goal started from, has the work already.
    pub async fn has_landed(&self, goal: &str, into: Option<&str>, head: &Oid) -> Result<bool, Error> {
        let goal = self.goal(goal).await?;
        let branch = into.or(goal.record.prepared.base_branch.as_deref()).ok_or(Error::NoBranch)?;
        match self.read_ref(&goal, &format!("refs/heads/{branch}")).await? {
            Some(at) => Ok(at == *head || self.is_ancestor(&goal, head, &at).await?),
            None => Ok(false),
        }
    }

    async fn fast_forward(
        &self,
        goal: &Goal,
        reference: &str,
        (branch, old, new): (String, Oid, Oid),
    ) -> Result<Land, Error> {
        let message = format!("drawloom: land {}", goal.name());
        let git = self.git(goal, Repository::Users);
        let moved = git.args(["update-ref", "-m", &message, reference, new.as_str(), old.as_str()]).ok().await;
        match moved {
            Ok(_) => Ok(Land::FastForwarded { branch, old, new }),
            Err(error @ Error::Git { .. }) => match self.read_ref(goal, reference).await? {
                Some(found) if found == new => Ok(Land::FastForwarded { branch, old, new }),
                Some(found) if found != old => {
                    Err(Error::HeadMoved { branch, expected: old, found: found.to_string() })
                }
                _ => Err(error),
            },
            Err(error) => Err(error),
        }
    }
}

/// How the work comes to a branch.
#[derive(Clone, Copy)]
enum Way {
    Forward,
    Merge,
}

/// Whether the branch is what the user has checked out.
#[derive(Clone, Copy)]
enum Place {
    CheckedOut,
    Elsewhere,
}

/// The command for the user. It works while the uncommitted files that the goal began with lie in the checkout.
fn command(goal: &Goal, way: Way, place: Place) -> String {
    let prepared = &goal.record.prepared;
    let (branch, base) = (&prepared.branch, format!("refs/drawloom/{}/base", goal.name()));
    let merge = match way {
        Way::Forward => format!("git merge --ff-only {branch}"),
        Way::Merge => format!("git merge {branch}"),
    };
    match (way, place) {
        _ if prepared.base == prepared.base_commit => merge,
        (_, Place::Elsewhere) => merge,
        // The base has these files. The branch and the index go to it, and no file is touched.
        (Way::Forward, Place::CheckedOut) => {
            format!("git merge-base --is-ancestor HEAD {base} && git reset -q {base} && {merge}")
        }
        // The work has these files. The stash keeps them as they were.
        (Way::Merge, Place::CheckedOut) => format!(
            "cd \"$(git rev-parse --show-toplevel)\" && git diff --name-only -z {} {base} | git --literal-pathspecs stash push -q \
             --include-untracked --pathspec-from-file=- --pathspec-file-nul && {merge}",
            prepared.base_commit.short()
        ),
    }
}
