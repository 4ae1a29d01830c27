//! `verify_definition`: every problem of a definition at once.

use drawloom_contract::definition::DefinitionKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    definitions::DefinitionFinding,
    request::{Changes, Request, Route},
};

/// Reports every problem of a definition at once, without writing anything.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VerifyDefinition {
    /// What is defined.
    pub kind: DefinitionKind,
    /// Its name.
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[A-Za-z0-9_./-]*$"))]
    pub name: String,
    /// The definition to verify. Without it, a stored version is verified with today's config.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Map<String, Value>>", extend("x-aliases" = ["overlay", "definition"]))]
    pub source: Option<Value>,
    /// The stored version. Defaults to the active one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub version: Option<u32>,
    /// A digest to compare with the active version. Defaults to that of `source`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 64, max = 64), regex(pattern = r"^[0-9a-f]*$"))]
    pub content_sha256: Option<String>,
}

/// What is to say about a definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DefinitionReport {
    /// What is defined.
    pub kind: DefinitionKind,
    /// Its name.
    pub name: String,
    /// `config` when the config has it, which nothing at runtime can change; else `runtime`.
    #[serde(default)]
    pub origin: String,
    /// Whether it would be accepted; true for what the config has.
    pub valid: bool,
    /// Mistakes.
    pub problems: Vec<DefinitionProblem>,
    /// What it asks for beyond what its maker may give.
    pub excess: Vec<DefinitionExcess>,
    /// What lint found.
    pub findings: Vec<DefinitionFinding>,
    /// What the caller should know.
    pub warnings: Vec<String>,
    /// Digest of the verified source; empty for a skill or volume of the config.
    pub content_sha256: String,
    /// The active version; absent when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// `NAME@VERSION` of the active version, or `NAME@config`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_def_id: Option<String>,
    /// Digest of the active version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_sha256: Option<String>,
    /// Whether the active version has the compared content.
    pub matches: bool,
    /// Whether a version is active and usable.
    pub deployed: bool,
}

/// A mistake in a definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DefinitionProblem {
    /// Where in the source; empty for the whole.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What to try next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// Something that a definition asks for and its maker may not give.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DefinitionExcess {
    /// The key of the definition, such as `tools`.
    pub gate: String,
    /// What it asks for.
    pub asked: String,
    /// What is allowed.
    pub allowed: String,
    /// What would allow it.
    pub fix: String,
}

impl Request for VerifyDefinition {
    const NAME: &'static str = "verify_definition";
    const ROUTES: &'static [Route] = &[Route::post("/v1/definitions:verify")];
    const CHANGES: Changes = Changes::Nothing;
    type Output = DefinitionReport;
}
