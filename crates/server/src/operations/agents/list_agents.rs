//! `list_agents`: the agents that can be run.

use drawloom_contract::{caller::Scope, failure::Failure};
use drawloom_wire::agents::{self, Agent, AgentList};

use crate::{
    lean,
    operation::{Answer, Call, Card, Operation, Parameter, Told},
    operations::fitting,
};

pub(crate) struct ListAgents;

const PARAMETERS: &[Parameter] = &[Parameter::takes("after", "Last name of the previous page, to get the next page.")];

impl Operation for ListAgents {
    type Input = agents::ListAgents;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("List the agents that can be run.", Scope::RunsRead)
            .toolset("core")
            .told(Told::Agents)
            .parameters(PARAMETERS)
            .advice("Call it before spawn_run or spawn_runs when you do not know the agents' names, tools and limits.")
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<AgentList>, Failure> {
        let mut agents: Vec<Agent> =
            call.app.definitions.list(&call.caller.tenant).iter().map(|definition| Agent::of(definition)).collect();
        agents.sort_by(|one, other| one.name.cmp(&other.name));
        if let Some(after) = &input.after {
            agents.retain(|agent| agent.name > *after);
        }
        let kept = call.result_bytes.map_or(agents.len(), |most| fitting(agents.iter().map(lean::agent_row), most));
        let has_more = kept < agents.len();
        agents.truncate(kept);
        let next = agents.last().filter(|_| has_more).map(|agent| agent.name.clone());
        Ok(Answer::Value(AgentList { agents, next }))
    }
}
