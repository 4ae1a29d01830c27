//! The seam to the repository that a goal changes: checkouts, checkpoints, merges, verification.
//!
//! Every method can be repeated after a crash with the same input: it then has the same answer and no further effect.

mod changed;

use std::path::PathBuf;

use async_trait::async_trait;
use drawloom_contract::time::Timestamp;
use serde::{Deserialize, Serialize};

pub use changed::ChangedFolder;

use crate::request::{Cleanup, VerifyInput, WorkspaceInput};

/// What the errors of a workspace begin with that are limits of the disk: they stop a goal as its other budgets do.
pub const DISK_LIMIT: &str = "disk limit: ";

/// The repository of one goal. `goal` is the id of the goal's run.
#[async_trait]
pub trait Workspace: Send + Sync {
    /// Checks the repository and finds the base. Nothing was paid for before this.
    async fn prepare(&self, goal: &str, input: &WorkspaceInput) -> Result<Prepared, String>;

    /// A directory at `commit`: for a worker one that exists is kept as it is, for readers it is brought to the commit.
    async fn checkout(&self, goal: &str, input: &Checkout) -> Result<CheckedOut, String>;

    /// Commits what a worker left in its checkout.
    async fn checkpoint(&self, goal: &str, input: &Checkpoint) -> Result<Checkpointed, String>;

    /// Merges a worker's commit into the goal's branch.
    async fn merge(&self, goal: &str, input: &Merge) -> Result<Merged, String>;

    /// Runs the verify commands on a clean checkout of `commit`.
    async fn verify(&self, goal: &str, input: &Verify) -> Result<Verified, String>;

    /// What changed between two commits.
    async fn diff(&self, goal: &str, input: &Diff) -> Result<Diffed, String>;

    /// Removes the goal's checkouts as its policy says. Nothing that is not on a ref is removed.
    async fn clean(&self, goal: &str, input: &Clean) -> Result<Cleaned, String>;

    /// Where the raw output of roles is kept.
    async fn output(&self, goal: &str) -> Result<PathBuf, String>;

    /// An empty directory for a role of a goal without a repository.
    async fn scratch(&self, goal: &str, name: &str) -> Result<PathBuf, String>;
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prepared {
    /// The top of the repository.
    pub repository: PathBuf,
    /// The commit that work begins at.
    pub base: String,
    /// Where the goal's branch is already, if it goes on from that of an earlier goal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// The goal's branch in that repository.
    pub branch: String,
    /// Where checkouts are: of a goal without isolation, the user's own.
    pub path: PathBuf,
    /// Whether workers change the user's checkout itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_place: bool,
    #[serde(default)]
    pub warnings: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkout {
    pub name: String,
    pub commit: String,
    /// Whether it is only read.
    pub read_only: bool,
    /// Whether what is there is replaced by the commit. What it held was checkpointed.
    #[serde(default)]
    pub reset: bool,
    /// How long its setup may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_ms: Option<u64>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckedOut {
    /// The directory to work in.
    pub directory: PathBuf,
    /// The name of the checkout, and where in it the directory is. Both are empty outside of checkouts.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub checkout: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub subdirectory: String,
    /// More variables for what works there.
    #[serde(default)]
    pub environment: Vec<(String, String)>,
    /// What it must be able to read and change besides.
    #[serde(default)]
    pub readable: Vec<PathBuf>,
    #[serde(default)]
    pub writable: Vec<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    pub name: String,
    /// The commit that the checkout was made from.
    pub parent: String,
    pub message: String,
    pub at: Timestamp,
    /// The globs that may be changed; all when empty.
    #[serde(default)]
    pub files: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpointed {
    /// Absent when nothing changed.
    pub commit: Option<String>,
    #[serde(default)]
    pub changed: Vec<String>,
    /// How many more changed, which `changed` does not list.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub changed_more: u64,
    /// Files that were not committed, each with the reason.
    #[serde(default)]
    pub left_out: Vec<LeftOut>,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out_more: u64,
    /// Changed files that the subgoal's `files` do not allow.
    #[serde(default)]
    pub out_of_scope: Vec<String>,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub out_of_scope_more: u64,
    #[serde(default)]
    pub warnings: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    pub path: String,
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Merge {
    /// The head of the goal's branch.
    pub head: String,
    pub commit: String,
    pub message: String,
    pub at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "merge", rename_all = "snake_case")]
pub enum Merged {
    Merged {
        commit: String,
    },
    Conflict {
        files: Vec<String>,
        #[serde(default, skip_serializing_if = "is_zero")]
        files_more: u64,
        output: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verify {
    pub key: String,
    pub base: String,
    pub commit: String,
    pub verify: VerifyInput,
    /// How long all commands may take together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_ms: Option<u64>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verified {
    /// The tree that the results are about.
    pub tree: String,
    pub results: Vec<CommandResult>,
    /// Why the work is not accepted although the commands succeeded.
    #[serde(default)]
    pub refusals: Vec<String>,
    #[serde(default)]
    pub warnings: Vec<String>,
}

impl Verified {
    pub fn is_ok(&self) -> bool {
        self.refusals.is_empty() && self.results.iter().all(|result| result.ok)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandResult {
    pub name: String,
    pub ok: bool,
    pub exit_code: Option<i32>,
    /// The end of what it printed.
    pub output: String,
    #[serde(default)]
    pub error: Option<String>,
    pub duration_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diff {
    pub from: String,
    pub to: String,
    pub most_bytes: usize,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diffed {
    pub text: String,
    pub truncated: bool,
    /// The paths of the files that differ, as goals of earlier versions have them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// The files that differ. The journal keeps as many of them as fit into a result.
    #[serde(default)]
    pub changes: Vec<ChangedFile>,
    /// Those that are not listed, as folders.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub folders: Vec<ChangedFolder>,
    /// Those that make a tool of the user run something.
    #[serde(default)]
    pub triggers: Vec<Trigger>,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub triggers_more: u64,
    /// The tree of `to`.
    pub tree: String,
}

/// A file that differs between two commits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedFile {
    pub path: String,
    /// `added`, `modified`, `deleted`, `renamed`, `copied` or `type_changed`.
    pub status: String,
    /// Its size now.
    pub bytes: u64,
}

/// A changed file that makes a tool of the user run something after the work has landed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trigger {
    pub path: String,
    /// Which tool runs what.
    pub why: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clean {
    pub policy: Cleanup,
    /// Whether the work was accepted.
    pub completed: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cleaned {
    /// Where checkouts were kept, if any were.
    pub kept: Option<PathBuf>,
    /// Why each of them was.
    #[serde(default)]
    pub reasons: Vec<String>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}
