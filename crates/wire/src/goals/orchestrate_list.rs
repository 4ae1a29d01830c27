//! `orchestrate_list`: goals, the newest first.

use drawloom_contract::ids::RunId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    goals::GoalStatus,
    request::{Changes, Request, Route},
};

/// Lists goals, the newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OrchestrateList {
    /// Maximum goals. Defaults to 20.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 200))]
    pub limit: Option<u32>,
    /// Goals older than this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<RunId>,
}

/// Goals, the newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GoalList {
    /// The goals.
    pub runs: Vec<GoalStatus>,
}

impl Request for OrchestrateList {
    const NAME: &'static str = "orchestrate_list";
    const ROUTES: &'static [Route] = &[Route::get("/v1/goals")];
    const CHANGES: Changes = Changes::Nothing;
    type Output = GoalList;
}
