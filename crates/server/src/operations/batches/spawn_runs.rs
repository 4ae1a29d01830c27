//! `spawn_runs`: starts many runs in one call.

use drawloom_contract::{
    caller::{Caller, Scope},
    failure::Failure,
    runs::{Idempotency, Interest, Start},
};
use drawloom_wire::{
    batches::{self, BatchResult},
    body::MAX_BATCH_BODY,
    request::Request as _,
    runs::{self, Mode, Spawn},
};

use crate::{
    auth::on_behalf,
    handle::Handle,
    operation::{Answer, Call, Card, Operation},
};

pub(crate) struct SpawnRuns;

impl Operation for SpawnRuns {
    type Input = batches::SpawnRuns;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Start up to 32 runs in one call, whole or not at all, and wait for them or leave them.",
            Scope::RunsCreate,
        )
        .toolset("core")
        .advice(
            "Use it to hand several independent tasks out at once; they run side by side within the server's limits, and \
             one that fails does not stop the others. Results come in the order of the request, each with its index. It \
             waits for all of them (mode join); long ones may come back unfinished with a hint how to wait on with \
             get_batch. mode detach answers at once.",
        )
        .body_limit(MAX_BATCH_BODY)
        .stores_key()
            .detaches::<Self::Input>()
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<BatchResult>, Failure> {
        let (mut spawns, mut how) = input.split();
        how.result_bytes = how.result_bytes.or(call.result_bytes);
        for (index, spawn) in spawns.iter_mut().enumerate() {
            spawn.normalise(&format!("spawns[{index}]."))?;
        }
        let key = how.idempotency_key.take().map(|key| Idempotency {
            operation: Self::Input::NAME,
            key,
            body: runs::digest(&spawns),
        });
        let (caller, starts) = starts(call.caller, spawns);
        let interest = if how.mode == Some(Mode::Detach) { Interest::None } else { Interest::Outcome };
        let started = call.app.runs.start_batch(&caller, starts, key, interest).await?;
        Ok(Answer::Handle(Handle::batch(caller, started.batch, started.runs, how)))
    }
}

/// The starts, each for its own user, and who asks for all of them: the first one's.
fn starts(caller: &Caller, spawns: Vec<Spawn>) -> (Caller, Vec<Start>) {
    let mut whole: Option<Caller> = None;
    let mut starts = Vec::with_capacity(spawns.len());
    for spawn in spawns {
        let (caller, warnings) = on_behalf(caller, spawn.user_id.as_ref(), spawn.tenant_id.as_ref());
        starts.push(Start { user: Some(caller.subject.clone()), ..spawn.into_start(warnings) });
        whole.get_or_insert(caller);
    }
    (whole.unwrap_or_else(|| caller.clone()), starts)
}
