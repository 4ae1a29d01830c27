//! `spawn_run`: starts a run of an agent.

use drawloom_contract::{
    caller::Scope,
    failure::Failure,
    runs::{Idempotency, Interest},
};
use drawloom_wire::runs::{self, Mode, RunResult, Spawned};

use crate::{
    auth::on_behalf,
    handle::{From, Handle, RunHandle},
    operation::{Answer, Call, Card, Operation, Precedence, Verb},
};

pub(super) struct SpawnRun;

const NAME: &str = "spawn_run";

impl Operation for SpawnRun {
    type Input = runs::SpawnRun;
    type Output = RunResult;

    fn card(&self) -> Card {
        Card::new(NAME, "Start a run of an agent, and follow it, wait for it or leave it.", Scope::RunsCreate)
            .rest(Verb::Post, "/v1/runs")
            .toolset("runs")
            .streams()
            .header("idempotency-key", "idempotency_key", Precedence::MustAgree)
            .detaches::<Spawned>()
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<RunResult>, Failure> {
        let (mut spawn, mut how) = input.split();
        spawn.normalise("")?;
        let key = how.idempotency_key.take().map(|key| Idempotency {
            operation: NAME,
            key,
            body: runs::digest(std::slice::from_ref(&spawn)),
        });
        let (caller, warnings) = on_behalf(call.caller, spawn.user_id.as_ref(), spawn.tenant_id.as_ref());
        let interest = if how.mode == Some(Mode::Detach) { Interest::None } else { call.interest };
        let started = call.app.runs.start(&caller, spawn.into_start(warnings), key, interest).await?;
        let handle = RunHandle { caller, view: started.view, live: started.live, how, from: From::Start };
        Ok(Answer::Handle(Handle::Run(Box::new(handle))))
    }
}
