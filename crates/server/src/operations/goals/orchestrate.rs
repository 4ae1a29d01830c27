//! `orchestrate`: drives a goal to done.

use drawloom_contract::{
    caller::{Caller, Scope},
    failure::Failure,
    ids::{Digest, UserId},
    runs::{Idempotency, Interest, Start, Started},
};
use drawloom_goal::GoalInput;
use drawloom_wire::{
    goals::{self, GoalResult},
    request::Request as _,
    runs::How,
};
use serde_json::json;

use crate::{
    goals::GOAL_AGENT,
    handle::Handle,
    operation::{Answer, Call, Card, Operation, Parameter, Told},
};

pub(crate) struct Orchestrate;

const PARAMETERS: &[Parameter] = &[
    Parameter::needs(
        "goal",
        "What is to be achieved. Workers do not see this conversation: say all that they need to know.",
    ),
    Parameter::takes("success_criteria", "How a reviewer knows that it is met. Proposed by a model if empty."),
    Parameter::takes(
        "backend",
        "Who works: claude_code, codex, opencode, aider, model:NAME, agent:NAME, mock, or auto (default): you.",
    ),
    Parameter::takes("caller_agent", "Who you are, for auto: claude, codex, opencode or aider."),
    Parameter::takes("model", "The model of all roles."),
    Parameter::takes("roles", "Other backends for single roles: planner, worker, reviewer."),
    Parameter::takes(
        "cwd",
        "A directory of a git repository. Workers change checkouts of their own, never this directory.",
    ),
    Parameter::takes("base", "Branch, tag or commit that work begins at (default HEAD)."),
    Parameter::takes("include_uncommitted", "Begin with uncommitted changes of cwd."),
    Parameter::takes("include", "Ignored files that every checkout gets, as globs."),
    Parameter::takes("cleanup", "What becomes of checkouts at the end: auto (default), always or never."),
    Parameter::takes("setup", "Shell command that prepares each checkout, such as \"npm ci\"."),
    Parameter::takes("verify_commands", "Shell commands that must succeed on the work, such as \"npm test\"."),
    Parameter::takes("verify_timeout", "Timeout of each verify command in seconds."),
    Parameter::takes("playwright", "Also verify with npx playwright test."),
    Parameter::takes("protect", "Files that workers must not change, as globs, such as tests/**."),
    Parameter::takes("witness", "Require that the verify commands fail before the work."),
    Parameter::takes("skip_permissions", "Workers use their tools without asking. Only in isolated checkouts."),
    Parameter::takes(
        "isolate",
        "Give workers checkouts of their own (default). false: they change cwd itself, which must be clean.",
    ),
    Parameter::takes("max_iterations", "Maximum iterations (default 4)."),
    Parameter::takes("max_seconds", "Maximum seconds in all."),
    Parameter::takes("max_agent_calls", "Maximum calls of all roles."),
    Parameter::takes("max_cost", "Maximum cost of all roles."),
    Parameter::takes("max_tokens", "Maximum tokens of all roles."),
    Parameter::takes("max_task_retries", "Further tries of a subgoal that failed (default 1)."),
    Parameter::takes("max_parallel", "Workers at the same time (default 8)."),
    Parameter::takes("timeout", "Timeout of one call of a coding CLI or model in seconds."),
    Parameter::takes("ask", "Ask what must be known before planning; then the status is needs_input."),
    Parameter::takes("detach", "Return at once (default true); false waits for the result."),
];

impl Operation for Orchestrate {
    type Input = goals::Orchestrate;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Drive a goal to done: plan, work, verify, review, repeat.", Scope::GoalsCreate)
            .toolset("goal")
            .client_field("caller_agent")
            .told(Told::Goal)
            .parameters(PARAMETERS)
            .advice(
                "Returns at once with a run_id. Follow it with orchestrate_tail and tell the user what happens; orchestrate_result \
                 has the result. It continues when you disconnect.",
            )
            .stores_key()
    }

    async fn call(&self, call: &Call<'_>, mut input: Self::Input) -> Result<Answer<GoalResult>, Failure> {
        let detach = input.detach.take().unwrap_or(true);
        let key = input.idempotency_key.take().map(|key| Idempotency {
            operation: Self::Input::NAME,
            key,
            body: Digest::of(&serde_json::to_vec(&input).expect("requests have only text keys")),
        });
        let goal = call.app.goals.host.complete(call.caller, &input)?;
        let started = start(call, &goal, key).await?;
        answer(call, started, detach).await
    }
}

/// Starts a goal.
pub(super) async fn start(call: &Call<'_>, goal: &GoalInput, key: Option<Idempotency>) -> Result<Started, Failure> {
    start_for(call, call.caller, call.caller.subject.clone(), goal, key).await
}

/// Starts a goal of `user` with a request of `requester`.
pub(crate) async fn start_for(
    call: &Call<'_>,
    requester: &Caller,
    user: UserId,
    goal: &GoalInput,
    key: Option<Idempotency>,
) -> Result<Started, Failure> {
    let start = Start {
        user: Some(user),
        budget_tokens: goal.budget.max_tokens,
        budget_cost: goal.budget.max_cost.map(drawloom_contract::money::Cost),
        input: Some(json!(goal)),
        definition: Some(call.app.goals.host.agent()),
        ..Start::new(GOAL_AGENT.parse().expect("a constant name"), goal.goal.clone())
    };
    let started = call.app.runs.start(requester, start, key, Interest::None).await?;
    call.app.goals.host.started(started.view.key());
    Ok(started)
}

/// The goal as it stands, or a handle to wait for it.
pub(super) async fn answer(call: &Call<'_>, started: Started, detach: bool) -> Result<Answer<GoalResult>, Failure> {
    if detach {
        let read = call.app.goals.read(call.app, call.caller, started.view.run).await?;
        return Ok(Answer::Value(call.app.goals.result(&read).await?));
    }
    let how = How { result_bytes: call.result_bytes, ..How::default() };
    Ok(Answer::Handle(Handle::of_goal(call.caller.clone(), started, how)))
}
