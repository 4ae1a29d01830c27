//! The config of an agent, as the operator writes it.

use drawloom_contract::{
    choice::{Effort, Sampling},
    definition::{DefinitionKind, MemoryScope},
    money::Amount,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    evaluations::EvaluationScope,
    tiers::{Tier, Tiers, tiers_schema},
};

/// A model, named by a provider and its name there, or by an alias from `models`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ModelChoice {
    /// The provider, from `providers`.
    #[schemars(extend("x-harmless" = "chooses among the providers, which are listed"))]
    pub provider: Option<String>,
    /// The provider's name of the model; without a provider, an alias from `models`.
    #[schemars(extend("x-harmless" = "chooses among the providers, which are listed"))]
    pub model: Option<String>,
}

/// Budget of a run and its child runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Budget {
    /// Maximum input and output tokens of a run and its child runs together; no limit by default.
    #[schemars(range(min = 1))]
    #[schemars(extend("x-harmless" = "a limit"))]
    pub tokens: Option<u64>,
    /// Maximum cost of a run and its child runs together, in the currency of `pricing`; no limit by default.
    #[schemars(extend("x-harmless" = "a limit"))]
    pub cost: Option<Amount>,
}

/// Channels that an agent can use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ChannelGates {
    /// Channels that it can publish to: exact names or `prefix*`.
    #[schemars(extend("x-harmless" = "names only what this config or its project has"))]
    pub publish: Vec<String>,
    /// Channels that it can read: exact names or `prefix*`.
    #[schemars(extend("x-harmless" = "names only what this config or its project has"))]
    pub subscribe: Vec<String>,
}

