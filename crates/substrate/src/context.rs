//! `Context`: what a run's model may know about its own run. It shows gates and limits, never prompts, secrets or other trees.

use std::sync::Arc;

use async_trait::async_trait;
use drawloom_contract::{
    VERSION,
    caller::Visible,
    ids::RunKey,
    journal::{RunReader, StoreError},
    money::{Amount, Cost, Spent},
    record::{Accepted, Body},
    time::{Clock, Timestamp},
    tool::{Gates, Mode, Repeat, Step, Tool, ToolCard, ToolContext, ToolError},
    view::RunView,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    channels::{Channels, PUBLISH_GATE, SUBSCRIBE_GATE},
    definitions,
    evaluations::{EVALUATION_SCOPES, EvaluationScope, Evaluations, Meant, Of},
    hint::did_you_mean,
    store_tools::StoreTool,
};

mod help;

const NAME: &str = "Context";

pub(crate) const TOOL: StoreTool = StoreTool {
    name: NAME,
    gate: None,
    make: |parts| {
        let (reader, clock, tools) = (parts.reader.clone(), parts.clock.clone(), parts.tools.clone());
        let (channels, evaluations) = (parts.channels.clone(), parts.evaluations.clone());
        Arc::new(Context { reader, clock, evaluations, tools, channels })
    },
};

/// Most agents that one answer lists.
const MOST_AGENTS: usize = 256;

struct Context {
    reader: Arc<dyn RunReader>,
    clock: Arc<dyn Clock>,
    evaluations: Arc<Evaluations>,
    /// The other built-in tools, to say what each is for and which gate keeps it away.
    tools: Vec<Arc<dyn Tool>>,
    channels: Arc<Channels>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// `self`: this run, its agent and its model. `tools`: its tools. `agents`: the agents it can spawn. `permissions`: its
    /// volumes, hosts and other permissions. `channels`: the channels it can use. `limits`: remaining turns, budget and time.
    /// `evaluations`: statistics of the evaluations of this agent's definition. `help`: how things work here. `time`: the current
    /// time.
    op: Op,
    /// `help`: the topic; without one, the topics are listed.
    topic: Option<String>,
    /// `agents`: only names that begin with this.
    prefix: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Op {
    #[serde(rename = "self")]
    This,
    Tools,
    Agents,
    Permissions,
    Channels,
    Limits,
    Evaluations,
    Help,
    Time,
}

#[async_trait]
impl Tool for Context {
    fn card(&self) -> ToolCard {
        ToolCard::new::<Input>(
            NAME,
            "Show your identity and permissions: this run, your tools, the agents you can spawn, your volumes and \
             hosts, the remaining budget, and the time. Read-only.",
        )
    }

    fn repeat(&self) -> Repeat<'_> {
        Repeat::Safe
    }

    async fn call(&self, context: &ToolContext, input: Value) -> Result<Step, ToolError> {
        let Input { op, topic, prefix } = serde_json::from_value(input)?;
        if topic.is_some() && op != Op::Help {
            return Err(ToolError::Invalid("`topic` requires op=help".into()));
        }
        if prefix.is_some() && op != Op::Agents {
            return Err(ToolError::Invalid("`prefix` requires op=agents".into()));
        }
        let answer = match op {
            Op::This => self.about_run(context).await?,
            Op::Tools => self.tools(context).await?,
            Op::Agents => agents(context, &prefix.unwrap_or_default()),
            Op::Permissions => self.permissions(context).await?,
            Op::Channels => self.channels.shown_to(context),
            Op::Limits => self.limits(context).await?,
            Op::Evaluations => self.evaluations(context).await?,
            Op::Help => return help(topic.as_deref()).map(Step::done),
            Op::Time => time(self.clock.wall()),
        };
        Ok(Step::done(answer.to_string()))
    }
}

impl Context {
    /// The run's row, and what it was accepted with.
    async fn load(&self, key: &RunKey) -> Result<(RunView, Box<Accepted>), ToolError> {
        let gone = || ToolError::Failed(format!("run {} is not in the store", key.run));
        let view = self.reader.find_run_without_text(key).await.map_err(failed)?.ok_or_else(gone)?;
        let first = self.reader.read_journal(key, 0, 1).await.map_err(failed)?.into_iter().next();
        match first.map(|record| record.body) {
            Some(Body::Accepted(accepted)) => Ok((view, accepted)),
            _ => Err(gone()),
        }
    }

