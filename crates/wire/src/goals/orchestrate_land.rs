//! `orchestrate_land`: brings a goal's work to a branch.

use std::path::PathBuf;

use drawloom_contract::ids::RunId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::request::{Changes, Request, Route};

/// Brings the work of a goal to a branch of its repository, if that can be done by moving the branch forward.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OrchestrateLand {
    /// The goal.
    pub run_id: RunId,
    /// The branch. Defaults to the one that work began at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub into: Option<String>,
    /// Land work whose verification failed, or that was not reviewed to the end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unverified: bool,
    /// Changed files that make tools of the user run something, such as `.envrc` or `.claude/settings.json`, and that may land. A
    /// path ending with a slash is a folder with all that is in it. Without them the error `needs_acceptance` lists the files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000), inner(length(min = 1, max = 4096)))]
    pub accept: Vec<String>,
    /// Idempotency key: a request with the same key and body returns the first response again; with another body it fails with a
    /// conflict. Also the header `Idempotency-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub idempotency_key: Option<String>,
}

/// What became of the branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GoalLanded {
    /// Whether the branch has the work now.
    pub landed: bool,
    /// Whether this call moved the branch.
    #[serde(default)]
    pub moved: bool,
    /// Whether the branch had the work before this call.
    #[serde(default)]
    pub already_landed: bool,
    /// The repository.
    #[serde(default)]
    pub repository: PathBuf,
    /// The branch.
    pub branch: String,
    /// The commit of the work.
    pub commit: String,
    /// What happened, or why nothing did.
    pub message: String,
    /// The command that brings the work to a branch that is checked out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

impl Request for OrchestrateLand {
    const NAME: &'static str = "orchestrate_land";
    const ROUTES: &'static [Route] = &[Route::post("/v1/goals/{run_id}/land")];
    const CHANGES: Changes = Changes::Once;
    type Output = GoalLanded;
}
