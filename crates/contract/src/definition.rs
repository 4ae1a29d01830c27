//! An agent as a run pins it: what it says, what it may use, how far it may go.

use std::{collections::BTreeMap, sync::Arc};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    caller::Visible,
    choice::{Choice, Effort, Sampling},
    executor::MODEL,
    ids::{AgentName, Digest, Tenant, UserId},
    money::Cost,
    named::named,
    redact::Texts,
    tool::Mode,
};

/// A named agent, resolved against the operator's config. A run keeps the one it was accepted with, by digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    pub name: AgentName,
    /// The version, of an agent that was defined at runtime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// What it is good for, for people and for models that choose whom to spawn.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    #[serde(default = "model_executor", skip_serializing_if = "is_model_executor")]
    pub executor: String,
    /// The provider whose caps and credentials its calls count against. Empty for executors that ask no model.
    pub provider: String,
    /// The model's name at that provider. Empty for executors that ask no model.
    pub model: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub system_prompt: String,
    /// Tools it may use; exact names or `prefix*`.
    #[serde(default)]
    pub tools: Vec<String>,
    /// Gate: agents it may spawn; exact names or `prefix*`.
    #[serde(default)]
    pub agents: Vec<String>,
    /// The agents that `agents` names, as they were when this definition was made. Absent in what versions before 0.2 wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team: Option<Vec<Teammate>>,
    /// Gate: volumes it may touch.
    #[serde(default)]
    pub volumes: Vec<String>,
    /// The modes of those volumes when this definition was made. Absent in what versions before 0.2 wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_modes: Option<BTreeMap<String, Mode>>,
    /// Most model turns of a run, retries not counted.
    pub max_iterations: u32,
    /// Most output tokens of a turn; what is usual for the model, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// Maximum retries after a transient error; throttling is not counted.
    pub retry_attempts: u32,
    /// Wall-clock limit from first admission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_timeout_ms: Option<u64>,
    /// Most tokens of a tree that starts with this agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_tokens: Option<u64>,
    /// Most money of a tree that starts with this agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_cost: Option<Cost>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    #[serde(default, skip_serializing_if = "Sampling::is_empty")]
    pub sampling: Sampling,
    /// Gate: hosts it may reach: exact names, `*.suffix`, or `*` for all that the operator allows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Gate: scopes of memory that it may read and write.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory_scopes: Vec<MemoryScope>,
    /// Gate: skills it may load, each with its description.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub skills: BTreeMap<String, String>,
    /// Further gates by name, each with what it allows: exact names or `prefix*`. Absent means none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub gates: BTreeMap<String, Vec<String>>,
    /// The models it may ask, by the caller's user tier. Without user tiers it is `provider` and `model` alone.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub choices: BTreeMap<String, Choice>,
    /// The one user whose data the agent may use, when a principal bound to that user defined it. `None`: the user of each run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acts_for: Option<ActsFor>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActsFor {
    pub user: UserId,
    /// Whether the maker sees the runs of every user.
    pub sees_all: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Teammate {
    pub name: AgentName,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
}

named! {
    /// Who shares a piece of memory, inside one tenant of a project.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
    pub enum MemoryScope {
        /// All runs of one agent.
        Agent = "agent",
        /// All runs and requests of one user.
        User = "user",
        /// The whole tenant.
        Tenant = "tenant",
        /// Another name of `tenant`.
        Global = "global",
        /// A root run and all runs below it.
        Run = "run",
    }
}

named! {
    /// What can be defined at runtime.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
    pub enum DefinitionKind {
        Agent = "agent",
        Channel = "channel",
        Skill = "skill",
        Volume = "volume",
    }
}

pub const DEFAULT_USER_TIER: &str = "default";

impl Definition {
    pub fn digest(&self) -> Digest {
        Digest::of(&serde_json::to_vec(self).expect("a definition has only text keys"))
    }

    /// What one of `gates` allows.
    pub fn gate(&self, gate: &str) -> &[String] {
        self.gates.get(gate).map_or(&[], Vec::as_slice)
    }

    /// Whether one of `gates` allows `name`.
    pub fn allows(&self, gate: &str, name: &str) -> bool {
        self.gate(gate).iter().any(|pattern| matches(pattern, name))
    }

    /// Whether it reaches what belongs to this user: its maker may, or gave it to the user of each run.
    pub fn serves(&self, user: &UserId) -> bool {
        self.acts_for.as_ref().is_none_or(|acts_for| acts_for.user == *user)
    }

    /// Why it does not serve a user.
    pub fn not_for(&self, user: &UserId) -> String {
        let maker = self.acts_for.as_ref().map_or("", |acts_for| acts_for.user.as_str());
        format!("agent {} was defined for user {maker}; it cannot use what belongs to user {user}", self.name)
    }

    /// Whose runs it may judge.
    pub fn visible(&self, tenant: &Tenant) -> Visible {
        let one = self.acts_for.as_ref().filter(|acts_for| !acts_for.sees_all);
        Visible::of(tenant.clone(), one.map(|acts_for| acts_for.user.clone()))
    }

    /// Whether the gate `agents` lets it spawn `name`.
    pub fn may_spawn(&self, name: &AgentName) -> bool {
        match &self.team {
            Some(team) => team.iter().any(|mate| mate.name == *name),
            None => self.agents.iter().any(|pattern| matches(pattern, name.as_str())),
        }
    }
}

pub(crate) fn model_executor() -> String {
    MODEL.into()
}

pub(crate) fn is_model_executor(name: &String) -> bool {
    name == MODEL
}

/// Whether `name` is what `pattern` says: an exact name, or `prefix*`.
pub fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => pattern == name,
    }
}

/// Whether `pattern` can mean a name that begins with `prefix`.
pub fn may_mean(pattern: &str, prefix: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => start.starts_with(prefix) || prefix.starts_with(start),
        None => pattern.starts_with(prefix),
    }
}

/// The agents that a tenant has.
pub trait Definitions: Send + Sync {
    /// The agent of this name.
    fn find(&self, tenant: &Tenant, name: &AgentName) -> Option<Arc<Definition>>;

    /// All of them, by name.
    fn list(&self, tenant: &Tenant) -> Vec<Arc<Definition>>;

    /// Why an agent that is defined cannot run now, and what to do; nothing when it can, or is not defined.
    fn unusable(&self, tenant: &Tenant, name: &AgentName) -> Option<String>;
}

impl Texts for Definition {
    fn each_text(&mut self, visit: &mut dyn FnMut(&mut String)) {
        visit(&mut self.description);
        visit(&mut self.system_prompt);
        for mate in self.team.iter_mut().flatten() {
            visit(&mut mate.description);
        }
        self.skills.values_mut().for_each(visit);
    }
}
