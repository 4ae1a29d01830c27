//! `list_agents`: the agents that can be run.

use drawloom_contract::{caller::Scope, failure::Failure};
use drawloom_wire::agents::{self, Agent, AgentList};

use crate::{
    operation::{Answer, Call, Card, Operation},
    operations::fitting,
};

pub(crate) struct ListAgents;

impl Operation for ListAgents {
    type Input = agents::ListAgents;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("List the agents that can be run.", Scope::RunsRead).toolset("core").advice(
            "Call it first when you do not know which agents there are: spawn_run and spawn_runs want a name of these.",
        )
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<AgentList>, Failure> {
        let mut agents: Vec<Agent> =
            call.app.definitions.list(&call.caller.tenant).iter().map(|definition| Agent::of(definition)).collect();
        agents.sort_by(|one, other| one.name.cmp(&other.name));
        if let Some(after) = &input.after {
            agents.retain(|agent| agent.name > *after);
        }
        let kept = call.result_bytes.map_or(agents.len(), |most| fitting(&agents, most));
        let has_more = kept < agents.len();
        agents.truncate(kept);
        let next = agents.last().filter(|_| has_more).map(|agent| agent.name.clone());
        Ok(Answer::Value(AgentList { agents, next }))
    }
}
