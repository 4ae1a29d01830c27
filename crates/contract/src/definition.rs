//! An agent as a run pins it: what it says, what it may use, how far it may go.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    ids::{AgentName, Digest, Tenant},
    redact::Texts,
};

/// A named agent, resolved against the operator's config. A run keeps the one it was accepted with, by digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    /// Its name.
    pub name: AgentName,
    /// What it is good for, for people and for models that choose whom to spawn.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The provider whose caps and credentials its calls count against.
    pub provider: String,
    /// The model's name at that provider.
    pub model: String,
    /// The system prompt.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub system_prompt: String,
    /// Tools it may use; exact names or `prefix*`.
    #[serde(default)]
    pub tools: Vec<String>,
    /// Gate: agents it may spawn; exact names or `prefix*`.
    #[serde(default)]
    pub agents: Vec<String>,
    /// Gate: volumes it may touch.
    #[serde(default)]
    pub volumes: Vec<String>,
    /// Most model turns of a run, retries not counted.
    pub max_iterations: u32,
    /// Most output tokens of a turn.
    pub max_tokens: u32,
    /// Most tries of a turn again after a failure that may pass; throttling is not counted.
    pub retry_attempts: u32,
    /// Wall-clock limit from first admission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_timeout_ms: Option<u64>,
    /// Most tokens of a tree that starts with this agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_tokens: Option<u64>,
}

impl Definition {
    /// The name of this content.
    pub fn digest(&self) -> Digest {
        Digest::of(&serde_json::to_vec(self).expect("a definition has only text keys"))
    }

    /// Whether the gate `agents` lets it spawn `name`.
    pub fn may_spawn(&self, name: &AgentName) -> bool {
        self.agents.iter().any(|pattern| matches(pattern, name.as_str()))
    }
}

/// Whether `name` is what `pattern` says: an exact name, or `prefix*`.
pub fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => pattern == name,
    }
}

/// The agents that a tenant has.
pub trait Definitions: Send + Sync {
    /// The agent of this name.
    fn find(&self, tenant: &Tenant, name: &AgentName) -> Option<Arc<Definition>>;

    /// All of them, by name.
    fn list(&self, tenant: &Tenant) -> Vec<Arc<Definition>>;
}

impl Texts for Definition {
    fn each_text(&mut self, visit: &mut dyn FnMut(&mut String)) {
        visit(&mut self.description);
        visit(&mut self.system_prompt);
    }
}
