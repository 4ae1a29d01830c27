//! `get_definition`: one version of a definition, with its source.

use drawloom_contract::definition::DefinitionKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    definitions::DefinitionVersion,
    request::{Changes, Request, Route},
};

/// Reads one version of a definition, with its source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetDefinition {
    /// What is defined.
    pub kind: DefinitionKind,
    /// Its name.
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[A-Za-z0-9_./-]*$"))]
    pub name: String,
    /// The version. Defaults to the active one, or the newest if none is active.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub version: Option<u32>,
}

impl Request for GetDefinition {
    const NAME: &'static str = "get_definition";
    const ROUTES: &'static [Route] = &[Route::get("/v1/definitions/{kind}/{name...}")];
    const CHANGES: Changes = Changes::Nothing;
    type Output = DefinitionVersion;
}
