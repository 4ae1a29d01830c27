//! `delete_batch`: removes a batch that is done.

use drawloom_contract::ids::BatchId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    request::{Changes, Request, Route},
    runs::Deleted,
};

/// Deletes a batch: all its runs with their child runs, journals and artifacts. All of them must have ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteBatch {
    /// The batch.
    pub batch_id: BatchId,
    /// Idempotency key: a request with the same key and body returns the first response again; with another body it fails with a
    /// conflict. Also the header `Idempotency-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub idempotency_key: Option<String>,
}

impl Request for DeleteBatch {
    const NAME: &'static str = "delete_batch";
    const ROUTES: &'static [Route] = &[Route::delete("/v1/batches/{batch_id}")];
    const CHANGES: Changes = Changes::Once;
    type Output = Deleted;
}
