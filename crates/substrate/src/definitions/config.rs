//! The config section `definitions`: what can be defined at runtime, and how much of it.

use drawloom_contract::definition::{DefinitionKind, MemoryScope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::volumes::VolumeParent;

/// Agents, channels, skills and volumes that are defined at runtime.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DefinitionsConfig {
    /// What agents that callers define can use at most.
    pub grant: Grant,
    /// Folders inside which volumes can be defined. None by default.
    pub volumes_under: Vec<VolumeParent>,
    /// Maximum names and versions of each kind, per tenant, counted together.
    #[schemars(range(min = 1, max = 1_000_000))]
    #[schemars(extend("x-harmless" = "a limit"))]
    pub max_versions: u64,
    /// Maximum total size of all versions of each kind, per tenant, in bytes.
    #[schemars(range(min = 1024, max = 1_073_741_824))]
    #[schemars(extend("x-harmless" = "a limit"))]
    pub max_bytes: u64,
}

pub(super) const USUAL_VERSIONS: u64 = 4_000;
pub(super) const USUAL_BYTES: u64 = 64 * 1024 * 1024;

impl Default for DefinitionsConfig {
    fn default() -> Self {
        Self {
            grant: Grant::default(),
            volumes_under: Vec::new(),
            max_versions: USUAL_VERSIONS,
            max_bytes: USUAL_BYTES,
        }
    }
}

/// What agents that callers define can use at most. The defaults reach nothing but the server's own store; a key that is set
/// replaces its default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Grant {
    /// Tools: exact names or `prefix*`.
    #[schemars(extend("x-power" = { "words": "lets agents that callers define use the tool: {}", "as": "text", "when": "not_default" }))]
    pub tools: Vec<String>,
    /// Agents of the config that they can spawn: exact names or `prefix*`. Agents that callers defined can always be spawned.
    #[schemars(extend("x-power" = { "words": "lets agents that callers define use the agent: {}", "as": "text", "when": "not_default" }))]
    pub agents: Vec<String>,
    /// Volumes of the config. Volumes that were defined at runtime can always be used.
    #[schemars(extend("x-power" = { "words": "lets agents that callers define use the volume: {}", "as": "text", "when": "not_default" }))]
    pub volumes: Vec<String>,
    /// Hosts: exact names, `*.suffix`, or `*`.
    #[schemars(extend("x-power" = { "words": "lets agents that callers define use the host: {}", "as": "text", "when": "not_default" }))]
    pub hosts: Vec<String>,
    /// Memory scopes.
    #[schemars(extend("x-harmless" = "names only what this config or its project has"))]
    pub memory_scopes: Vec<MemoryScope>,
    /// Skills: exact names or `prefix*`.
    #[schemars(extend("x-harmless" = "names only what this config or its project has"))]
    pub skills: Vec<String>,
    /// Channels.
    pub channels: ChannelGrant,
    /// Evaluation scopes: exact names or `prefix*`.
    #[schemars(extend("x-harmless" = "names only what this config or its project has"))]
    pub evaluation_scopes: Vec<String>,
    /// What they can define themselves with the tool `AgentDef`.
    #[schemars(extend("x-harmless" = "names only what this config or its project has"))]
    pub definitions: Vec<DefinitionKind>,
    /// Models: `PROVIDER/MODEL` or `PROVIDER/*`; `*` for all.
    #[schemars(extend("x-harmless" = "chooses among the providers, which are listed"))]
    pub models: Vec<String>,
    /// Maximum model turns per run.
    #[schemars(range(min = 1, max = 10_000))]
    #[schemars(extend("x-harmless" = "a limit"))]
    pub max_iterations: u32,
}

/// Channels that agents can use: exact names or `prefix*`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ChannelGrant {
    /// Channels to publish to.
    #[schemars(extend("x-harmless" = "names only what this config or its project has"))]
    pub publish: Vec<String>,
    /// Channels to subscribe to.
    #[schemars(extend("x-harmless" = "names only what this config or its project has"))]
    pub subscribe: Vec<String>,
}

/// The tools that reach nothing but the server's own store.
const OWN_STORE: [&str; 6] = ["Memory", "Channel", "Evaluation", "Context", "Artifact", "Skill"];

fn all() -> Vec<String> {
    vec!["*".to_owned()]
}

impl Default for Grant {
    fn default() -> Self {
        Self {
            tools: OWN_STORE.map(str::to_owned).to_vec(),
            agents: Vec::new(),
            volumes: Vec::new(),
            hosts: Vec::new(),
            memory_scopes: vec![MemoryScope::Agent, MemoryScope::User, MemoryScope::Tenant, MemoryScope::Run],
            skills: all(),
            channels: ChannelGrant::default(),
            evaluation_scopes: all(),
            definitions: Vec::new(),
            models: all(),
            max_iterations: 10_000,
        }
    }
}

impl Default for ChannelGrant {
    fn default() -> Self {
        Self { publish: all(), subscribe: all() }
    }
}
