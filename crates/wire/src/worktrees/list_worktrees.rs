//! `list_worktrees`: the checkouts of goals, the newest goal first.

use std::path::PathBuf;

use drawloom_contract::ids::RunId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::request::{Changes, Request, Route};

/// Lists goals that have checkouts on the disk, the newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListWorktrees {
    /// Only this goal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// Goals whose checkouts were removed too. Their branches and refs stay.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
    /// Maximum goals. Defaults to 20.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 200))]
    pub limit: Option<u32>,
}

/// Goals with their checkouts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorktreeList {
    /// The goals.
    pub worktrees: Vec<Worktree>,
}

/// A goal with its branch and its checkouts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Worktree {
    /// The goal, which is a run.
    pub run_id: RunId,
    /// The goal as it was asked, shortened.
    pub goal: String,
    /// `running`, `needs_input`, `completed`, `stopped` (by a limit), `failed` or `cancelled`.
    pub status: String,
    /// The repository.
    pub repository: PathBuf,
    /// The goal's branch.
    pub branch: String,
    /// The commit that work began at.
    pub base: String,
    /// The newest commit of the branch. Absent until something was merged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// What the goal takes on the disk, with all its checkouts.
    pub bytes: u64,
    /// The checkouts.
    pub checkouts: Vec<WorktreeCheckout>,
    /// Why its repository or its checkouts cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A checkout of a goal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorktreeCheckout {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// Whether planners and reviewers read it, and no worker changes it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// Its last checkpoint, or what it started from.
    pub commit: String,
    /// How many checkpoints it has.
    pub checkpoints: u32,
    /// What it takes on the disk.
    #[serde(default)]
    pub bytes: u64,
    /// Changed files that are not committed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncommitted: Vec<String>,
    /// Files that are not committed and would be left out of a commit, except ignored ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<WorktreeLeftOut>,
    /// Why it cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A file that commits leave out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorktreeLeftOut {
    /// Its path in the checkout.
    pub path: String,
    /// Why, such as `secret name` or `too large`.
    pub reason: String,
}

impl Request for ListWorktrees {
    const NAME: &'static str = "list_worktrees";
    const ROUTES: &'static [Route] = &[Route::get("/v1/worktrees")];
    const CHANGES: Changes = Changes::Nothing;
    type Output = WorktreeList;
}
