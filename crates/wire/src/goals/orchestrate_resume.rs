//! `orchestrate_resume`: answers what a goal asks, or goes on from one that has ended.

use drawloom_contract::{ids::RunId, money::Amount};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    goals::GoalResult,
    request::{Changes, Request, Route},
};

/// Goes on with a goal: answers what it asks, by `token` or `run_id`; or continues one that has ended, by `run_id`, as a new goal with the
/// same task, base and branch content and with what is left of its budget, or more.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OrchestrateResume {
    /// The token that came with the questions. It is valid for one answer.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 128))]
    pub token: String,
    /// The goal, in place of a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// For a goal that has ended: what planner and workers are told first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16_384))]
    pub say: Option<String>,
    /// For a goal that has ended: iterations of the new goal. Defaults to what is left; so do the other limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000))]
    pub max_iterations: Option<u32>,
    /// Seconds of the new goal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_seconds: Option<u64>,
    /// Calls of roles of the new goal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_agent_calls: Option<u32>,
    /// Tokens of the new goal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_tokens: Option<u64>,
    /// Cost of the new goal, in the currency of `pricing`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost: Option<Amount>,
    /// Answers in the order of the questions. A question without an answer is left to the goal's own judgement.
    #[serde(default)]
    #[schemars(length(max = 8))]
    pub answers: Vec<String>,
    /// Success criteria in place of those that were proposed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 65_536))]
    pub success_criteria: Option<String>,
    /// Whether the plan is approved, when the goal asks that. A plan that is not approved ends the goal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved: Option<bool>,
    /// Return at once (default); otherwise the answer is the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detach: Option<bool>,
    /// Idempotency key: a request with the same key and body returns the first response again; with another body it fails with a
    /// conflict. Also the header `Idempotency-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub idempotency_key: Option<String>,
}

impl Request for OrchestrateResume {
    const NAME: &'static str = "orchestrate_resume";
    const ROUTES: &'static [Route] = &[Route::post("/v1/goals:resume")];
    const CHANGES: Changes = Changes::EveryTime;
    type Output = GoalResult;
}
