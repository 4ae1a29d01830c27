//! `Agent`: spawns other agents and waits for them.

use std::sync::Arc;

use async_trait::async_trait;
use drawloom_contract::{
    gate::AGENTS,
    ids::AgentName,
    record::Collect,
    runs::Start,
    tool::{Gates, Repeat, Step, Tool, ToolCard, ToolContext, ToolError},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::builtin::BuiltIn;

/// Most characters of a description that a model is told.
const MOST_DESCRIPTION: usize = 400;

pub(crate) const BUILT_IN: BuiltIn = BuiltIn::always("Agent", |_| Arc::new(Agent)).gated(AGENTS);

/// The tool `Agent`.
pub struct Agent;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// `spawn` (the default) starts one agent; `parallel_spawn` starts several at once.
    #[serde(default)]
    op: Op,
    /// `spawn`: the agent's name.
    name: Option<String>,
    /// `spawn`: the agent's task.
    prompt: Option<String>,
    /// `parallel_spawn`: agents and their tasks, at most 32.
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
            "Start other agents and wait for their answers. Use op=spawn for one agent and op=parallel_spawn to run \
             several in parallel; results are ordered by index, and a failed one does not affect the others.",
        )
    }

    /// The card with the names of the agents that may be spawned, and what each is good for.
    fn card_for(&self, card: &ToolCard, gates: Gates<'_>) -> Result<ToolCard, String> {
        AGENTS.check(&card.name, gates)?;
        let Some(team) = &gates.definition.team else { return Ok(card.clone()) };
        let names: Vec<&str> = team.iter().map(|mate| mate.name.as_str()).collect();
        let lines = team.iter().map(|mate| match mate.description.is_empty() {
            true => format!("\n- {}", mate.name),
            false => format!("\n- {}: {}", mate.name, one_line(&mate.description)),
        });
        let mut card = card.clone();
        card.description = format!("{}\nAgents:{}", card.description, lines.collect::<String>());
        // Agents that it defines are not in the list yet.
        let defines = !gates.definition.gate("definitions").is_empty();
        for place in ["/properties/name", "/$defs/Spawn/properties/name"].into_iter().filter(|_| !defines) {
            if let Some(name) = Arc::make_mut(&mut card.input_schema).pointer_mut(place) {
                *name = json!({ "type": "string", "enum": names, "description": name["description"] });
            }
        }
        Ok(card)
    }

    fn repeat(&self) -> Repeat<'_> {
        Repeat::Keyed
    }

    async fn call(&self, _: &ToolContext, input: Value) -> Result<Step, ToolError> {
        let input: Input = serde_json::from_value(input)?;
        let (spawns, collect) = match (input.op, input.name, input.prompt, input.spawns) {
            (Op::Spawn, Some(name), Some(prompt), None) => (vec![Spawn { name, prompt }], Collect::One),
            (Op::Spawn, ..) => return Err(invalid("op=spawn takes `name` and `prompt`, not `spawns`")),
            (Op::ParallelSpawn, None, None, Some(spawns)) if !spawns.is_empty() => (spawns, Collect::Many),
            (Op::ParallelSpawn, ..) => {
                return Err(invalid("op=parallel_spawn takes only `spawns`, with at least one entry"));
            }
        };
        let starts = spawns.into_iter().map(start).collect::<Result<_, _>>()?;
        Ok(Step::Spawn { starts, collect })
    }
}

fn start(spawn: Spawn) -> Result<Start, ToolError> {
    let agent: AgentName = spawn.name.parse().map_err(|error| ToolError::Invalid(format!("name: {error}")))?;
    if spawn.prompt.is_empty() {
        return Err(invalid("prompt is empty: say what the agent should do"));
    }
    Ok(Start::new(agent, spawn.prompt))
}

/// A description on one line, cut when it is long.
fn one_line(text: &str) -> String {
    let mut line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = line.char_indices().nth(MOST_DESCRIPTION) {
        line.truncate(end);
        line.push('…');
    }
    line
}

fn invalid(message: &str) -> ToolError {
    ToolError::Invalid(message.into())
}
