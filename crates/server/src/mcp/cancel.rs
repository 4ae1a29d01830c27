//! An explicit cancel that names its call by key: the newer protocol has no other way to say it over HTTP.

use std::sync::Arc;

use drawloom_contract::{
    caller::{Caller, Scope},
    failure::Failure,
    ids::RunId,
    once::HandleId,
};
use rmcp::model::RequestId;
use serde::Deserialize;

use crate::{
    app::App,
    mcp::{
        CALL_KEY,
        calls::is_timeout,
        endpoint::{CallName, Shared},
        notes::{self, Note, Notes},
        table::View,
    },
};

const METHOD: &str = "notifications/cancelled";
/// The longest message that can be a cancel.
const LONGEST: usize = 16 * 1024;

/// Why a run ended that was cancelled so.
const WORDS: &str = "the call was cancelled over MCP";

#[derive(Deserialize)]
struct Cancelled {
    method: String,
    params: Params,
}

#[derive(Deserialize)]
struct Params {
    #[serde(default)]
    reason: Option<String>,
    #[serde(rename = "_meta", default)]
    meta: serde_json::Map<String, serde_json::Value>,
}

/// Takes a message if it is such a cancel; says whether it was.
pub(super) async fn take(shared: &Arc<Shared>, view: &View, body: &[u8]) -> bool {
    // Parsing is for the few that can be it.
    if body.len() > LONGEST || !body.windows(METHOD.len()).any(|window| window == METHOD.as_bytes()) {
        return false;
    }
    let Ok(Cancelled { method, params }) = serde_json::from_slice(body) else { return false };
    let Some(key) = params.meta.get(CALL_KEY).and_then(|key| key.as_str()) else { return false };
    let caller = &view.caller;
    if method != METHOD || !caller.may(Scope::RunsCreate) {
        return false;
    }
    let name = CallName { tenant: caller.tenant.clone(), subject: caller.subject.clone(), key: key.to_owned() };
    if shared.calls.cancel(&name, params.reason.clone()) {
        return true;
    }
    if is_timeout(params.reason.as_deref()) {
        return false;
    }
    match what_it_started(shared, view, key).await {
        Ok(found) => found,
        Err(failure) => {
            tracing::warn!(error = %failure, "what a cancelled call had started could not be stopped");
            false
        }
    }
}

/// Cancels what a call had started that nobody waits for here any more: the server was restarted since, or its caller was
/// gone for a while. A call that was not accepted started nothing.
async fn what_it_started(shared: &Arc<Shared>, view: &View, key: &str) -> Result<bool, Failure> {
    let (app, caller) = (&shared.app, &view.caller);
    if let Some(note) = Notes::new(app.clone()).find(&notes::of_key(caller, key)).await?
        && stop_noted(shared, view, &note).await
    {
        return Ok(true);
    }
    for operation in ["spawn_run", "spawn_runs"] {
        if let Some(handle) = app.runs.find_keyed(caller, operation, key).await? {
            let runs = runs_of(app, caller, handle).await?;
            let mut failed = None;
            for run in runs {
                failed = failed.or(app.runs.cancel(caller, run, Some(WORDS.into())).await.err());
            }
            return failed.map_or(Ok(true), Err);
        }
    }
    Ok(false)
}

/// Cancels what a call of a session had started that nobody waits for here: the server was restarted since.
pub(super) async fn of_session(shared: &Arc<Shared>, view: &View, session: &str, call: &RequestId) {
    let note = match Notes::new(shared.app.clone()).find(&notes::of_session(session, call)).await {
        Ok(note) => note,
        // A notification has no answer that could say so.
        Err(error) => {
            return tracing::error!(%error, "a cancel could not be carried out: what it is about is unreadable");
        }
    };
    // An answered call is over, and what it left running goes on.
    if let Some(note) = note.filter(|note| !note.answered) {
        stop_noted(shared, view, &note).await;
    }
}

/// Cancels what a noted call had started; says whether that was found. What it only looked at goes on.
async fn stop_noted(shared: &Arc<Shared>, view: &View, note: &Note) -> bool {
    if !note.terms.belongs_to_call {
        return true;
    }
    for table in &shared.tables {
        if let Some(Ok(mut found)) = table.find_task(&shared.app, view, &note.handle, note.terms.clone()).await {
            if let Err(error) = found.cancel(Some(WORDS.into())).await {
                tracing::warn!(%error, "what a cancelled call had started could not be stopped");
            }
            return true;
        }
    }
    false
}

async fn runs_of(app: &App, caller: &Caller, handle: HandleId) -> Result<Vec<RunId>, Failure> {
    Ok(match handle {
        HandleId::Run(run) => vec![run],
        HandleId::Batch(batch) => app.runs.load_batch(caller, batch).await?.into_iter().map(|view| view.run).collect(),
    })
}