/// An agent: its prompt, its model, and what it can use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("x-not-built" = [
    "unbounded_iterations", "max_concurrent_children",
    "compaction", "code", "inject_tool_guide", "disable_context", "internal",
    "memory_quota_bytes", "memory_backend", "sql_scopes", "sql_quota_bytes", "core_blocks",
    "inherit_core_blocks", "memory_inject_max_tokens", "memory_protocol", "memory_consolidation",
    "memory_index_max_bytes", "memory_roots", "interruption", "agent_def_scopes",
    "schedule_def_scopes", "a2a_server_card_def_scopes", "a2a_agent_def_scopes", "volume_def_scopes",
    "history_scope", "search_providers"
]))]
pub struct AgentConfig {
    /// What the agent is for. Shown to users, and to models that choose an agent to spawn.
    #[schemars(extend("x-harmless" = "text for people and models"))]
    pub description: String,
    /// What executes its runs: `model` (default), the built-in agent loop; or `cli`, a coding CLI.
    #[schemars(extend("x-power" = { "words": "runs the agent outside of drawloom's own loop, by the executor {}", "as": "text", "when": "other_executor" }))]
    pub executor: Option<String>,
    /// The provider, from `providers`; `model` is then the provider's name of the model. With `executor: cli`, the coding CLI: `claude_code`,
    /// `codex`, `opencode`, `aider`, or one from `clis`.
    #[schemars(extend("x-power" = { "words": "runs the agent with the coding CLI {} and its login", "as": "text", "when": "cli" }))]
    pub provider: Option<String>,
    /// The model's name at `provider`, or an alias from `models`. If neither is set, `defaults` applies.
    #[schemars(extend("x-harmless" = "chooses among the providers, which are listed"))]
    pub model: Option<String>,
    /// Model tier, from `tiers`. Cannot be combined with `provider` or `model`.
    #[schemars(extend("x-harmless" = "chooses among the providers, which are listed"))]
    pub tier: Option<Tier>,
    /// Use only these providers, in this order, instead of `provider_priority`.
    #[schemars(extend("x-harmless" = "chooses among the providers, which are listed"))]
    pub providers: Option<Vec<String>>,
    /// Candidates by tier, in place of `tiers`.
    #[schemars(schema_with = "tiers_schema")]
    #[schemars(extend("x-harmless" = "chooses among the providers, which are listed"))]
    pub models: Tiers,
    /// Reasoning effort of its model.
    #[schemars(extend("x-harmless" = "chooses among the providers, which are listed"))]
    pub effort: Option<Effort>,
    /// Sampling parameters of its model.
    #[schemars(extend("x-harmless" = "chooses among the providers, which are listed"))]
    pub sampling: Sampling,
    /// The system prompt. Cannot be combined with `system_prompt_file`.
    #[schemars(extend("x-harmless" = "text for people and models"))]
    pub system_prompt: Option<String>,
    /// A text file with the system prompt, relative to the config file; at most 256 KiB.
    #[schemars(extend("x-power" = { "words": "sends the model the text of {}", "as": "path", "when": "outside" }))]
    pub system_prompt_file: Option<String>,
    /// Allowed tools: exact names or `prefix*`. None by default.
    #[schemars(extend("x-aliases" = ["allowed_tools"]))]
    #[schemars(extend("x-power" = { "words": "runs commands of the agent (Bash)", "as": "flag", "when": "bash" }))]
    pub tools: Option<Vec<String>>,
    /// Agents it can spawn with the tool `Agent`: exact names or `prefix*`. None by default.
    #[schemars(extend("x-harmless" = "names only what this config or its project has"))]
    pub agents: Option<Vec<String>>,
    /// Volumes it can use. Defaults to the volume marked `default`.
    #[schemars(extend("x-harmless" = "names only what this config or its project has"))]
    pub volumes: Option<Vec<String>>,
    /// Hosts it can reach: exact names, `*.suffix`, or `*` for all of `tools.http.hosts`. None by default.
    #[schemars(extend("x-power" = { "words": "lets commands of the agent reach this machine's network", "as": "flag", "when": "bash_network" }))]
    pub hosts: Option<Vec<String>>,
    /// Memory scopes that it can use with the tool `Memory`: `agent`, `user`, `tenant` (also `global`), `run`. None
    /// by default.
    #[schemars(extend("x-harmless" = "names only what this config or its project has"))]
    pub memory_scopes: Option<Vec<MemoryScope>>,
    /// What it can do with the tool `Evaluation`: `submit_self`, `submit_children` (also `submit_descendants`), `submit_siblings`,
    /// `submit_any`, `read_self`, `read_any`. None by default.
    #[schemars(extend("x-harmless" = "names only what this config or its project has"))]
    pub evaluation_scopes: Option<Vec<EvaluationScope>>,
    /// Channels that it can use with the tool `Channel`. None by default.
    pub channels: Option<ChannelGates>,
    /// Skills it can load with the tool `Skill`: exact names or `prefix*`. None by default.
    #[schemars(extend("x-harmless" = "names only what this config or its project has"))]
    pub skills: Option<Vec<String>>,
    /// Skills whose instructions are added to its system prompt.
    #[schemars(extend("x-harmless" = "names only what this config or its project has"))]
    pub bundled_skills: Vec<String>,
    /// What it can define with the tool `AgentDef`: `agent`, `channel`, `skill`. None by default. What it defines can use no
    /// more than the agent itself, and channels are those that it can publish or subscribe to.
    #[schemars(extend("x-harmless" = "names only what this config or its project has"))]
    pub definitions: Option<Vec<DefinitionKind>>,
    /// Maximum model turns per run, not counting retries.
    #[schemars(range(min = 1, max = 10_000))]
    #[schemars(extend("x-harmless" = "a limit"))]
    pub max_iterations: u32,
    /// Maximum output tokens per model call; defaults to the model's usual limit.
    #[schemars(range(min = 1, max = 1_000_000))]
    #[schemars(extend("x-harmless" = "a limit"))]
    pub max_tokens: Option<u32>,
    /// Maximum retries of a model call after a transient error; rate limiting is not counted.
    #[schemars(range(max = 20))]
    #[schemars(extend("x-harmless" = "a limit"))]
    pub retry_attempts: u32,
    /// Timeout of a run from its start, in seconds; none by default.
    #[schemars(range(min = 1, max = 31_536_000))]
    #[schemars(extend("x-harmless" = "a limit"))]
    pub run_timeout_seconds: Option<u64>,
    /// Budget of a run and its child runs.
    pub budget: Budget,
}

impl Default for AgentConfig {
    fn default() -> Self {
        Self {
            description: String::new(),
            executor: None,
            provider: None,
            model: None,
            tier: None,
            providers: None,
            models: Tiers::new(),
            effort: None,
            sampling: Sampling::default(),
            system_prompt: None,
            system_prompt_file: None,
            tools: None,
            agents: None,
            volumes: None,
            hosts: None,
            memory_scopes: None,
            evaluation_scopes: None,
            channels: None,
            skills: None,
            bundled_skills: Vec::new(),
            definitions: None,
            max_iterations: 16,
            max_tokens: None,
            retry_attempts: 2,
            run_timeout_seconds: None,
            budget: Budget::default(),
        }
    }
}
