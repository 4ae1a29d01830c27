//! `orchestrate_rm`: removes a goal's branch, refs, checkouts and folder.

use std::path::PathBuf;

use drawloom_contract::ids::RunId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::request::{Changes, Request, Route};

/// Removes the branch, refs, checkouts and folder of a goal that has ended. Its run stays in the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OrchestrateRm {
    /// The goal.
    pub run_id: RunId,
    /// Idempotency key: a request with the same key and body returns the first response again; with another body it fails with a
    /// conflict. Also the header `Idempotency-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub idempotency_key: Option<String>,
}

/// What was removed of a goal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GoalRemoved {
    /// The goal.
    pub run_id: RunId,
    /// Its repository. Absent for a goal without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<PathBuf>,
    /// The branch that was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The commit that the branch was at, to bring it back with `git branch`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// How many other refs were removed.
    pub refs: u64,
    /// Bytes that were freed.
    pub bytes: u64,
    /// What may be left in a repository that is gone or was replaced, with the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<String>,
}

impl Request for OrchestrateRm {
    const NAME: &'static str = "orchestrate_rm";
    const ROUTES: &'static [Route] = &[Route::delete("/v1/goals/{run_id}")];
    const CHANGES: Changes = Changes::Once;
    type Output = GoalRemoved;
}
