//! The checkouts of goals as callers see them.

use async_trait::async_trait;
use drawloom_contract::{
    failure::{Failure, FailureKind},
    ids::RunId,
};
use drawloom_wire::worktrees::{
    CommitWorktree, DiffWorktree, RemoveWorktree, Worktree, WorktreeCommits, WorktreeDiff, WorktreeRemoved,
};

use crate::operation::Call;

/// Which goals are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    WithCheckouts,
    /// Also those whose checkouts were removed.
    All,
}

/// The checkouts of goals on the server's disk. Callers have checked that the caller may see the goal, and for changes that it has
/// ended.
#[async_trait]
pub trait Worktrees: Send + Sync {
    /// Goals that were prepared here, the newest first.
    async fn list(&self, which: Which) -> Result<Vec<RunId>, Failure>;

    /// A goal's branch and checkouts. `goal` and `status` are left empty.
    async fn load(&self, run: RunId) -> Result<Worktree, Failure>;

    async fn diff(&self, request: &DiffWorktree) -> Result<WorktreeDiff, Failure>;

    async fn commit(&self, request: &CommitWorktree) -> Result<WorktreeCommits, Failure>;

    async fn remove(&self, request: &RemoveWorktree) -> Result<WorktreeRemoved, Failure>;
}

/// Refuses a goal that has not ended, because a worker may be changing its checkouts, and one whose repository this caller may not change.
pub(crate) async fn check_ended(call: &Call<'_>, run: RunId) -> Result<(), Failure> {
    let goals = &call.app.goals;
    let read = goals.read(call.app, call.caller, run).await?;
    match read.view.status.is_terminal() {
        true => goals.host.check_repository(call.caller, &read.story),
        false => Err(Failure::new(FailureKind::Conflict, "goal_running", format!("goal {run} has not ended"))
            .with_hint("wait for it with orchestrate_result, or stop it with orchestrate_cancel")),
    }
}
