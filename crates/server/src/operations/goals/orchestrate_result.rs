//! `orchestrate_result`: what came of a goal.

use std::sync::Arc;

use drawloom_contract::{caller::Scope, failure::Failure, runs::Started};
use drawloom_wire::{
    goals::{self, GoalResult},
    runs::How,
};

use crate::{
    handle::Handle,
    operation::{Answer, Call, Card, Operation, Told},
};

pub(crate) struct OrchestrateResult;

impl Operation for OrchestrateResult {
    type Input = goals::OrchestrateResult;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Read what came of a goal.", Scope::RunsRead)
            .toolset("goal")
            .told(Told::Goal)
            .advice("With wait it returns when the goal has ended or asks something.")
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<GoalResult>, Failure> {
        let goals = &call.app.goals;
        if input.wait {
            let view = Arc::new(goals.find(call.app, call.caller, input.run_id).await?);
            let wait_ms = input.timeout.map(|seconds| seconds * 1000);
            let how = How { wait_ms, result_bytes: call.result_bytes, ..How::default() };
            return Ok(Answer::Handle(Handle::of_goal(call.caller.clone(), Started { view, live: None }, how)));
        }
        let read = goals.read(call.app, call.caller, input.run_id).await?;
        Ok(Answer::Value(goals.result(&read).await?))
    }
}
