//! `retry_run`: runs a run that has ended once more.

use drawloom_contract::{
    caller::Scope,
    failure::Failure,
    runs::{Idempotency, Interest, RetryStart},
};
use drawloom_wire::{
    request::Request as _,
    runs::{self, Mode, RunResult},
};

use crate::{
    handle::Handle,
    operation::{Answer, Call, Card, Operation, Told},
};

pub(crate) struct RetryRun;

impl Operation for RetryRun {
    type Input = runs::RetryRun;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Run a run that has ended once more.", Scope::RunsCreate)
            .toolset("runs")
            .told(Told::Run)
            .advice(
                "For a run that failed, was cancelled or timed out. A child run takes its place again while its parent waits for \
                 others of the same call.",
            )
            .body_limit(16 * 1024)
            .stores_key()
            .detaches::<Self::Input>()
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<RunResult>, Failure> {
        let (mut how, body) = (input.how(), input.digest());
        how.result_bytes = how.result_bytes.or(call.result_bytes);
        let operation = Self::Input::NAME;
        let key = how.idempotency_key.take().map(|key| Idempotency { operation, key, body });
        let retry = RetryStart { run: input.run_id, completed: input.completed };
        let interest = if how.mode == Some(Mode::Detach) { Interest::None } else { Interest::Outcome };
        let started = call.app.runs.retry(call.caller, retry, key, interest).await?;
        Ok(Answer::Handle(Handle::run(call.caller.clone(), started, how)))
    }
}
