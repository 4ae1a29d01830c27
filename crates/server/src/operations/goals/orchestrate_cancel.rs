//! `orchestrate_cancel`: stops a goal and everything that it started.

use drawloom_contract::{caller::Scope, failure::Failure};
use drawloom_wire::{goals, runs::Cancelled};

use crate::operation::{Answer, Call, Card, Operation, Told};

pub(crate) struct OrchestrateCancel;

impl Operation for OrchestrateCancel {
    type Input = goals::OrchestrateCancel;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Stop a goal and everything that it started.", Scope::GoalsCreate)
            .toolset("goal")
            .told(Told::Cancelled)
            .destructive()
            .advice("Its branch and checkpoints stay.")
            .body_limit(16 * 1024)
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<Cancelled>, Failure> {
        let view = call.app.goals.find(call.app, call.caller, input.run_id).await?;
        let reason = input.reason.map(|reason| call.app.redactor.clean(reason).into_inner());
        let done = call.app.runs.cancel(call.caller, view.run, reason.clone()).await?;
        Ok(Answer::Value(Cancelled::of(done, reason)))
    }
}
