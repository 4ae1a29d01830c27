//! `commit_worktree`: commits what lies in the checkouts of a goal.

use std::path::PathBuf;

use drawloom_contract::ids::RunId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    request::{Changes, Request, Route},
    worktrees::{WorktreeChange, WorktreeLeftOut},
};

/// Commits what lies in the checkouts of a goal that has ended. Each commit is kept as a ref; the goal's branch does not move.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommitWorktree {
    /// The goal.
    pub run_id: RunId,
    /// A checkout by its name. Defaults to every checkout with changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 100), regex(pattern = "^[A-Za-z0-9_][A-Za-z0-9._-]*$"))]
    pub checkout: Option<String>,
    /// The message of the commits. Defaults to one that names the checkout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16_384))]
    pub message: Option<String>,
    /// Idempotency key: a request with the same key and body returns the first response again; with another body it fails with a
    /// conflict. Also the header `Idempotency-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub idempotency_key: Option<String>,
}

/// What was committed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorktreeCommits {
    /// The goal.
    pub run_id: RunId,
    /// The repository.
    #[serde(default)]
    pub repository: PathBuf,
    /// The goal's branch.
    #[serde(default)]
    pub branch: String,
    /// The commits, one for each checkout that had changes.
    pub commits: Vec<WorktreeCommit>,
}

/// A commit of a checkout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorktreeCommit {
    /// The checkout.
    pub checkout: String,
    /// The commit.
    pub commit: String,
    /// The ref that keeps it in the repository.
    pub reference: String,
    /// The files that it changes.
    pub changed: Vec<WorktreeChange>,
    /// Files that it leaves out, except ignored ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<WorktreeLeftOut>,
}

impl Request for CommitWorktree {
    const NAME: &'static str = "commit_worktree";
    const ROUTES: &'static [Route] = &[Route::post("/v1/worktrees/{run_id}/commit")];
    const CHANGES: Changes = Changes::Once;
    type Output = WorktreeCommits;
}
