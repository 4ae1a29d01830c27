//! `commit_worktree`: commits what lies in the checkouts of a goal.

use drawloom_contract::{caller::Scope, failure::Failure};
use drawloom_wire::worktrees::{self, WorktreeCommits};

use crate::{
    operation::{Answer, Call, Card, Operation},
    worktrees::check_ended,
};

pub(crate) struct CommitWorktree;

impl Operation for CommitWorktree {
    type Input = worktrees::CommitWorktree;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Commit what lies in the checkouts of a goal that has ended.", Scope::GoalsCreate)
            .toolset("goal")
            .advice("Each commit is kept as a ref; the goal's branch does not move.")
            .body_limit(64 * 1024)
    }

    async fn call(&self, call: &Call<'_>, mut input: Self::Input) -> Result<Answer<WorktreeCommits>, Failure> {
        check_ended(call, input.run_id).await?;
        input.message = input.message.map(|message| call.app.redactor.clean(message).into_inner());
        call.app.goals.host.worktrees().commit(&input).await.map(Answer::Value)
    }
}
