//! `retry_run`: runs a run that has ended once more.

use drawloom_contract::ids::{Digest, RunId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    request::{Changes, Detach, Request, Route},
    runs::{How, MAX_RESULT_BYTES, MAX_WAIT_MS, Mode, RunResult, Spawned},
};

/// Runs a run that failed, was cancelled or timed out once more, with the same prompt, input and limits of its request, and the agent as it is defined now. A child
/// run takes its place again while its parent waits for other child runs of the same call, and a run of a batch while the batch
/// is unfinished; every other retry is a new top-level run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryRun {
    /// The run.
    pub run_id: RunId,
    /// Retry a run that completed, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub completed: bool,
    /// `join` (default) waits for the result; `detach` returns the ids at once (202).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Maximum wait in milliseconds; then the current state is returned and the run continues. Defaults to no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = MAX_WAIT_MS))]
    pub wait_ms: Option<u64>,
    /// Maximum bytes of final texts in the response; longer texts are returned as an outline, to be read with `read_artifact`.
    /// Defaults to no limit, except over MCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = MAX_RESULT_BYTES))]
    pub result_bytes: Option<u64>,
    /// Idempotency key: a request with the same key and body returns the same run; with another body it fails with a conflict.
    /// Also the header `Idempotency-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub idempotency_key: Option<String>,
}

impl Request for RetryRun {
    const NAME: &'static str = "retry_run";
    const ROUTES: &'static [Route] = &[Route::post("/v1/runs/{run_id}/retry")];
    const CHANGES: Changes = Changes::EveryTime;
    type Output = RunResult;
}

impl Detach for RetryRun {
    type Accepted = Spawned;

    fn detach(&mut self) {
        self.mode = Some(Mode::Detach);
    }
}

impl RetryRun {
    /// A retry of `run_id`, and nothing else said.
    pub fn new(run_id: RunId) -> Self {
        Self { run_id, completed: false, mode: None, wait_ms: None, result_bytes: None, idempotency_key: None }
    }

    /// How to wait for it.
    pub fn how(&self) -> How {
        How {
            mode: self.mode,
            wait_ms: self.wait_ms,
            cancel_on_disconnect: false,
            idempotency_key: self.idempotency_key.clone(),
            result_bytes: self.result_bytes,
        }
    }

    /// The digest that an idempotency key compares.
    pub fn digest(&self) -> Digest {
        Digest::of(format!("{} {}", self.run_id, self.completed).as_bytes())
    }
}
