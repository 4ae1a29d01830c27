//! `agentdef`: definitions of agents in the words of the reference, with one operation for all.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    definitions::{DefinitionExcess, DefinitionFinding, DefinitionMaker, DefinitionProblem, VersionRow},
    request::{Changes, Request, Route},
};

/// Defines, reads and changes agents, by `op`. The other operations about definitions do the same, each under its own name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentDef {
    /// What to do.
    pub op: AgentDefOp,
    /// The agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[A-Za-z0-9_./-]*$"))]
    pub name: Option<String>,
    /// A version: `NAME@VERSION`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 160), regex(pattern = r"^[A-Za-z0-9_./@-]*$"))]
    pub def_id: Option<String>,
    /// `fork`: the version to begin with. Defaults to the active version of `name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 160), regex(pattern = r"^[A-Za-z0-9_./@-]*$"))]
    pub parent_def_id: Option<String>,
    /// `create` and `verify`: the definition. `fork`: the fields to change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Map<String, Value>>", extend("x-aliases" = ["definition"]))]
    pub overlay: Option<Value>,
    /// What this version is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub description: Option<String>,
    /// Whether new runs use it at once. Defaults to true for `create`, false for `fork`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promote: Option<bool>,
    /// `retire`: false takes the retirement back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retired: Option<bool>,
    /// `verify`: a digest to compare with the active version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 64, max = 64), regex(pattern = r"^[0-9a-f]*$"))]
    pub content_sha256: Option<String>,
    /// Idempotency key: a request with the same key and body returns the first response again; with another body it fails with a
    /// conflict. Also the header `Idempotency-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub idempotency_key: Option<String>,
}

/// What to do with an agent's definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AgentDefOp {
    /// Define an agent, or a new version of one.
    Create,
    /// Make a version from another one.
    Fork,
    /// Read a version.
    Get,
    /// List the versions of a name.
    List,
    /// Take a version out of use.
    Retire,
    /// Make a version the one that new runs use.
    Promote,
    /// Report every problem without writing.
    Verify,
}

/// The answer, with the fields that the op has.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentDefAnswer {
    /// `NAME@VERSION`, or `NAME@config`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub def_id: Option<String>,
    /// The agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// The version that it was forked from; empty for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_def_id: Option<String>,
    /// What this version is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// When it was made (RFC 3339, UTC).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    /// Who made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maker: Option<DefinitionMaker>,
    /// Whether it is retired.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retired: Option<bool>,
    /// Whether it was forked from an agent of the config.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bootstrapped_from_static: Option<bool>,
    /// Digest of the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_sha256: Option<String>,
    /// The definition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub definition: Option<Value>,
    /// Whether it is the active version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub promoted: Option<bool>,
    /// Whether a version with the same content existed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deduplicated: Option<bool>,
    /// `list`: the versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub versions: Option<Vec<VersionRow>>,
    /// `verify`: whether the definition would be accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid: Option<bool>,
    /// `verify`: whether the active version has the compared content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matches: Option<bool>,
    /// `verify`: digest of the active version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_sha256: Option<String>,
    /// `verify`: the active version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_def_id: Option<String>,
    /// `verify`: whether a version is active and usable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deployed: Option<bool>,
    /// `verify`: mistakes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<DefinitionProblem>,
    /// `verify`: what it asks for beyond what its maker may give.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub excess: Vec<DefinitionExcess>,
    /// What lint found.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<DefinitionFinding>,
    /// What the caller should know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl Request for AgentDef {
    const NAME: &'static str = "agentdef";
    const ROUTES: &'static [Route] = &[Route::post("/v1/_agentdef")];
    const CHANGES: Changes = Changes::EveryTime;
    type Output = AgentDefAnswer;
}
