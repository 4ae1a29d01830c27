//! The config of an agent, as the operator writes it.

use drawloom_contract::{
    choice::{Effort, Sampling},
    definition::MemoryScope,
    money::Amount,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::tiers::{Tier, Tiers, tiers_schema};

/// A model, named by a provider and its name there, or by an alias from `models`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ModelChoice {
    /// The provider, from `providers`.
    pub provider: Option<String>,
    /// The model's name at that provider; without a provider, an alias from `models`.
    pub model: Option<String>,
}

/// How much a run and all that it spawns may spend.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Budget {
    /// Most tokens, read and written, of a run and its children together; no limit when absent.
    #[schemars(range(min = 1))]
    pub tokens: Option<u64>,
    /// Most money, in the currency of `pricing`, of a run and its children together; no limit when absent.
    pub cost: Option<Amount>,
}

/// An agent: a prompt, a model, and what it may touch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("x-not-built" = [
    "unbounded_iterations", "max_concurrent_children",
    "compaction", "code", "inject_tool_guide", "disable_context", "internal", "executor",
    "memory_quota_bytes", "memory_backend", "sql_scopes", "sql_quota_bytes", "core_blocks",
    "inherit_core_blocks", "memory_inject_max_tokens", "memory_protocol", "memory_consolidation",
    "memory_index_max_bytes", "memory_roots", "channels", "evaluation_scopes", "interruption", "agent_def_scopes",
    "schedule_def_scopes", "a2a_server_card_def_scopes", "a2a_agent_def_scopes", "volume_def_scopes",
    "history_scope", "search_providers"
]))]
pub struct AgentConfig {
    /// What it is good for, for people and for models that choose whom to spawn.
    pub description: String,
    /// What the next step of its runs comes from: `model`, our own agent loop, when absent.
    pub executor: Option<String>,
    /// The provider, from `providers`; with it, `model` is the model's name there.
    pub provider: Option<String>,
    /// The model's name at `provider`, or an alias from `models`. Without both, `defaults` decides.
    pub model: Option<String>,
    /// How good a model it needs, from `tiers`; not together with `provider` or `model`.
    pub tier: Option<Tier>,
    /// Only these providers, in this order, in place of `provider_priority`.
    pub providers: Option<Vec<String>>,
    /// Candidates by tier, in place of `tiers`.
    #[schemars(schema_with = "tiers_schema")]
    pub models: Tiers,
    /// How hard its model should think.
    pub effort: Option<Effort>,
    /// How its model picks words.
    pub sampling: Sampling,
    /// What the model is told first. Not together with `system_prompt_file`.
    pub system_prompt: Option<String>,
    /// A text file with the system prompt, relative to the config file; at most 256 KiB.
    pub system_prompt_file: Option<String>,
    /// Tools it may use: exact names or `prefix*`. None, when absent.
    #[schemars(extend("x-aliases" = ["allowed_tools"]))]
    pub tools: Option<Vec<String>>,
    /// Gate: agents it may spawn with the tool `Agent`: exact names or `prefix*`. None, when absent.
    pub agents: Option<Vec<String>>,
    /// Gate: volumes it may touch. The one marked `default`, when absent.
    pub volumes: Option<Vec<String>>,
    /// Gate: hosts it may reach: exact names, `*.suffix`, or `*` for all that the operator allows. None, when absent.
    pub hosts: Option<Vec<String>>,
    /// Gate: scopes of memory that it may use with the tool `Memory`: `agent`, `user`, `tenant` (also `global`), `run`. None,
    /// when absent.
    pub memory_scopes: Option<Vec<MemoryScope>>,
    /// Gate: skills it may load with the tool `Skill`: exact names or `prefix*`. None, when absent.
    pub skills: Option<Vec<String>>,
    /// Skills whose instructions are part of its system prompt.
    pub bundled_skills: Vec<String>,
    /// Most model turns of a run, retries not counted.
    #[schemars(range(min = 1, max = 10_000))]
    pub max_iterations: u32,
    /// Most output tokens of a turn; what is usual for the model, when absent.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_tokens: Option<u32>,
    /// Most tries of a turn again after a failure that may pass; throttling is not counted.
    #[schemars(range(max = 20))]
    pub retry_attempts: u32,
    /// Wall-clock limit of a run from its first slot, in seconds; none when absent.
    #[schemars(range(min = 1, max = 31_536_000))]
    pub run_timeout_seconds: Option<u64>,
    /// How much a run and all that it spawns may spend.
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
            skills: None,
            bundled_skills: Vec::new(),
            max_iterations: 16,
            max_tokens: None,
            retry_attempts: 2,
            run_timeout_seconds: None,
            budget: Budget::default(),
        }
    }
}
