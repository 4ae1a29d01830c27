//! Landing: a branch of the user is fast-forwarded to the goal's result.

use serde::{Deserialize, Serialize};

use crate::{
    checkouts::Checkouts,
    error::Error,
    git::Repository,
    oid::Oid,
    places::{blocking, read_json, write_json},
    state::Goal,
};

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
    },
    /// The verdict is about another tree.
    NotVerified {
        tree: Oid,
        verified: Oid,
    },
}

/// A landing that may have been made: written before the branch moves.
#[derive(Debug, Serialize, Deserialize)]
struct Landing {
    branch: String,
    old: Oid,
    new: Oid,
}

impl Checkouts {
    /// Fast-forwards a branch, usually the one that the goal started from, to `head` by compare-and-swap. A branch that is
    /// checked out anywhere is never moved. A landing that was made already is answered again.
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
        if old == *head {
            let before = earlier(&goal).await?.filter(|landing| landing.branch == branch && landing.new == *head);
            let old = before.map_or(old, |landing| landing.old);
            return Ok(Land::FastForwarded { branch, old, new: head.clone() });
        }
        if !self.is_ancestor(&goal, &old, head).await? {
            return Ok(Land::NotFastForward { branch, at: old });
        }
        if let Some(worktree) = worktree {
            let command = format!("git merge --ff-only {}", goal.record.prepared.branch);
            return Ok(Land::CheckedOut { branch, worktree: worktree.display().to_string(), command });
        }
        let (path, landing) = (goal.places.landing(), Landing { branch, old, new: head.clone() });
        let landing = blocking(move || write_json(&path, &landing).map(|()| landing)).await?;
        self.fast_forward(&goal, &reference, landing).await
    }

    async fn fast_forward(&self, goal: &Goal, reference: &str, landing: Landing) -> Result<Land, Error> {
        let Landing { branch, old, new } = landing;
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

async fn earlier(goal: &Goal) -> Result<Option<Landing>, Error> {
    let path = goal.places.landing();
    blocking(move || read_json(&path)).await
}
