//! `diff_worktree`: what a goal changed.

use std::path::PathBuf;

use drawloom_contract::ids::RunId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::request::{Changes, Request, Route};

/// Shows what a goal's branch changed since its base, or what one checkout did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DiffWorktree {
    /// The goal.
    pub run_id: RunId,
    /// A checkout by its name: compares what lies in it, also what is not committed, with the base. Defaults to the goal's branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 100), regex(pattern = "^[A-Za-z0-9_][A-Za-z0-9._-]*$"))]
    pub checkout: Option<String>,
    /// Only what is not committed in the checkout.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub uncommitted: bool,
    /// Maximum bytes of text. Each file has its share; a larger one is cut in the middle. Defaults to 1,000,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 16_000_000))]
    pub max_bytes: Option<u64>,
}

/// What changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorktreeDiff {
    /// The goal.
    pub run_id: RunId,
    /// The repository.
    #[serde(default)]
    pub repository: PathBuf,
    /// The goal's branch.
    #[serde(default)]
    pub branch: String,
    /// The commit that it is compared with.
    pub from: String,
    /// The commit, or the tree of the checkout.
    pub to: String,
    /// The files that differ.
    pub files: Vec<WorktreeChange>,
    /// Added lines.
    pub insertions: u64,
    /// Removed lines.
    pub deletions: u64,
    /// The difference as git writes it, with secrets masked.
    pub text: String,
    /// Whether something is missing in the text, which says of which files.
    pub truncated: bool,
}

/// A file that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorktreeChange {
    /// Its path.
    pub path: String,
    /// `added`, `modified`, `deleted`, `renamed`, `copied` or `type_changed`.
    pub status: String,
    /// Where it was before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
}

impl Request for DiffWorktree {
    const NAME: &'static str = "diff_worktree";
    const ROUTES: &'static [Route] = &[Route::get("/v1/worktrees/{run_id}/diff")];
    const CHANGES: Changes = Changes::Nothing;
    type Output = WorktreeDiff;
}
