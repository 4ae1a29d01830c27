//! `remove_worktree`: removes the checkouts of a goal.

use drawloom_contract::{caller::Scope, failure::Failure};
use drawloom_wire::worktrees::{self, WorktreeRemoved};

use crate::{
    operation::{Answer, Call, Card, Operation},
    worktrees::check_ended,
};

pub(crate) struct RemoveWorktree;

impl Operation for RemoveWorktree {
    type Input = worktrees::RemoveWorktree;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Remove the checkouts of a goal that has ended.", Scope::GoalsCreate)
            .toolset("goal")
            .destructive()
            .advice("What is not committed is kept as a ref first. Branches and refs stay.")
            .body_limit(16 * 1024)
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<WorktreeRemoved>, Failure> {
        check_ended(call, input.run_id).await?;
        call.app.goals.host.worktrees().remove(&input).await.map(Answer::Value)
    }
}
