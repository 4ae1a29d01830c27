//! `get_artifact`: a text that an agent wrote, whole.

use drawloom_contract::ids::RunId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    artifacts::WrittenArtifact,
    request::{Changes, Request, Route},
};

/// Downloads an artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetArtifact {
    /// A run of the tree.
    pub run_id: RunId,
    /// The artifact's name.
    #[schemars(length(min = 1, max = 200), regex(pattern = r"^[A-Za-z0-9._/-]*$"))]
    pub name: String,
}

/// An artifact with its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WholeArtifact {
    /// What it is and who wrote it.
    pub artifact: WrittenArtifact,
    /// The text.
    pub text: String,
}

impl Request for GetArtifact {
    const NAME: &'static str = "get_artifact";
    const ROUTES: &'static [Route] = &[Route::get("/v1/runs/{run_id}/artifacts/{name...}")];
    const CHANGES: Changes = Changes::Nothing;
    type Output = WholeArtifact;
}
