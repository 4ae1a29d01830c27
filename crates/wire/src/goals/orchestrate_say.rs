//! `orchestrate_say`: says something to a goal at work.

use drawloom_contract::ids::RunId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::request::{Changes, Request, Route};

/// Says something to a goal at work. Planner, workers and reviewer that are asked from then on are told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OrchestrateSay {
    /// The goal.
    pub run_id: RunId,
    /// What to tell them.
    #[schemars(length(min = 1, max = 16_384))]
    pub text: String,
    /// Idempotency key: a request with the same key and body returns the first response again; with another body it fails with a
    /// conflict. Also the header `Idempotency-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub idempotency_key: Option<String>,
}

/// What was said to a goal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GoalSaid {
    /// The goal.
    pub run_id: RunId,
    /// Everything that was said to it so far.
    pub said: Vec<String>,
}

impl Request for OrchestrateSay {
    const NAME: &'static str = "orchestrate_say";
    const ROUTES: &'static [Route] = &[Route::post("/v1/goals/{run_id}/say")];
    const CHANGES: Changes = Changes::EveryTime;
    type Output = GoalSaid;
}
