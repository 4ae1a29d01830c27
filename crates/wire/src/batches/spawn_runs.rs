//! `spawn_runs`: starts many runs in one call.

use drawloom_contract::ids::BatchId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    batches::{BatchResult, BatchStatus},
    request::{Changes, Detach, Request, Route},
    runs::{How, MAX_RESULT_BYTES, MAX_WAIT_MS, Mode, Spawn, Spawned},
};

/// The most runs of one batch.
pub const MAX_SPAWNS: usize = 32;

/// Starts many runs in one call. A run that cannot be started, for example because its agent is unknown, has failed in its place,
/// and the others run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SpawnRuns {
    /// The runs, at most 32. Results come in this order.
    #[schemars(length(min = 1, max = MAX_SPAWNS))]
    pub spawns: Vec<Spawn>,
    /// Refuse the whole batch when one of its runs cannot be started. Defaults to false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub strict: bool,
    /// `join` waits for all of them, which is also the default; `detach` answers the ids at once (202).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Wall-clock limit in milliseconds of every run, from accept. A spawn's own limit can only be shorter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub timeout_ms: Option<u64>,
    /// Maximum wait in milliseconds; then the current state is returned and the runs continue. Defaults to no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = MAX_WAIT_MS))]
    pub wait_ms: Option<u64>,
    /// Maximum bytes of final texts in the response; longer texts are returned as an outline, to be read with `read_artifact`.
    /// Defaults to no limit, except over MCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = MAX_RESULT_BYTES))]
    pub result_bytes: Option<u64>,
    /// Cancel the runs when the connection drops; by default they continue. Has no effect over MCP, where only an explicit
    /// cancel counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel_on_disconnect: Option<bool>,
    /// Idempotency key: a request with the same key and body returns the same batch; with another body it fails with a conflict.
    /// Also the header `Idempotency-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub idempotency_key: Option<String>,
}

/// A batch that was accepted, for a caller who does not wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SpawnedBatch {
    /// The batch.
    pub batch_id: BatchId,
    /// Whether it is done.
    pub status: BatchStatus,
    /// Its runs, in the order of the request.
    pub results: Vec<Spawned>,
    /// How many runs it has.
    pub spawned: u32,
}

impl Request for SpawnRuns {
    const NAME: &'static str = "spawn_runs";
    const ROUTES: &'static [Route] = &[Route::post("/v1/runs:batch")];
    const CHANGES: Changes = Changes::EveryTime;
    type Output = BatchResult;
}

impl Detach for SpawnRuns {
    type Accepted = SpawnedBatch;

    fn detach(&mut self) {
        self.mode = Some(Mode::Detach);
    }
}

impl SpawnRuns {
    /// What to start, apart from how to wait for it. The batch's time limit is in every spawn.
    pub fn split(self) -> (Vec<Spawn>, How) {
        let limit = self.timeout_ms;
        let mut spawns = self.spawns;
        for spawn in &mut spawns {
            spawn.timeout_ms = spawn.timeout_ms.into_iter().chain(limit).min();
        }
        let how = How {
            mode: self.mode,
            wait_ms: self.wait_ms,
            cancel_on_disconnect: self.cancel_on_disconnect.unwrap_or(false),
            idempotency_key: self.idempotency_key,
            result_bytes: self.result_bytes,
        };
        (spawns, how)
    }
}
