//! What a definition may have at most: what its maker has.

use std::collections::{BTreeMap, BTreeSet};

use drawloom_contract::{
    caller::Scope,
    choice::ModelName,
    definition::{ActsFor, Definition, MemoryScope},
    executor::MODEL,
    ids::UserId,
    money::Cost,
    tool::Mode,
};

use super::{GATE, config::Grant};
use crate::memory;

/// The most that a definition may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ceiling {
    pub(super) tools: Vec<String>,
    pub(super) agents: Vec<String>,
    /// Agents of the config, none of which may be spawned unless `agents` names it. Others may; without this, only those that
    /// `agents` names.
    pub(super) others_than: Option<BTreeSet<String>>,
    pub(super) volumes: BTreeMap<String, Mode>,
    pub(super) hosts: Vec<String>,
    pub(super) memory_scopes: Vec<MemoryScope>,
    pub(super) skills: Vec<String>,
    pub(super) gates: BTreeMap<String, Vec<String>>,
    pub(super) executors: Vec<String>,
    /// `PROVIDER/MODEL`, or `PREFIX*`.
    pub(super) models: Vec<String>,
    /// The models of each user tier, where they differ.
    pub(super) tiers: BTreeMap<String, Vec<String>>,
    pub(super) max_iterations: u32,
    pub(super) max_tokens: Option<u32>,
    pub(super) retry_attempts: Option<u32>,
    pub(super) run_timeout_ms: Option<u64>,
    pub(super) budget_tokens: Option<u64>,
    pub(super) budget_cost: Option<Cost>,
    /// Whose ceiling it is: an agent, or the operator's grant.
    pub(super) agent: Option<String>,
    /// The user whose token cut it.
    pub(super) principal: Option<UserId>,
    /// The scopes that token lacks, by the gate that they would open.
    pub(super) lacking: BTreeMap<String, Vec<Scope>>,
    /// For whom definitions of this ceiling act; for the user of each run, when absent.
    pub(super) acts_for: Option<ActsFor>,
}

impl Ceiling {
    /// What an agent may give: what it has. A field that is added to `Definition` must be decided on here and in `excess`.
    pub fn of(maker: &Definition) -> Self {
        let Definition {
            name,
            version: _,
            description: _,
            executor,
            provider,
            model,
            system_prompt: _,
            tools,
            agents,
            // Follows from `agents`.
            team: _,
            volumes,
            volume_modes,
            max_iterations,
            max_tokens,
            retry_attempts,
            run_timeout_ms,
            budget_tokens,
            budget_cost,
            // How a model answers, not what an agent may touch.
            effort: _,
            sampling: _,
            hosts,
            memory_scopes,
            skills,
            gates,
            choices,
            acts_for,
        } = maker;
        let modes = volume_modes.clone().unwrap_or_default();
        let volumes = volumes.iter().map(|volume| {
            // A definition without modes is from a version that had none: read-only is the least.
            (volume.clone(), modes.get(volume).copied().unwrap_or(Mode::ReadOnly))
        });
        let own = (!provider.is_empty()).then(|| format!("{provider}/{model}"));
        let chosen = choices.values().flat_map(|choice| &choice.candidates).map(ToString::to_string);
        Self {
            tools: tools.clone(),
            agents: agents.clone(),
            others_than: None,
            volumes: volumes.collect(),
            hosts: hosts.clone(),
            memory_scopes: memory_scopes.clone(),
            skills: skills.keys().cloned().collect(),
            gates: gates.clone(),
            executors: BTreeSet::from([MODEL.to_owned(), executor.clone()]).into_iter().collect(),
            tiers: choices.iter().map(|(tier, choice)| (tier.clone(), names(&choice.candidates))).collect(),
            models: own.into_iter().chain(chosen).collect::<BTreeSet<_>>().into_iter().collect(),
            max_iterations: *max_iterations,
            max_tokens: *max_tokens,
            retry_attempts: Some(*retry_attempts),
            run_timeout_ms: *run_timeout_ms,
            budget_tokens: *budget_tokens,
            budget_cost: *budget_cost,
            agent: Some(name.to_string()),
            principal: None,
            lacking: BTreeMap::new(),
            acts_for: acts_for.clone(),
        }
    }

    /// What callers may give: the operator's grant. `volumes` are the granted ones and those of runtime, with their modes;
    /// `config_agents` are the agents of the config.
    pub(crate) fn of_grant(grant: &Grant, volumes: BTreeMap<String, Mode>, config_agents: BTreeSet<String>) -> Self {
        let Grant {
            tools,
            agents,
            volumes: _,
            hosts,
            memory_scopes,
            skills,
            channels,
            evaluation_scopes,
            definitions,
            models,
            max_iterations,
        } = grant;
        let definitions: Vec<String> = definitions.iter().map(|kind| kind.as_str().to_owned()).collect();
        let gates = [
            ("channels.publish", channels.publish.clone()),
            ("channels.subscribe", channels.subscribe.clone()),
            ("evaluation_scopes", evaluation_scopes.clone()),
            (GATE, definitions),
        ];
        Self {
            tools: tools.clone(),
            agents: agents.clone(),
            others_than: Some(config_agents),
            volumes,
            hosts: hosts.clone(),
            memory_scopes: memory_scopes.iter().copied().map(memory::plain).collect(),
            skills: skills.clone(),
            gates: gates.into_iter().map(|(gate, allowed)| (gate.to_owned(), allowed)).collect(),
            executors: vec![MODEL.to_owned()],
            models: models.clone(),
            tiers: BTreeMap::new(),
            max_iterations: *max_iterations,
            max_tokens: None,
            retry_attempts: None,
            run_timeout_ms: None,
            budget_tokens: None,
            budget_cost: None,
            agent: None,
            principal: None,
            lacking: BTreeMap::new(),
            acts_for: None,
        }
    }

    /// What to change so that more is allowed.
    pub(super) fn fix(&self, gate: &str) -> String {
        if let (Some(user), Some(lacking)) = (&self.principal, self.lacking.get(gate)) {
            let lacking = lacking.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(", ");
            return format!("the token of {user} can give only what it has itself; it lacks {lacking}");
        }
        match &self.agent {
            Some(agent) => {
                format!("agent {agent} can give only what it has itself; its `{gate}` would have to allow it")
            }
            None => format!("the operator can allow it under `definitions.grant.{gate}` in the config"),
        }
    }
}

fn names(models: &[ModelName]) -> Vec<String> {
    models.iter().map(ToString::to_string).collect()
}
