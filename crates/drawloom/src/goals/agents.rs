//! The agents of goals: built in, listed nowhere, below a folder that no config can use.

use std::{collections::BTreeMap, sync::Arc};

use drawloom_contract::{
    definition::{Definition, Definitions},
    ids::{AgentName, Tenant},
};
use drawloom_goal::{BackendKind, Backends};
use drawloom_server::GOAL_AGENT;

/// The agents of the backend `model`. Each is made for one call and is in no list: no caller and no config can name it.
pub(super) const MODEL_AGENT: &str = "drawloom/model";

/// The agents of the config and of runtime, and those of goals beside them.
pub(crate) struct BuiltIn {
    others: Arc<dyn Definitions>,
    agents: BTreeMap<AgentName, Arc<Definition>>,
}

impl BuiltIn {
    pub(crate) fn new(others: Arc<dyn Definitions>, backends: &Backends) -> Self {
        let goal = goal_agent();
        let mut agents = BTreeMap::from([(goal.name.clone(), Arc::new(goal))]);
        let mut add = |name: AgentName, executor: &str, provider: &str| {
            let definition = definition(name.clone(), executor, provider, &[]);
            agents.insert(name, Arc::new(definition));
        };
        for name in backends.0.keys() {
            match backends.find(name) {
                Some((BackendKind::Mock, agent)) => add(agent, drawloom_goal::MOCK, ""),
                Some((BackendKind::Cli, agent)) => add(agent, "cli", name),
                Some((BackendKind::Agent | BackendKind::Model, _)) | None => {}
            }
        }
        Self { others, agents }
    }
}

/// The agent of goals.
pub(super) fn goal_agent() -> Definition {
    definition(GOAL_AGENT.parse().expect("a constant name"), drawloom_goal::GOAL, "", &["*"])
}

fn definition(name: AgentName, executor: &str, provider: &str, spawns: &[&str]) -> Definition {
    Definition {
        name,
        version: None,
        description: String::new(),
        executor: executor.into(),
        provider: provider.into(),
        model: String::new(),
        system_prompt: String::new(),
        tools: Vec::new(),
        agents: spawns.iter().map(|pattern| (*pattern).to_owned()).collect(),
        team: None,
        volumes: Vec::new(),
        volume_modes: None,
        max_iterations: 1,
        max_tokens: None,
        // The goal itself tries again: so each try is told, counted in its budget, and made as often as `retries` says.
        retry_attempts: 0,
        run_timeout_ms: None,
        budget_tokens: None,
        budget_cost: None,
        effort: None,
        sampling: drawloom_contract::choice::Sampling::default(),
        hosts: Vec::new(),
        memory_scopes: Vec::new(),
        skills: BTreeMap::new(),
        gates: BTreeMap::new(),
        choices: BTreeMap::new(),
        acts_for: None,
    }
}

impl Definitions for BuiltIn {
    fn find(&self, tenant: &Tenant, name: &AgentName) -> Option<Arc<Definition>> {
        match self.agents.get(name) {
            Some(definition) => Some(definition.clone()),
            None if name.as_str() == MODEL_AGENT => None,
            None => self.others.find(tenant, name),
        }
    }

    fn list(&self, tenant: &Tenant) -> Vec<Arc<Definition>> {
        self.others.list(tenant)
    }

    fn unusable(&self, tenant: &Tenant, name: &AgentName) -> Option<String> {
        self.others.unusable(tenant, name)
    }
}
