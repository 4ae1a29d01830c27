//! The one goal that goes on from an ended one: started by whichever request comes first, and found by every other.

use std::sync::Arc;

use drawloom_contract::{
    caller::{Caller, Proof, Scope},
    failure::{Failure, FailureKind},
    ids::{Digest, RunId},
    runs::{Idempotency, Started},
    view::RunView,
};
use drawloom_goal::{GoalInput, Successor, SuccessorRequest};
use drawloom_wire::{goals::OrchestrateResume, request::Request as _};

use super::key;
use crate::{operation::Call, operations::goals::orchestrate::start_for};

/// How many characters of the digest of a caller's key are stored.
const KEY_LENGTH: usize = 32;

/// Maximum goals of one chain that are looked through.
const MAX_CHAIN: usize = 1_000;

/// A caller's idempotency key as it is stored with the goal: its digest, because the key may have a secret in it.
pub(crate) fn stored_key(key: &str) -> String {
    Digest::of(key.as_bytes()).to_string().chars().take(KEY_LENGTH).collect()
}

/// Whether the run of a successor still exists, even if the caller cannot see it.
pub(crate) async fn exists(call: &Call<'_>, run: RunId) -> Result<bool, Failure> {
    let reader = Caller {
        tenant: call.caller.tenant.clone(),
        subject: call.caller.subject.clone(),
        scopes: vec![Scope::RunsReadAll],
        proof: Proof::Open,
    };
    match call.app.runs.glance(&reader, run).await {
        Ok(_) => Ok(true),
        Err(failure) if failure.kind == FailureKind::NotFound => Ok(false),
        Err(failure) => Err(failure),
    }
}

/// The goal that goes on from `run` already. When it has ended too, the caller has to resume the newest one of the chain.
pub(crate) async fn attach(call: &Call<'_>, run: RunId, successor: RunId) -> Result<Started, Failure> {
    let goals = &call.app.goals;
    let refuse = |message: String| Failure::new(FailureKind::Conflict, "goal_continued", message);
    let mut newest = match goals.find(call.app, call.caller, successor).await {
        Ok(view) if !view.status.is_terminal() => return Ok(Started { view: Arc::new(view), live: None }),
        Ok(view) => view,
        Err(failure) if failure.kind == FailureKind::NotFound => {
            let message = format!("another user has resumed goal {run} already, as a goal that you cannot see");
            return Err(refuse(message).with_hint("ask that user, or start another goal with orchestrate"));
        }
        Err(failure) => return Err(failure),
    };
    for _ in 0..MAX_CHAIN {
        let Some(next) = goals.questions.successor(&key(&newest)).await? else { break };
        let Ok(view) = goals.find(call.app, call.caller, next).await else { break };
        newest = view;
    }
    let message = format!("goal {run} was resumed already as goal {successor}, which has ended");
    let newest = newest.run;
    Err(refuse(message).with_hint(format!("go on from {newest} with orchestrate_resume")))
}

/// Starts the goal that goes on from `ended`, or attaches to the one that another request starts at the same time. `gone` is a successor
/// that was deleted.
pub(crate) async fn start(
    call: &Call<'_>,
    ended: &RunView,
    goal: &GoalInput,
    idempotency: Option<Idempotency>,
    gone: Option<RunId>,
) -> Result<Started, Failure> {
    let (questions, ended_key) = (&call.app.goals.questions, key(ended));
    let operation = OrchestrateResume::NAME;
    let own = match idempotency {
        Some(Idempotency { key, body, .. }) => SuccessorRequest { subject: call.caller.subject.clone(), key, body },
        None => {
            let id = RunId::mint(call.app.clock.wall(), &*call.app.entropy)?;
            let (key, body) = (stored_key(&id.to_string()), Digest::of(ended.run.to_string().as_bytes()));
            SuccessorRequest { subject: call.caller.subject.clone(), key, body }
        }
    };
    let claim = questions.claim_successor(&ended_key, own.clone(), gone).await?;
    let Successor { run: None, request: Some(request) } = claim else {
        let Some(known) = claim.run else { return Err(unreadable(ended.run)) };
        return attach(call, ended.run, known).await;
    };
    // The same request as every other caller makes, so that one run comes of all of them.
    let requester = Caller { subject: request.subject.clone(), ..call.caller.clone() };
    let repeated = Idempotency { operation, key: request.key.clone(), body: request.body };
    let user = call.caller.subject.clone();
    let started = start_for(call, &requester, user, goal, Some(repeated)).await?;
    let run = started.view.run;
    let is_own = request == own;
    questions.set_successor(&ended_key, &Successor { run: Some(run), request: Some(request) }).await?;
    if is_own { Ok(started) } else { attach(call, ended.run, run).await }
}

fn unreadable(run: RunId) -> Failure {
    Failure::new(FailureKind::Broken, "unreadable", format!("the successor of goal {run} cannot be read"))
}
