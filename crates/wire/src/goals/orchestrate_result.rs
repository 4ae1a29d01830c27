//! `orchestrate_result`: what came of a goal.

use drawloom_contract::ids::RunId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    goals::GoalResult,
    request::{Changes, Request, Route},
};

/// Reads what came of a goal, and can wait for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OrchestrateResult {
    /// The goal.
    pub run_id: RunId,
    /// Wait until it has ended or asks something.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wait: bool,
    /// How long to wait, in seconds. Defaults to no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86_400))]
    pub timeout: Option<u64>,
}

impl Request for OrchestrateResult {
    const NAME: &'static str = "orchestrate_result";
    const ROUTES: &'static [Route] = &[Route::get("/v1/goals/{run_id}/result")];
    const CHANGES: Changes = Changes::Nothing;
    type Output = GoalResult;
}
