//! `cancel_run`: stops a run and its children.

use drawloom_contract::{caller::Scope, failure::Failure};
use drawloom_wire::runs::{self, Cancelled};

use crate::{
    operation::{Answer, Call, Card, Operation, Parameter, Told},
    operations::named_run,
};

pub(crate) struct CancelRun;

const PARAMETERS: &[Parameter] =
    &[Parameter::needs("run_id", "The run."), Parameter::takes("reason", "Why; it is kept with the run.")];

impl Operation for CancelRun {
    type Input = runs::CancelRun;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Stop a run and its child runs.", Scope::RunsCreate)
            .toolset("core")
            .told(Told::Cancelled)
            .parameters(PARAMETERS)
            .destructive()
            .advice("What it has done stays done.")
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
