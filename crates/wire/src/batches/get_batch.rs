//! `get_batch`: looks at a batch, or waits for it.

use drawloom_contract::{ids::BatchId, money::Amount, record::Status, usage::Usage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    request::{Changes, Request, Route},
    runs::{MAX_RESULT_BYTES, MAX_WAIT_MS, RunResult},
};

/// Looks at a batch, or waits for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetBatch {
    /// The batch.
    pub batch_id: BatchId,
    /// Maximum wait for the end of all runs, in milliseconds; then the current state is returned. Defaults to no wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = MAX_WAIT_MS))]
    pub wait_ms: Option<u64>,
    /// Maximum bytes of final texts in the response; longer texts are returned as an outline, to be read with `read_artifact`.
    /// Defaults to no limit, except over MCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = MAX_RESULT_BYTES))]
    pub result_bytes: Option<u64>,
}

/// A batch: how its runs stand, by index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BatchResult {
    /// The batch.
    pub batch_id: BatchId,
    /// Whether it is done.
    pub status: BatchStatus,
    /// Its runs, in the order of the request.
    pub results: Vec<RunResult>,
    /// How many runs it has.
    pub spawned: u32,
    /// Tokens of all its runs so far, without the runs that those spawned.
    #[serde(default)]
    pub usage: Usage,
    /// What they cost, as far as their models have a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Amount>,
    /// What cut the answer short.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// How to go on, when this is not the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// Whether a batch is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BatchStatus {
    /// Some run has not ended.
    Running,
    /// Every run has ended.
    Done,
}

impl Request for GetBatch {
    const NAME: &'static str = "get_batch";
    const ROUTES: &'static [Route] = &[Route::get("/v1/batches/{batch_id}")];
    const CHANGES: Changes = Changes::Nothing;
    type Output = BatchResult;
}

impl BatchStatus {
    /// The status of a batch whose runs stand so.
    pub fn of(statuses: impl IntoIterator<Item = Status>) -> Self {
        if statuses.into_iter().all(Status::is_terminal) { Self::Done } else { Self::Running }
    }
}
