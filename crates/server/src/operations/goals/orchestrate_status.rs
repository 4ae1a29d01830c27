//! `orchestrate_status`: where a goal stands.

use drawloom_contract::{caller::Scope, failure::Failure};
use drawloom_wire::goals::{self, GoalStatus};

use crate::operation::{Answer, Call, Card, Operation};

pub(crate) struct OrchestrateStatus;

impl Operation for OrchestrateStatus {
    type Input = goals::OrchestrateStatus;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Read where a goal stands.", Scope::RunsRead).toolset("goal")
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<GoalStatus>, Failure> {
        let goals = &call.app.goals;
        let read = goals.read(call.app, call.caller, input.run_id).await?;
        Ok(Answer::Value(goals.status(call.app, &read)))
    }
}
