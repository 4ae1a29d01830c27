//! `replay_run`: folds a run's journal again, with no model and no tool called.

use drawloom_contract::{caller::Scope, failure::Failure, runs::Replay};
use drawloom_wire::runs;

use crate::operation::{Answer, Call, Card, Operation};

pub(crate) struct ReplayRun;

impl Operation for ReplayRun {
    type Input = runs::ReplayRun;

    fn card(&self) -> Card {
        Card::of::<Self::Input>(
            "Re-run the recorded decisions of a run and report differences; calls no model and no tool.",
            Scope::RunsRead,
        )
        .toolset("runs")
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<Replay>, Failure> {
        Ok(Answer::Value(call.app.runs.replay(call.caller, input.run_id).await?))
    }
}
