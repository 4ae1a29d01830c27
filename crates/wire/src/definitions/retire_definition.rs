//! `retire_definition`: takes a version out of use.

use drawloom_contract::definition::DefinitionKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    definitions::DefinitionVersion,
    request::{Changes, Request, Route},
};

/// Takes a version out of use. Runs that have started with it go on. If it was the active one, new runs are refused until another
/// version is promoted; a channel refuses publishers and readers until then and keeps its messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RetireDefinition {
    /// What is defined.
    pub kind: DefinitionKind,
    /// Its name.
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[A-Za-z0-9_./-]*$"))]
    pub name: String,
    /// The version. Defaults to the active one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub version: Option<u32>,
    /// False takes the retirement back. Defaults to true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retired: Option<bool>,
    /// Idempotency key: a request with the same key and body returns the first response again; with another body it fails with a
    /// conflict. Also the header `Idempotency-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub idempotency_key: Option<String>,
}

impl Request for RetireDefinition {
    const NAME: &'static str = "retire_definition";
    const ROUTES: &'static [Route] = &[Route::post("/v1/definitions:retire")];
    const CHANGES: Changes = Changes::EveryTime;
    type Output = DefinitionVersion;
}
