//! Agents for tests.

use std::collections::BTreeMap;

use drawloom_contract::{choice::Sampling, definition::Definition, executor::MODEL};

/// An agent with nothing but a name and a model, as the defaults have it.
pub fn definition(name: &str, provider: &str, model: &str) -> Definition {
    Definition {
        name: name.parse().expect("a valid name"),
        description: String::new(),
        executor: MODEL.into(),
        provider: provider.into(),
        model: model.into(),
        system_prompt: String::new(),
        tools: Vec::new(),
        agents: Vec::new(),
        team: None,
        volumes: Vec::new(),
        volume_modes: None,
        max_iterations: 16,
        max_tokens: None,
        retry_attempts: 2,
        run_timeout_ms: None,
        budget_tokens: None,
        budget_cost: None,
        effort: None,
        sampling: Sampling::default(),
        hosts: Vec::new(),
        memory_scopes: Vec::new(),
        gates: BTreeMap::new(),
        version: None,
        skills: BTreeMap::new(),
        choices: BTreeMap::new(),
        acts_for: None,
    }
}
