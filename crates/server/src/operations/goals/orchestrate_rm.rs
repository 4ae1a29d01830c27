//! `orchestrate_rm`: removes a goal's branch, refs, checkouts and folder.

use drawloom_contract::{
    caller::Scope,
    failure::{Failure, FailureKind},
    ids::RunKey,
};
use drawloom_wire::goals::{self, GoalRemoved};

use crate::{
    goals::key,
    operation::{Answer, Call, Card, Operation},
};

pub(crate) struct OrchestrateRm;

impl Operation for OrchestrateRm {
    type Input = goals::OrchestrateRm;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Remove the branch, refs, checkouts and folder of an ended goal.", Scope::GoalsCreate)
            .toolset("goal")
            .destructive()
            .advice("Work that is on no other branch is lost. Ask the user first.")
            .body_limit(16 * 1024)
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<GoalRemoved>, Failure> {
        let goals = &call.app.goals;
        let read = goals.read(call.app, call.caller, input.run_id).await?;
        if !read.view.status.is_terminal() {
            let message = format!("goal {} has not ended", read.view.run);
            return Err(Failure::new(FailureKind::Conflict, "goal_running", message)
                .with_hint("cancel it first with orchestrate_cancel"));
        }
        goals.host.check_repository(call.caller, &read.story)?;
        let removed = goals.host.remove(&key(&read.view), &read.story).await?;
        goals.questions.set_removed(&key(&read.view)).await?;
        if let Some(run) = read.story.continues() {
            let earlier = RunKey { tenant: read.view.tenant.clone(), run };
            goals.questions.forget_successor(&earlier, read.view.run).await?;
        }
        Ok(Answer::Value(removed))
    }
}
