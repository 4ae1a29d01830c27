//! `orchestrate_resume`: answers what a goal asks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    goals::GoalResult,
    request::{Changes, Request, Route},
};

/// Answers what a goal asks; it goes on as the same run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OrchestrateResume {
    /// The token that came with the questions. It is valid for one answer.
    #[schemars(length(min = 1, max = 128))]
    pub token: String,
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
