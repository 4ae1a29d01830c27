//! `orchestrate_cancel`: stops a goal and everything that it started.

use drawloom_contract::ids::RunId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    request::{Changes, Request, Route},
    runs::Cancelled,
};

/// Stops a goal and everything that it started. Its branch and checkpoints stay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OrchestrateCancel {
    /// The goal.
    pub run_id: RunId,
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

impl Request for OrchestrateCancel {
    const NAME: &'static str = "orchestrate_cancel";
    const ROUTES: &'static [Route] = &[Route::post("/v1/goals/{run_id}/cancel")];
    const CHANGES: Changes = Changes::Once;
    type Output = Cancelled;
}
