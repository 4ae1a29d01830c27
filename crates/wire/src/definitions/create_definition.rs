//! `create_definition`: defines an agent, a channel, a skill or a volume, and what all requests about definitions share.

use drawloom_contract::{
    definition::DefinitionKind,
    ids::{AgentName, RunId, UserId},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::request::{Changes, Request, Route};

/// Defines an agent, a channel, a skill or a volume, or a new version of one. It is usable at once by every run of the tenant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateDefinition {
    /// What is defined.
    pub kind: DefinitionKind,
    /// Its name. A name of the config cannot be used.
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[A-Za-z0-9_./-]*$"))]
    pub name: String,
    /// The definition. An agent has the keys that it would have in the config (`system_prompt`, `tools`, `model`, …), and so has a
    /// channel (`scope`, `semantic`, `max_messages`, …); a skill has `description`, `instructions` and `files`; a volume has `path` and
    /// `mode`.
    #[schemars(with = "serde_json::Map<String, Value>", extend("x-aliases" = ["overlay", "definition"]))]
    pub source: Value,
    /// What this version is for. Also the description of the agent or channel, if the source has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub description: Option<String>,
    /// Whether it is active at once: new runs use it, and a channel has its settings. Defaults to true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promote: Option<bool>,
    /// Idempotency key: a request with the same key and body returns the first response again; with another body it fails with a
    /// conflict. Also the header `Idempotency-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub idempotency_key: Option<String>,
}

/// A version of a definition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DefinitionVersion {
    /// What is defined.
    pub kind: DefinitionKind,
    /// Its name.
    pub name: String,
    /// The version, counted from 1; absent for a definition of the config.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// `NAME@VERSION`, or `NAME@config`.
    pub def_id: String,
    /// Digest of the source.
    pub content_sha256: String,
    /// The version that it was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// What this version is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// When it was made (RFC 3339, UTC).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    /// Who made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maker: Option<DefinitionMaker>,
    /// The agent of the config that bounds what it can use; absent when `definitions.grant` does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounded_by: Option<String>,
    /// Whether it is retired.
    pub retired: bool,
    /// Whether new runs use it, or a channel has its settings.
    pub active: bool,
    /// Whether this request made it the active one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promoted: Option<bool>,
    /// Whether a version with the same content existed, which is the one shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deduplicated: Option<bool>,
    /// The definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Value>,
    /// Why it cannot be used with today's config; absent when it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unusable: Option<String>,
    /// What lint found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<DefinitionFinding>,
    /// What the caller should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Who made a version: a caller, or an agent in a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DefinitionMaker {
    /// The user who asked for it, or for whom the run was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<UserId>,
    /// The agent that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentName>,
    /// The run of that agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
}

/// Something about a definition that its reader should know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DefinitionFinding {
    /// `warning` (it will not do what it looks like) or `note`.
    pub level: String,
    /// Where in the source; empty for the whole.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// What.
    pub message: String,
}

impl Request for CreateDefinition {
    const NAME: &'static str = "create_definition";
    const ROUTES: &'static [Route] = &[Route::post("/v1/definitions")];
    const CHANGES: Changes = Changes::EveryTime;
    type Output = DefinitionVersion;
}
