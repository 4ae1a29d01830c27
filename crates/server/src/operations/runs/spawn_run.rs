//! `spawn_run`: starts a run of an agent.

use drawloom_contract::{
    caller::Scope,
    failure::Failure,
    runs::{Idempotency, Interest},
};
use drawloom_wire::{
    request::Request as _,
    runs::{self, Mode, RunResult},
};

use crate::{
    auth::on_behalf,
    handle::{From, Handle},
    operation::{Answer, Call, Card, Operation},
};

pub(crate) struct SpawnRun;

impl Operation for SpawnRun {
    type Input = runs::SpawnRun;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Start a run of an agent, and follow it, wait for it or leave it.", Scope::RunsCreate)
            .toolset("core")
            .advice(
                "Use it to hand one task to an agent that works on its own, with its own tools, and to get only its answer \
                 back. It waits for the end; a long run may come back unfinished with a hint how to wait on with get_run. \
                 The run goes on whatever happens to this call. Several tasks at once: spawn_runs.",
            )
            .streams()
            .stores_key()
            .detaches::<Self::Input>()
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<RunResult>, Failure> {
        let (mut spawn, mut how) = input.split();
        how.result_bytes = how.result_bytes.or(call.result_bytes);
        spawn.normalise("")?;
        let key = how.idempotency_key.take().map(|key| Idempotency {
            operation: Self::Input::NAME,
            key,
            body: runs::digest(std::slice::from_ref(&spawn)),
        });
        let (caller, warnings) = on_behalf(call.caller, spawn.user_id.as_ref(), spawn.tenant_id.as_ref());
        let interest = if how.mode == Some(Mode::Detach) { Interest::None } else { call.interest };
        let started = call.app.runs.start(&caller, spawn.into_start(warnings), key, interest).await?;
        Ok(Answer::Handle(Handle::run(caller, started, how).streamed_from(From::Start)))
    }
}
