//! `Agent`: spawns other agents and waits for them.

use async_trait::async_trait;
use drawloom_contract::{
    ids::AgentName,
    record::Collect,
    tool::{ChildStart, Repeat, Step, Tool, ToolCard, ToolContext, ToolError, Wait},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

/// The tool `Agent`.
pub struct Agent;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// `spawn` (the default) starts one agent; `parallel_spawn` starts several at once.
    #[serde(default)]
    op: Op,
    /// `spawn`: the agent.
    name: Option<String>,
    /// `spawn`: what it is asked.
    prompt: Option<String>,
    /// `parallel_spawn`: agents and what they are asked, at most 32.
    spawns: Option<Vec<Spawn>>,
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Op {
    #[default]
    Spawn,
    ParallelSpawn,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Spawn {
    /// The agent.
    name: String,
    /// What it is asked.
    prompt: String,
}

#[async_trait]
impl Tool for Agent {
    fn card(&self) -> ToolCard {
        ToolCard::new::<Input>(
            "Agent",
            "Start other agents and wait for their answers. Use op=spawn for one and op=parallel_spawn for several that \
             work at the same time; results come back by index, and one that fails does not disturb the others.",
        )
    }

    fn repeat(&self) -> Repeat<'_> {
        Repeat::Keyed
    }

    async fn call(&self, _: &ToolContext, input: Value) -> Result<Step, ToolError> {
        let input: Input = serde_json::from_value(input)?;
        let (spawns, collect) = match (input.op, input.name, input.prompt, input.spawns) {
            (Op::Spawn, Some(name), Some(prompt), None) => (vec![Spawn { name, prompt }], Collect::One),
            (Op::Spawn, ..) => return Err(invalid("op=spawn takes `name` and `prompt`, and not `spawns`")),
            (Op::ParallelSpawn, None, None, Some(spawns)) if !spawns.is_empty() => (spawns, Collect::Many),
            (Op::ParallelSpawn, ..) => {
                return Err(invalid("op=parallel_spawn takes `spawns` with at least one entry, and nothing else"));
            }
        };
        let starts = spawns.into_iter().map(start).collect::<Result<_, _>>()?;
        Ok(Step::Wait(Wait::Children { starts, collect }))
    }
}

fn start(spawn: Spawn) -> Result<ChildStart, ToolError> {
    let agent: AgentName = spawn.name.parse().map_err(|error| ToolError::Invalid(format!("name: {error}")))?;
    if spawn.prompt.is_empty() {
        return Err(invalid("prompt is empty: say what the agent should do"));
    }
    Ok(ChildStart { agent, prompt: spawn.prompt })
}

fn invalid(message: &str) -> ToolError {
    ToolError::Invalid(message.into())
}
