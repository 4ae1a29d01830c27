//! `diff_definitions`: what differs between two versions.

use drawloom_contract::definition::DefinitionKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::request::{Changes, Request, Route};

/// Compares the sources of two versions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DiffDefinitions {
    /// What is defined.
    pub kind: DefinitionKind,
    /// The old version: `NAME@VERSION`, `NAME` for the active one, or an agent or channel of the config.
    #[schemars(length(min = 1, max = 160), regex(pattern = r"^[A-Za-z0-9_./@-]*$"))]
    pub from: String,
    /// The new version, in the same form.
    #[schemars(length(min = 1, max = 160), regex(pattern = r"^[A-Za-z0-9_./@-]*$"))]
    pub to: String,
}

/// What differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DefinitionDiff {
    /// The old version.
    pub from: String,
    /// The new version.
    pub to: String,
    /// Whether both have the same content.
    pub same: bool,
    /// A unified diff; empty when they are the same.
    pub diff: String,
}

impl Request for DiffDefinitions {
    const NAME: &'static str = "diff_definitions";
    const ROUTES: &'static [Route] = &[Route::get("/v1/definitions:diff")];
    const CHANGES: Changes = Changes::Nothing;
    type Output = DefinitionDiff;
}
