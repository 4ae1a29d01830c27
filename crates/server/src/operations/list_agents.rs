//! `list_agents`: the agents that can be run.

use drawloom_contract::{caller::Scope, failure::Failure};
use drawloom_wire::agents::{self, Agent, AgentList};

use crate::operation::{Answer, Call, Card, Operation, Verb};

pub(super) struct ListAgents;

impl Operation for ListAgents {
    type Input = agents::ListAgents;
    type Output = AgentList;

    fn card(&self) -> Card {
        Card::new("list_agents", "List the agents that can be run.", Scope::RunsRead)
            .rest(Verb::Get, "/v1/agents")
            .toolset("core")
            .advice("Call it first when you do not know which agents there are: spawn_run and spawn_runs want a name of these.")
            .read_only()
    }

    async fn call(&self, call: &Call<'_>, _: Self::Input) -> Result<Answer<AgentList>, Failure> {
        let definitions = call.app.definitions.list(&call.caller.tenant);
        Ok(Answer::Value(AgentList { agents: definitions.iter().map(|definition| Agent::of(definition)).collect() }))
    }
}
