//! `cancel_run`: stops a run and its children.

use drawloom_contract::{
    ids::{AgentId, RunId},
    record::Status,
    runs,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::request::{Changes, Request, Route};

/// Cancels a run and its child runs. Give `run_id` or `agent_id`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelRun {
    /// The run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// The caller's own id of a run: the unfinished run that has it, else the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// Why, in your words; it is journaled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1000))]
    pub reason: Option<String>,
    /// Idempotency key: a request with the same key and body returns the first response again; with another body it fails with a
    /// conflict. Also the header `Idempotency-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub idempotency_key: Option<String>,
}

/// What a cancel did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cancelled {
    /// Whether this call made it stop; not, when it had ended.
    pub cancelled: bool,
    /// The run.
    pub run_id: RunId,
    /// The caller's own id of the run.
    pub agent_id: AgentId,
    /// Where it stands.
    pub status: Status,
    /// Runs below it that were told to stop too.
    pub cascaded: Vec<RunId>,
    /// Why, as given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Request for CancelRun {
    const NAME: &'static str = "cancel_run";
    const ROUTES: &'static [Route] =
        &[Route::post("/v1/runs/{run_id}/cancel"), Route::post("/v1/agents/{agent_id}/cancel")];
    const CHANGES: Changes = Changes::Once;
    type Output = Cancelled;
}

impl Cancelled {
    /// What the engine did, as callers see it.
    pub fn of(done: runs::Cancelled, reason: Option<String>) -> Self {
        Self {
            cancelled: done.cancelled,
            run_id: done.view.run,
            agent_id: done.view.agent_id,
            status: done.view.status,
            cascaded: done.cascaded,
            reason,
        }
    }
}
