//! `follow_run`: a run's events so far, then new ones until it ends.

use drawloom_contract::ids::RunId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    request::{Changes, Request, Route},
    runs::RunResult,
};

/// Follows a run: its events so far, then new ones until it ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FollowRun {
    /// The run.
    pub run_id: RunId,
    /// Only events with an id above this one; also the header `Last-Event-ID`. Defaults to all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_seq: Option<u64>,
    /// Include the events of all child runs, in the order in which they were recorded, until all have ended. Each event has
    /// `run_id` and `agent`, and its id is a position in the journal of all runs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tree: bool,
    /// Stream only the events so far. Cannot be combined with `tree`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub past: bool,
}

impl Request for FollowRun {
    const NAME: &'static str = "follow_run";
    const ROUTES: &'static [Route] = &[Route::get("/v1/runs/{run_id}/events"), Route::get("/v1/runs/{run_id}/stream")];
    const CHANGES: Changes = Changes::Nothing;
    type Output = RunResult;
}
