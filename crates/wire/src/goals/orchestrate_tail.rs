//! `orchestrate_tail`: the events of a goal since a cursor.

use drawloom_contract::ids::RunId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::request::{Changes, Request, Route};

/// Reads the events of a goal after a cursor, and can wait for the next one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OrchestrateTail {
    /// The goal.
    pub run_id: RunId,
    /// Events after this one; `cursor` of the last answer. Defaults to all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<u64>,
    /// Maximum events. Defaults to 200.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000))]
    pub limit: Option<u32>,
    /// How long to wait when there is no event yet, in milliseconds; at most 50,000 per request. Defaults to no wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

/// Events of a goal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GoalEvents {
    /// The goal.
    pub run_id: RunId,
    /// The events, in order.
    pub events: Vec<GoalEvent>,
    /// The last event of this answer; give it with the next request.
    pub cursor: u64,
    /// Whether the goal has not ended.
    pub running: bool,
    /// Whether there are more events already.
    pub more: bool,
    /// How long the request could wait, in milliseconds.
    pub effective_wait_ms: u64,
    /// What the caller should know, such as a wait that was clipped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// An event of a goal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GoalEvent {
    /// Its number, from 1.
    pub seq: u64,
    /// Seconds since 1970.
    pub ts: f64,
    /// What happened.
    pub kind: String,
    /// The iteration; 0 before the first.
    pub iteration: u32,
    /// More about it.
    pub data: Value,
}

impl Request for OrchestrateTail {
    const NAME: &'static str = "orchestrate_tail";
    const ROUTES: &'static [Route] = &[Route::get("/v1/goals/{run_id}/events")];
    const CHANGES: Changes = Changes::Nothing;
    type Output = GoalEvents;
}
