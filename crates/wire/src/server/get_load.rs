//! `get_load`: how many runs are active and queued.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use drawloom_contract::runs::Load;

use crate::request::{Changes, Request, Route};

/// Asks how full the server is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetLoad {}

impl Request for GetLoad {
    const NAME: &'static str = "get_load";
    const ROUTES: &'static [Route] = &[Route::get("/v1/_concurrency/stats")];
    const CHANGES: Changes = Changes::Nothing;
    type Output = Load;
}
