//! `cancel_batch`: stops every run of a batch.

use drawloom_contract::ids::BatchId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    request::{Changes, Request, Route},
    runs::Cancelled,
};

/// Cancels all runs of a batch and their child runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelBatch {
    /// The batch.
    pub batch_id: BatchId,
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

/// What cancelling a batch did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CancelledBatch {
    /// The batch.
    pub batch_id: BatchId,
    /// How many runs this call made stop.
    pub cancelled: u32,
    /// What it did to each, by index.
    pub runs: Vec<Cancelled>,
}

impl Request for CancelBatch {
    const NAME: &'static str = "cancel_batch";
    const ROUTES: &'static [Route] = &[Route::post("/v1/batches/{batch_id}/cancel")];
    const CHANGES: Changes = Changes::Once;
    type Output = CancelledBatch;
}
