//! `diff_worktree`: what a goal changed.

use drawloom_contract::{caller::Scope, failure::Failure};
use drawloom_wire::worktrees::{self, WorktreeDiff};

use crate::operation::{Answer, Call, Card, Operation};

pub(crate) struct DiffWorktree;

impl Operation for DiffWorktree {
    type Input = worktrees::DiffWorktree;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Show what a goal changed since its base.", Scope::RunsRead)
            .toolset("goal")
            .advice("Without a checkout it compares the goal's branch.")
    }

    async fn call(&self, call: &Call<'_>, mut input: Self::Input) -> Result<Answer<WorktreeDiff>, Failure> {
        let goals = &call.app.goals;
        goals.find(call.app, call.caller, input.run_id).await?;
        let most = call.result_bytes.map(|bytes| bytes.min(input.max_bytes.unwrap_or(bytes)));
        input.max_bytes = most.or(input.max_bytes);
        goals.host.worktrees().diff(&input).await.map(Answer::Value)
    }
}
