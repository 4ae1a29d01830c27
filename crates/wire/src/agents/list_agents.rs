//! `list_agents`: the agents that can be run.

use std::collections::BTreeMap;

use drawloom_contract::{
    definition::Definition,
    ids::{AgentName, Digest},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::request::{Changes, Request, Route};

/// Lists the agents that can be run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListAgents {
    /// Only agents whose names come after this one: `next` of the previous page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<AgentName>,
}

/// The agents of the caller's tenant, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentList {
    /// The agents.
    pub agents: Vec<Agent>,
    /// `after` of the next page; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<AgentName>,
}

/// An agent, without its prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Agent {
    /// Its name: `agent` of `POST /v1/runs`.
    pub name: AgentName,
    /// What it is good for.
    pub description: String,
    /// The provider of its model.
    pub provider: String,
    /// The model.
    pub model: String,
    /// Tools it may use.
    pub tools: Vec<String>,
    /// What it may touch, by gate: which agents it may spawn (`agents`), which hosts it may reach (`hosts`), which
    /// skills it may load (`skills`), which volumes it sees (`volumes`), and further ones such as `evaluation_scopes`.
    pub gates: BTreeMap<String, Vec<String>>,
    /// Most model turns of a run.
    pub max_iterations: u32,
    /// Most tokens of a tree that starts with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_tokens: Option<u64>,
    /// Wall-clock limit in milliseconds from first admission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_timeout_ms: Option<u64>,
    /// The content hash that a run of it pins today.
    #[schemars(with = "String")]
    pub definition: Digest,
}

impl Request for ListAgents {
    const NAME: &'static str = "list_agents";
    const ROUTES: &'static [Route] = &[Route::get("/v1/agents")];
    const CHANGES: Changes = Changes::Nothing;
    type Output = AgentList;
}

impl Agent {
    /// A definition as callers see it.
    pub fn of(definition: &Definition) -> Self {
        let scopes = definition.memory_scopes.iter().map(|scope| scope.as_str().to_owned());
        Self {
            name: definition.name.clone(),
            description: definition.description.clone(),
            provider: definition.provider.clone(),
            model: definition.model.clone(),
            tools: definition.tools.clone(),
            gates: definition
                .gates
                .clone()
                .into_iter()
                .chain([
                    ("agents".to_owned(), definition.agents.clone()),
                    ("hosts".to_owned(), definition.hosts.clone()),
                    ("memory_scopes".to_owned(), scopes.collect()),
                    ("skills".to_owned(), definition.skills.keys().cloned().collect()),
                    ("volumes".to_owned(), definition.volumes.clone()),
                ])
                .collect(),
            max_iterations: definition.max_iterations,
            budget_tokens: definition.budget_tokens,
            run_timeout_ms: definition.run_timeout_ms,
            definition: definition.digest(),
        }
    }
}