    async fn about_run(&self, context: &ToolContext) -> Result<Value, ToolError> {
        let (view, accepted) = self.load(&context.run).await?;
        Ok(json!({
            "agent": view.agent,
            "version": context.definition.version,
            "description": context.definition.description,
            "run_id": view.run,
            "agent_id": view.agent_id,
            "session_id": view.session,
            "user_id": view.user,
            "root_run_id": view.root,
            "parent": view.parent.as_ref().map(|parent| json!({ "run_id": parent.run, "agent_id": parent.agent_id })),
            "depth": view.depth,
            "executor": accepted.executor,
            "provider": view.provider,
            "model": view.model,
            "other_models": accepted.models.candidates.iter().filter(|model| model.model != view.model)
                .map(|model| format!("{}/{}", model.provider, model.model)).collect::<Vec<_>>(),
            "accepted_at": view.accepted_at.to_rfc3339(),
            "usage": view.usage,
            "cost": view.cost.map(Amount),
            "warnings": accepted.warnings,
            "server_version": VERSION,
        }))
    }

    async fn tools(&self, context: &ToolContext) -> Result<Value, ToolError> {
        let (_, accepted) = self.load(&context.run).await?;
        let gates = Gates { definition: &context.definition, hosts: &context.hosts };
        let listed = accepted.tools.iter().map(|name| {
            let Some((tool, card)) = self.find(name) else { return json!({ "name": name, "offered": true }) };
            let summary = first_sentence(&card.description);
            match tool.card_for(&card, gates) {
                Ok(_) => json!({ "name": name, "summary": summary, "offered": true }),
                Err(gate) => json!({ "name": name, "summary": summary, "offered": false, "reason": gate }),
            }
        });
        Ok(json!({ "tools": listed.collect::<Vec<_>>() }))
    }

    fn find(&self, name: &str) -> Option<(&Arc<dyn Tool>, ToolCard)> {
        self.tools.iter().map(|tool| (tool, tool.card())).find(|(_, card)| card.name == name)
    }

    async fn permissions(&self, context: &ToolContext) -> Result<Value, ToolError> {
        let (_, accepted) = self.load(&context.run).await?;
        let definition = &context.definition;
        let volumes = definition.volumes.iter().map(|name| {
            let mode = definition.volume_modes.as_ref().and_then(|modes| modes.get(name)).map(|mode| match mode {
                Mode::ReadOnly => "ro",
                Mode::ReadWrite => "rw",
            });
            json!({ "name": name, "mode": mode })
        });
        Ok(json!({
            "tools": accepted.tools,
            "agents": definition.agents,
            "volumes": volumes.collect::<Vec<_>>(),
            "hosts": &*context.hosts,
            "memory_scopes": definition.memory_scopes,
            "channels": {
                "publish": definition.gate(PUBLISH_GATE),
                "subscribe": definition.gate(SUBSCRIBE_GATE),
            },
            "evaluation_scopes": definition.gate(EVALUATION_SCOPES),
            "definitions": definition.gate(definitions::GATE),
            "narrowed_by_request": {
                "tools": accepted.narrowed_tools.is_some(),
                "hosts": accepted.narrowed_hosts.is_some(),
                "volumes": accepted.narrowed_volumes.is_some(),
            },
        }))
    }

    /// What the agent may do with evaluations, and statistics of those of its own definition if it may read them.
    async fn evaluations(&self, context: &ToolContext) -> Result<Value, ToolError> {
        let (view, _) = self.load(&context.run).await?;
        let scopes = context.definition.gate(EVALUATION_SCOPES);
        let reads = [EvaluationScope::ReadSelf, EvaluationScope::ReadAny];
        let mut answer = json!({ "def_id": view.definition, "evaluation_scopes": scopes });
        if reads.iter().any(|scope| context.definition.allows(EVALUATION_SCOPES, scope.as_str())) {
            let everything = Visible::whole(context.run.tenant.clone());
            answer["evaluations"] = self
                .evaluations
                .aggregate(&everything, &Of::Definition(Meant::Definition(view.definition)), true)
                .await?;
        } else {
            answer["reason"] = format!("to read them, add read_self to `{EVALUATION_SCOPES}` of the agent").into();
        }
        Ok(answer)
    }

