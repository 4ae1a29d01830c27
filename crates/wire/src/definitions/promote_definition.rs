//! `promote_definition`: makes a version the one that new runs use.

use drawloom_contract::definition::DefinitionKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    definitions::DefinitionVersion,
    request::{Changes, Request, Route},
};

/// Makes a version the active one: new runs use it, and a channel has its settings at once. It is checked again: it can have no more
/// than its maker may give today.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PromoteDefinition {
    /// What is defined.
    pub kind: DefinitionKind,
    /// Its name.
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[A-Za-z0-9_./-]*$"))]
    pub name: String,
    /// The version.
    #[schemars(range(min = 1))]
    pub version: u32,
    /// Idempotency key: a request with the same key and body returns the first response again; with another body it fails with a
    /// conflict. Also the header `Idempotency-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub idempotency_key: Option<String>,
}

impl Request for PromoteDefinition {
    const NAME: &'static str = "promote_definition";
    const ROUTES: &'static [Route] = &[Route::post("/v1/definitions:promote")];
    const CHANGES: Changes = Changes::Once;
    type Output = DefinitionVersion;
}
