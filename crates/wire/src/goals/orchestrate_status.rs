//! `orchestrate_status`: where a goal stands.

use std::path::PathBuf;

use drawloom_contract::{ids::RunId, money::Amount};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::request::{Changes, Request, Route};

/// Reads where a goal stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OrchestrateStatus {
    /// The goal.
    pub run_id: RunId,
}

/// Where a goal stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GoalStatus {
    /// The goal, which is a run.
    pub run_id: RunId,
    /// The folder with `events.jsonl`, `status.json`, `result.json` and `workers/`.
    pub run_dir: PathBuf,
    /// The goal as it was asked, shortened.
    pub goal: String,
    /// The repository that it works in. Absent for a goal without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<PathBuf>,
    /// The goal's branch, once the repository is prepared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// `running`, `needs_input`, `completed`, `stopped` (by a limit), `failed` or `cancelled`.
    pub status: String,
    /// Whether it has not ended.
    pub running: bool,
    /// `idle`, `intake`, `decompose`, `execute`, `verify`, `review`, `done` or `failed`.
    pub phase: String,
    /// The iteration, from 1; 0 before the first.
    pub iteration: u32,
    /// Events so far.
    pub events: u64,
    /// Seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<f64>,
    /// Whether the goal is met; only at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed: Option<bool>,
    /// Why it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// The ended goal that this one goes on from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<RunId>,
    /// The newest goal that goes on from this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continued_by: Option<RunId>,
    /// Whether its branch, refs, checkouts and folder were removed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub removed: bool,
    /// What its workers do now, as far as their backends report it. Not stored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<GoalWorker>,
    /// What was said to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub said: Vec<String>,
    /// What the goal asks, with `needs_input`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<String>,
    /// Criteria that were proposed, with `needs_input`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success_criteria: Option<String>,
    /// Whether the criteria are to be confirmed, with `needs_input`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub confirms_criteria: bool,
    /// The plan that is to be approved, with `needs_input`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Value>,
    /// For `orchestrate_resume`, with `needs_input`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

/// What a worker of a goal, or another role, does now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GoalWorker {
    /// The subgoal of a worker; another role's name.
    pub worker: String,
    /// Its run.
    pub run_id: RunId,
    /// The last tool that it used. Empty before the first.
    pub tool: String,
    /// What the tool is used on, such as a file or a command.
    pub detail: String,
    /// Tokens of its call so far, as far as they are known.
    pub tokens: u64,
    /// Their cost, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Amount>,
}

impl Request for OrchestrateStatus {
    const NAME: &'static str = "orchestrate_status";
    const ROUTES: &'static [Route] = &[Route::get("/v1/goals/{run_id}")];
    const CHANGES: Changes = Changes::Nothing;
    type Output = GoalStatus;
}