    async fn limits(&self, context: &ToolContext) -> Result<Value, ToolError> {
        let (view, accepted) = self.load(&context.run).await?;
        let mut budgets = Vec::new();
        if accepted.budget_tokens.is_some() || accepted.budget_cost.is_some() {
            budgets.push((accepted.root, accepted.budget_tokens, accepted.budget_cost));
        }
        budgets.extend(accepted.part_budgets.iter().map(|part| (part.run, part.tokens, part.cost)));
        let mut shown = Vec::new();
        for (run, tokens, cost) in budgets {
            let top = RunKey { tenant: context.run.tenant.clone(), run };
            let spent = self.reader.tree_total(&top).await.map_err(failed)?.spent;
            shown.push(budget(run == accepted.root, tokens, cost, spent));
        }
        let now = self.clock.wall();
        Ok(json!({
            "max_iterations": accepted.max_iterations,
            "max_tokens_per_turn": context.definition.max_tokens,
            "budgets": shown,
            "deadline": view.deadline.map(|deadline| json!({
                "at": deadline.to_rfc3339(),
                "left_seconds": deadline.since(now).as_secs(),
            })),
            "depth": view.depth,
        }))
    }
}

/// A budget with what is left of it. What other runs have reserved for turns in flight still counts as left.
fn budget(is_whole_tree: bool, tokens: Option<u64>, cost: Option<Cost>, spent: Spent) -> Value {
    json!({
        "of": if is_whole_tree { "the whole tree" } else { "this part of the tree" },
        "tokens": tokens.map(|most| json!({ "most": most, "left": most.saturating_sub(spent.tokens) })),
        "cost": cost.map(|most| json!({
            "most": Amount(most),
            "left": Amount(Cost(most.0.saturating_sub(spent.cost.0))),
        })),
    })
}

fn agents(context: &ToolContext, prefix: &str) -> Value {
    let definition = &context.definition;
    let Some(team) = &definition.team else {
        return json!({ "agents": null, "patterns": definition.agents });
    };
    let named: Vec<Value> = team
        .iter()
        .filter(|mate| mate.name.as_str().starts_with(prefix))
        .map(|mate| json!({ "name": mate.name, "description": mate.description }))
        .collect();
    json!({ "total": named.len(), "agents": &named[..named.len().min(MOST_AGENTS)] })
}

fn help(topic: Option<&str>) -> Result<String, ToolError> {
    let Some(topic) = topic else {
        let topics = help::TOPICS.iter().map(|(name, text)| json!({ "topic": name, "about": first_sentence(text) }));
        return Ok(json!({ "topics": topics.collect::<Vec<_>>() }).to_string());
    };
    match help::TOPICS.iter().find(|(name, _)| *name == topic) {
        Some((_, text)) => Ok(text.trim_end().to_owned()),
        None => {
            let hint = did_you_mean(topic, help::TOPICS.iter().map(|(name, _)| *name)).unwrap_or_default();
            Err(ToolError::Invalid(format!("unknown topic {topic:?}; {hint}")))
        }
    }
}

fn time(now: Timestamp) -> Value {
    json!({ "utc": now.to_rfc3339(), "unix_ms": now })
}

fn first_sentence(text: &str) -> &str {
    let line = text.lines().next().unwrap_or_default();
    line.find(". ").map_or(line, |end| &line[..=end])
}

fn failed(error: StoreError) -> ToolError {
    ToolError::Failed(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_topic_has_a_text_whose_first_sentence_is_short() {
        for (name, text) in help::TOPICS {
            let first = first_sentence(text);
            assert!((20..200).contains(&first.len()), "{name}: {first}");
            assert_eq!(help(Some(name)).as_deref(), Ok(text.trim_end()));
        }
        let unknown = help(Some("artefacts")).expect_err("no such topic").to_string();
        assert_eq!(unknown, "unknown topic \"artefacts\"; did you mean \"artifacts\"?");
    }

    #[test]
    fn what_is_left_of_a_budget_is_never_negative() {
        let spent = Spent { tokens: 130, cost: Cost(5) };
        let shown = budget(true, Some(100), Some(Cost(7)), spent);
        assert_eq!((&shown["tokens"]["left"], &shown["cost"]["left"]), (&json!(0), &json!(2e-9)));
    }
}
