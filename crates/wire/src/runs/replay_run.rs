//! `replay_run`: folds a run's journal again, with no model and no tool called.

use drawloom_contract::ids::RunId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use drawloom_contract::runs::Replay;

use crate::request::{Changes, Request, Route};

/// Folds a run's journal again, with no model and no tool called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplayRun {
    /// The run.
    pub run_id: RunId,
}

impl Request for ReplayRun {
    const NAME: &'static str = "replay_run";
    const ROUTES: &'static [Route] = &[Route::get("/v1/runs/{run_id}/replay")];
    const CHANGES: Changes = Changes::Nothing;
    type Output = Replay;
}
