//! `orchestrate_land`: brings a goal's work to a branch.

use drawloom_contract::{
    caller::Scope,
    failure::{Failure, FailureKind},
};
use drawloom_wire::goals::{self, GoalLanded};

use crate::operation::{Answer, Call, Card, Operation};

pub(crate) struct OrchestrateLand;

impl Operation for OrchestrateLand {
    type Input = goals::OrchestrateLand;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Bring the work of a goal to a branch.", Scope::GoalsCreate)
            .toolset("goal")
            .destructive()
            .advice(
                "It moves a branch forward, and never one that is checked out: then it returns the git command for the user. Files that make tools run something need `accept`: ask the user first.",
            )
            .body_limit(16 * 1024)
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<GoalLanded>, Failure> {
        let goals = &call.app.goals;
        let read = goals.read(call.app, call.caller, input.run_id).await?;
        if !read.view.status.is_terminal() {
            let message = format!("goal {} has not ended", input.run_id);
            return Err(Failure::new(FailureKind::Conflict, "goal_running", message)
                .with_hint("wait for it with orchestrate_result, or stop it with orchestrate_cancel"));
        }
        goals.host.land(call.caller, &read.story, &input).await.map(Answer::Value)
    }
}
