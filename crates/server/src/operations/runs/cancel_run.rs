//! `cancel_run`: stops a run and its children.

use drawloom_contract::{caller::Scope, failure::Failure};
use drawloom_wire::runs::{self, Cancelled};

use crate::{
    operation::{Answer, Call, Card, Operation},
    operations::named_run,
};

pub(crate) struct CancelRun;

impl Operation for CancelRun {
    type Input = runs::CancelRun;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Stop a run and all runs below it.", Scope::RunsCreate)
            .toolset("core")
            .destructive()
            .advice("Runs below it stop too. What it has done stays done.")
            .body_limit(16 * 1024)
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<Cancelled>, Failure> {
        let run = match (input.run_id, &input.agent_id) {
            (Some(run), None) => run,
            _ => named_run(call, input.run_id, input.agent_id).await?.run,
        };
        // It comes back in the answer, as it is journaled.
        let reason = input.reason.map(|reason| call.app.redactor.clean(reason).into_inner());
        let done = call.app.runs.cancel(call.caller, run, reason.clone()).await?;
        Ok(Answer::Value(Cancelled::of(done, reason)))
    }
}
