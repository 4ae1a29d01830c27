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
    operation::{Answer, Call, Card, Operation, Parameter, Told},
};

pub(crate) struct SpawnRun;

const PARAMETERS: &[Parameter] = &[
    Parameter::needs("agent", "Agent name, from list_agents."),
    Parameter::needs("prompt", "The task. The agent does not see this conversation: say all that it needs to know."),
    Parameter::takes(
        "tools",
        "Use only these of the agent's tools: names or prefix*; [] for none. Default: all of them.",
    ),
    Parameter::takes("budget", "Limits for this run and its children together."),
    Parameter::takes("budget.tokens", "Maximum tokens."),
    Parameter::takes("budget.cost", "Maximum cost, in the currency of the server's prices."),
    Parameter::takes("run_timeout_seconds", "Time limit of the run in seconds, from its start."),
    Parameter::takes("mode", "join (default) waits for the answer; detach returns the run_id at once."),
    Parameter::takes("wait_ms", "Maximum wait in milliseconds; then the call returns and the run continues."),
    Parameter::takes(
        "result_bytes",
        "Maximum bytes of the answer text (default 24576); a longer text comes as an outline.",
    ),
];

impl Operation for SpawnRun {
    type Input = runs::SpawnRun;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Start a run of an agent.", Scope::RunsCreate)
            .toolset("core")
            .told(Told::Run)
            .parameters(PARAMETERS)
            .advice(
                "Hands one task to an agent that works with its own model and tools; only its answer comes back. For several \
                 independent tasks use spawn_runs. A long run may come back unfinished with its run_id: wait with get_run and \
                 do not start it again.",
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
