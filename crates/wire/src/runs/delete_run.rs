//! `delete_run`: removes a run that has ended.

use drawloom_contract::{ids::RunId, retention::Pruned};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::request::{Changes, Request, Route};

/// Deletes a top-level run with its child runs, journals and artifacts. All of them must have ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteRun {
    /// The run: a top-level run that is not part of a batch.
    pub run_id: RunId,
    /// Idempotency key: a request with the same key and body returns the first response again; with another body it fails with a
    /// conflict. Also the header `Idempotency-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub idempotency_key: Option<String>,
}

/// What was deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Deleted {
    /// All runs, child runs included.
    pub runs: u64,
    /// Journal records.
    pub records: u64,
    /// Large values that were no longer used.
    pub blobs: u64,
}

impl Request for DeleteRun {
    const NAME: &'static str = "delete_run";
    const ROUTES: &'static [Route] = &[Route::delete("/v1/runs/{run_id}")];
    const CHANGES: Changes = Changes::Once;
    type Output = Deleted;
}

impl From<Pruned> for Deleted {
    fn from(pruned: Pruned) -> Self {
        let Pruned { trees: _, runs, records, blobs } = pruned;
        Self { runs, records, blobs }
    }
}
