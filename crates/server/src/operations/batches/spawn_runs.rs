//! `spawn_runs`: starts many runs in one call.

use drawloom_contract::{
    caller::{Caller, Scope},
    failure::Failure,
    runs::{Idempotency, Interest, OnRefusal, Start},
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
    operation::{Answer, Call, Card, Operation, Parameter, Told},
};

pub(crate) struct SpawnRuns;

const PARAMETERS: &[Parameter] = &[
    Parameter::needs("spawns", "The tasks."),
    Parameter::needs("spawns[].agent", "Agent name, from list_agents."),
    Parameter::needs("spawns[].prompt", "The task. The agent does not see this conversation or the other tasks."),
    Parameter::takes("spawns[].tools", "Use only these of the agent's tools: names or prefix*; [] for none."),
    Parameter::takes("spawns[].budget", "Limits for this run and its children together."),
    Parameter::takes("spawns[].budget.tokens", "Maximum tokens."),
    Parameter::takes("spawns[].budget.cost", "Maximum cost, in the currency of the server's prices."),
    Parameter::takes("spawns[].run_timeout_seconds", "Time limit of the run in seconds, from its start."),
    Parameter::takes("mode", "join (default) waits for all answers; detach returns the ids at once."),
    Parameter::takes("wait_ms", "Maximum wait in milliseconds; then the call returns and the runs continue."),
    Parameter::takes(
        "result_bytes",
        "Maximum bytes of all answer texts together (default 24576); the longest texts come as outlines.",
    ),
];

impl Operation for SpawnRuns {
    type Input = batches::SpawnRuns;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Start up to 32 runs in one call.", Scope::RunsCreate)
            .toolset("core")
            .told(Told::Batch)
            .parameters(PARAMETERS)
            .advice(
                "Hands independent tasks to agents that work side by side. Results come in the order of the tasks, each with \
                 its index; one that fails does not stop the others. Long batches may come back unfinished with a batch_id: \
                 wait with get_batch and do not start them again.",
            )
            .body_limit(MAX_BATCH_BODY)
            .stores_key()
            .detaches::<Self::Input>()
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<BatchResult>, Failure> {
        let on_refusal = if input.strict { OnRefusal::RefuseAll } else { OnRefusal::FailThatRun };
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
        let started = call.app.runs.start_batch(&caller, starts, on_refusal, key, interest).await?;
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
