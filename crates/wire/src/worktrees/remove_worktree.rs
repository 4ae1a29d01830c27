//! `remove_worktree`: removes the checkouts of a goal.

use std::path::PathBuf;

use drawloom_contract::ids::RunId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::request::{Changes, Request, Route};

/// Removes the checkouts of a goal that has ended. What is not committed is kept as a ref first; branches and refs stay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoveWorktree {
    /// The goal.
    pub run_id: RunId,
    /// Remove checkouts also when they have files that no commit takes, such as `.env` or files that are too large. These are lost.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub discard: bool,
    /// Idempotency key: a request with the same key and body returns the first response again; with another body it fails with a
    /// conflict. Also the header `Idempotency-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub idempotency_key: Option<String>,
}

/// What was removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorktreeRemoved {
    /// The goal.
    pub run_id: RunId,
    /// The repository.
    #[serde(default)]
    pub repository: PathBuf,
    /// The goal's branch.
    #[serde(default)]
    pub branch: String,
    /// The checkouts that were removed.
    pub removed: Vec<String>,
    /// Bytes that are free now.
    pub bytes: u64,
    /// What was not committed, and the refs that keep it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub saved: Vec<SavedCheckout>,
}

/// What was not committed in a checkout that was removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SavedCheckout {
    /// The checkout.
    pub checkout: String,
    /// The ref that keeps it in the repository.
    pub reference: String,
}

impl Request for RemoveWorktree {
    const NAME: &'static str = "remove_worktree";
    const ROUTES: &'static [Route] = &[Route::delete("/v1/worktrees/{run_id}")];
    const CHANGES: Changes = Changes::Once;
    type Output = WorktreeRemoved;
}
