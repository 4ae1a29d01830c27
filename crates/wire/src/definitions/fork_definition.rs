//! `fork_definition`: makes a version from another one.

use drawloom_contract::definition::DefinitionKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    definitions::DefinitionVersion,
    request::{Changes, Request, Route},
};

/// Makes a new version from another one, with changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ForkDefinition {
    /// What is defined.
    pub kind: DefinitionKind,
    /// The version to begin with: `NAME` (the active one), `NAME@VERSION`, or an agent or channel of
    /// the config.
    #[schemars(length(min = 1, max = 160), regex(pattern = r"^[A-Za-z0-9_./@-]*$"))]
    pub from: String,
    /// The name of the new version. Defaults to that of `from`; an agent or channel of the config needs another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[A-Za-z0-9_./-]*$"))]
    pub name: Option<String>,
    /// Fields to change in the source; `null` removes one (RFC 7396).
    #[serde(default, skip_serializing_if = "Value::is_null")]
    #[schemars(with = "Option<serde_json::Map<String, Value>>", extend("x-aliases" = ["overlay"]))]
    pub changes: Value,
    /// What this version is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub description: Option<String>,
    /// Whether it is active at once: new runs use it, and a channel has its settings. Defaults to false.
    #[serde(default)]
    pub promote: bool,
    /// Idempotency key: a request with the same key and body returns the first response again; with another body it fails with a
    /// conflict. Also the header `Idempotency-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub idempotency_key: Option<String>,
}

impl Request for ForkDefinition {
    const NAME: &'static str = "fork_definition";
    const ROUTES: &'static [Route] = &[Route::post("/v1/definitions:fork")];
    const CHANGES: Changes = Changes::EveryTime;
    type Output = DefinitionVersion;
}
