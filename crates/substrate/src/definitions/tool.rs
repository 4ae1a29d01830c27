//! `AgentDef`: the tool with which agents define agents, channels and skills that can do no more than they can themselves.

use std::sync::Arc;

use async_trait::async_trait;
use drawloom_contract::{
    definition::{Definition, DefinitionKind},
    gate::Gate,
    journal::RunReader,
    record::Body,
    tool::{Gates, Repeat, Step, Tool, ToolCard, ToolContext, ToolError},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{By, Create, Fork, GATE, ListAsked, Promote, Retire, RuntimeDefinitions, Verify, rules};
use crate::store_tools::StoreTool;

/// The tool, which is made when the store is open.
pub const TOOL: StoreTool = StoreTool {
    name: NAME,
    gate: Some(TOOL_GATE),
    make: |parts| Arc::new(AgentDef { definitions: parts.definitions.clone(), reader: parts.reader.clone() }),
};

const NAME: &str = "AgentDef";

const TOOL_GATE: Gate =
    Gate::new("definitions", "definitions: [agent]", "define anything", |gates| gates.definition.gate(GATE).is_empty());

struct AgentDef {
    definitions: Arc<RuntimeDefinitions>,
    reader: Arc<dyn RunReader>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    op: Op,
    /// What is defined. Default `agent`.
    kind: Option<DefinitionKind>,
    /// The name.
    name: Option<String>,
    /// `create` and `verify`: the definition, with the keys of an agent in the config (`system_prompt`, `tools`, `model`, …); of a
    /// channel: `scope`, `semantic`, `max_messages`, …; of a skill: `description`, `instructions`, `files`.
    #[serde(alias = "overlay", alias = "definition")]
    source: Option<Value>,
    /// `fork`: the version to begin with: NAME, NAME@VERSION, or an agent or channel of the config.
    #[serde(alias = "parent_def_id")]
    from: Option<String>,
    /// `fork`: the fields to change; null removes one.
    changes: Option<Value>,
    /// `get`, `promote`, `retire`, `verify`: the version; by default the active one.
    version: Option<u32>,
    /// What this version is for.
    description: Option<String>,
    /// Whether the new version is active at once. Default true for `create`, false for `fork`.
    promote: Option<bool>,
    /// `retire`: false takes the retirement back.
    retired: Option<bool>,
    /// `verify`: compare the active version with this digest.
    content_sha256: Option<String>,
    /// `diff`: the version to compare with `from`.
    to: Option<String>,
    /// `list`: `next` of the previous page.
    after: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Op {
    Create,
    Fork,
    Get,
    List,
    Diff,
    Promote,
    Retire,
    Verify,
}

#[async_trait]
impl Tool for AgentDef {
    fn card(&self) -> ToolCard {
        ToolCard::new::<Input>(
            NAME,
            "Define agents, channels and skills at runtime, with no more permissions than your own. op=create makes a definition, \
             or a new version of one; op=fork makes a version from another one with changes; op=promote makes a version \
             the active one; op=retire takes one out of use; op=get, op=list and op=diff read; op=verify \
             reports every problem without writing. Runs that have started keep their version.",
        )
    }

    fn card_for(&self, card: &ToolCard, gates: Gates<'_>) -> Result<ToolCard, String> {
        TOOL_GATE.check(NAME, gates)?;
        let kinds = gates.definition.gate(GATE);
        let mut card = card.clone();
        if let Some(kind) = Arc::make_mut(&mut card.input_schema).pointer_mut("/properties/kind") {
            *kind = json!({ "type": "string", "enum": kinds, "description": kind["description"] });
        }
        if let Some(parts) = Arc::make_mut(&mut card.input_schema).get_mut("$defs").and_then(Value::as_object_mut) {
            parts.remove("DefinitionKind");
        }
        Ok(card)
    }

    fn repeat(&self) -> Repeat<'_> {
        Repeat::Keyed
    }

    async fn call(&self, context: &ToolContext, input: Value) -> Result<Step, ToolError> {
        let input: Input = serde_json::from_value(input)?;
        let kind = input.kind.unwrap_or(DefinitionKind::Agent);
        if !context.definition.allows(GATE, kind.as_str()) {
            let gates = Gates { definition: &context.definition, hosts: &context.hosts };
            TOOL_GATE.check(NAME, gates).map_err(ToolError::Denied)?;
            let allowed = context.definition.gate(GATE).join(", ");
            let article = if kind == DefinitionKind::Agent { "an" } else { "a" };
            let message = format!("this agent cannot define {article} {}; its `definitions`: {allowed}", kind.as_str());
            return Err(ToolError::Denied(message));
        }
        let definition = self.maker(context).await?;
        let by = By::Call { context, definition: &definition };
        let answer = self.answer(context, kind, input, &by).await?;
        Ok(Step::done(answer.to_string()))
    }
}

impl AgentDef {
    async fn answer(
        &self,
        context: &ToolContext,
        kind: DefinitionKind,
        input: Input,
        by: &By<'_>,
    ) -> Result<Value, ToolError> {
        let (definitions, tenant) = (&self.definitions, &context.run.tenant);
        let missing = |field: &str| ToolError::Invalid(format!("`{field}` is missing"));
        let name = || input.name.clone().ok_or_else(|| missing("name"));
        let promote = |usual: bool| match input.promote.unwrap_or(usual) {
            true => rules::Promote::Yes,
            false => rules::Promote::No,
        };
        Ok(match input.op {
            Op::Create => {
                let source = input.source.clone().ok_or_else(|| missing("source"))?;
                let (name, description) = (name()?, input.description.clone());
                definitions.create(Create { kind, name, source, description, promote: promote(true) }, by).await?
            }
            Op::Fork => {
                let from = input.from.clone().or_else(|| input.name.clone()).ok_or_else(|| missing("from"))?;
                let fork = Fork {
                    kind,
                    from,
                    name: input.name.clone(),
                    changes: input.changes.clone().or_else(|| input.source.clone()).unwrap_or_else(|| json!({})),
                    description: input.description.clone(),
                    promote: promote(false),
                };
                definitions.fork(fork, by).await?
            }
            Op::Promote => {
                let version = input.version.ok_or_else(|| missing("version"))?;
                definitions.promote(Promote { kind, name: name()?, version }, by).await?
            }
            Op::Retire => {
                let retired = input.retired.unwrap_or(true);
                definitions.retire(Retire { kind, name: name()?, version: input.version, retired }, by).await?
            }
            Op::Get => definitions.get(tenant, kind, &name()?, input.version).await?,
            Op::List => {
                let asked = ListAsked { kind: Some(kind), name: input.name, after: input.after, limit: None };
                definitions.list(tenant, &asked).await?
            }
            Op::Diff => {
                let from = input.from.clone().ok_or_else(|| missing("from"))?;
                let to = input.to.clone().ok_or_else(|| missing("to"))?;
                definitions.diff(tenant, kind, &from, &to).await?
            }
            Op::Verify => {
                let verify = Verify {
                    kind,
                    name: name()?,
                    source: input.source,
                    version: input.version,
                    content_sha256: input.content_sha256,
                };
                definitions.verify(verify, by).await?
            }
        })
    }

    /// The agent as the request of its run left it: what the request took away, it cannot give.
    async fn maker(&self, context: &ToolContext) -> Result<Definition, ToolError> {
        let first = self.reader.read_journal(&context.run, 0, 1).await;
        let first = first.map_err(|error| ToolError::Failed(error.to_string()))?.into_iter().next();
        let mut maker = Definition { hosts: context.hosts.to_vec(), ..Definition::clone(&context.definition) };
        if let Some(Body::Accepted(accepted)) = first.map(|record| record.body) {
            if accepted.narrowed_tools.is_some() {
                maker.tools = accepted.tools.clone();
            }
            maker.max_iterations = maker.max_iterations.min(accepted.max_iterations);
            if let Some(volumes) = &accepted.narrowed_volumes {
                maker.volumes.retain(|volume| volumes.contains(volume));
            }
            let parts = || accepted.part_budgets.iter();
            let tokens = parts().filter_map(|part| part.tokens).chain(accepted.budget_tokens);
            maker.budget_tokens = tokens.chain(maker.budget_tokens).min();
            let cost = parts().filter_map(|part| part.cost).chain(accepted.budget_cost);
            maker.budget_cost = cost.chain(maker.budget_cost).min();
            maker.run_timeout_ms = maker.run_timeout_ms.into_iter().chain(accepted.run_timeout_ms).min();
        }
        Ok(maker)
    }
}
