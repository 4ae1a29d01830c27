//! `Evaluation`: the tool with which agents judge runs and read what others think of them.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use drawloom_contract::{
    caller::Visible,
    ids::RunId,
    tool::{Gates, Repeat, Step, Tool, ToolCard, ToolContext, ToolError},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    By, EvalId, EvaluationError, Evaluations, ListAsked, Listed, MOST_LISTED, Meant, Of, Submission,
    scope::{EVALUATION_SCOPES, EvaluationScope, GATE},
};
use crate::store_tools::StoreTool;

const NAME: &str = "Evaluation";

/// The tool, which is made when the store is open.
pub const TOOL: StoreTool =
    StoreTool { name: NAME, gate: Some(GATE), make: |parts| Arc::new(EvaluationTool(parts.evaluations.clone())) };

/// How many evaluations a list has, unless the call says otherwise.
const USUAL_LIST: u32 = 100;

/// Most bytes of one list: a model reads all of it.
const MOST_BYTES: u64 = 64 * 1024;

pub(super) struct EvaluationTool(pub(super) Arc<Evaluations>);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    op: Op,
    /// `submit`: the run to evaluate. `list_for_run`: the run; default this run.
    run_id: Option<RunId>,
    /// `submit`: the overall score, from 0 to 1.
    #[schemars(range(min = 0, max = 1))]
    score: Option<f64>,
    /// `submit`: scores from 0 to 1 by name, such as `{"accuracy": 0.9}`; at most 32.
    dimensions: Option<BTreeMap<String, f64>>,
    /// `submit`: any JSON, at most 32 KiB.
    judgement: Option<Value>,
    /// `submit`: the reason in words, at most 8 KiB.
    rationale: Option<String>,
    /// `submit`: what is evaluated, such as `hop3`; the same tag again replaces your evaluation. `list_for_run`, `list_for_def`: only
    /// this tag.
    tag: Option<String>,
    /// `get`: the evaluation.
    eval_id: Option<String>,
    /// `list_for_def`, `aggregate`: a definition: its digest, name@version, or the name of an agent; default this agent's own.
    def_id: Option<String>,
    /// `aggregate`: include the definitions that it was made from.
    #[serde(default)]
    include_lineage: bool,
    /// `list_for_run`: of each tag only the newest.
    #[serde(default)]
    latest_per_tag: bool,
    /// Lists: `next` of the previous page.
    after: Option<String>,
    /// Lists: maximum evaluations; default 100, at most 200.
    #[schemars(range(min = 1, max = 200))]
    limit: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Op {
    Submit,
    Get,
    ListForRun,
    ListForDef,
    Aggregate,
}

impl Op {
    fn name(self) -> &'static str {
        match self {
            Self::Submit => "submit",
            Self::Get => "get",
            Self::ListForRun => "list_for_run",
            Self::ListForDef => "list_for_def",
            Self::Aggregate => "aggregate",
        }
    }

    /// The fields that belong to it.
    fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Submit => &["run_id", "score", "dimensions", "judgement", "rationale", "tag"],
            Self::Get => &["eval_id"],
            Self::ListForRun => &["run_id", "tag", "latest_per_tag", "after", "limit"],
            Self::ListForDef => &["def_id", "tag", "after", "limit"],
            Self::Aggregate => &["def_id", "include_lineage"],
        }
    }
}

#[async_trait]
impl Tool for EvaluationTool {
    fn card(&self) -> ToolCard {
        ToolCard::new::<Input>(
            NAME,
            "Evaluate runs and read evaluations. op=submit stores a score from 0 to 1 for a run; it is durable when the \
             call returns. op=list_for_run lists the evaluations of a run, newest first, op=list_for_def those of all \
             runs of a definition; op=get returns one with its texts; op=aggregate returns statistics of a definition. \
             After a signal that others are done, list again: what you read before the signal may be incomplete.",
        )
    }

    fn card_for(&self, card: &ToolCard, gates: Gates<'_>) -> Result<ToolCard, String> {
        GATE.check(NAME, gates)?;
        let lines = gates.definition.gate(EVALUATION_SCOPES).iter().map(|scope| format!("\n- {scope}"));
        let description = format!("{}\nScopes of this agent:{}", card.description, lines.collect::<String>());
        Ok(ToolCard { description, ..card.clone() })
    }

    fn repeat(&self) -> Repeat<'_> {
        Repeat::Keyed
    }

    async fn call(&self, context: &ToolContext, input: Value) -> Result<Step, ToolError> {
        let given: Vec<String> = input
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, _)| key.clone())
            .collect();
        let input: Input = serde_json::from_value(input)?;
        let is_other = |key: &&String| *key != "op" && !input.op.fields().contains(&key.as_str());
        if let Some(other) = given.iter().find(is_other) {
            let (op, fields) = (input.op.name(), input.op.fields().join(", "));
            return Err(ToolError::Invalid(format!("`{other}` cannot be used with op={op}, which takes {fields}")));
        }
        let answer = match input.op {
            Op::Submit => self.submit(context, input).await?,
            Op::Get => self.get(context, input).await?,
            Op::ListForRun => self.list_for_run(context, input).await?,
            Op::ListForDef => self.list_for_definition(context, input).await?,
            Op::Aggregate => self.aggregate(context, input).await?,
        };
        Ok(Step::done(answer.to_string()))
    }
}

impl EvaluationTool {
    async fn submit(&self, context: &ToolContext, input: Input) -> Result<Value, ToolError> {
        let run = input.run_id.ok_or_else(|| missing("run_id", "submit"))?;
        let score = input.score.ok_or_else(|| missing("score", "submit"))?;
        let evaluated = self.0.load_run(&context.run.tenant, run).await?;
        if !visible(context).sees(&context.run.tenant, &evaluated.user) {
            return Err(EvaluationError::UnknownRun(run).into());
        }
        let role = self.0.role(&context.run, &evaluated).await?;
        allow(context, &[EvaluationScope::SubmitAny, role.needs()], || {
            format!("evaluate run {run}, whose role for it is {}", role.as_str())
        })?;
        let submission = Submission {
            score,
            dimensions: input.dimensions.unwrap_or_default(),
            judgement: input.judgement,
            rationale: input.rationale,
            tag: input.tag,
        };
        Ok(self.0.submit(&By::Call(context, role), &evaluated, submission).await?)
    }

    async fn get(&self, context: &ToolContext, input: Input) -> Result<Value, ToolError> {
        let id = input.eval_id.ok_or_else(|| missing("eval_id", "get"))?;
        let id: EvalId = id.parse().map_err(|error: super::record::BadEvalId| ToolError::Invalid(error.to_string()))?;
        self.may_read(context, id.run == context.run.run, || format!("evaluations of run {}", id.run))?;
        Ok(self.0.get(&visible(context), id).await?.show())
    }

    async fn list_for_run(&self, context: &ToolContext, input: Input) -> Result<Value, ToolError> {
        let run = input.run_id.unwrap_or(context.run.run);
        self.may_read(context, run == context.run.run, || format!("evaluations of run {run}"))?;
        self.0.load_run(&context.run.tenant, run).await?;
        let listed = self.0.list_for_run(&visible(context), run, &asked(&input)?).await?;
        let mut answer = page(&listed);
        answer["run_id"] = json!(run);
        Ok(answer)
    }

    async fn list_for_definition(&self, context: &ToolContext, input: Input) -> Result<Value, ToolError> {
        let definition = self.definition(context, input.def_id.as_deref()).await?;
        let listed = self.0.list_for_definition(&visible(context), &definition, &asked(&input)?).await?;
        let mut answer = page(&listed);
        answer["def_id"] = json!(definition);
        Ok(answer)
    }

    async fn aggregate(&self, context: &ToolContext, input: Input) -> Result<Value, ToolError> {
        let definition = self.definition(context, input.def_id.as_deref()).await?;
        Ok(self.0.aggregate(&visible(context), &Of::Definition(definition), input.include_lineage).await?)
    }

    /// The definition that a call means, if the agent may read its evaluations.
    async fn definition(&self, context: &ToolContext, def_id: Option<&str>) -> Result<Meant, ToolError> {
        let own = Meant::Definition(self.0.load_run(&context.run.tenant, context.run.run).await?.definition);
        let definition = match def_id {
            None => own.clone(),
            Some(def_id) => self.0.definition(&context.run.tenant, def_id).await?,
        };
        self.may_read(context, definition == own, || format!("evaluations of definition {definition}"))?;
        Ok(definition)
    }

    fn may_read(&self, context: &ToolContext, is_own: bool, what: impl FnOnce() -> String) -> Result<(), ToolError> {
        let own = if is_own { EvaluationScope::ReadSelf } else { EvaluationScope::ReadAny };
        allow(context, &[EvaluationScope::ReadAny, own], || format!("read {}", what()))
    }
}

/// What the gate lets agents reach is the tenant's, of every user whose runs the agent's maker sees.
fn visible(context: &ToolContext) -> Visible {
    context.definition.visible(&context.run.tenant)
}

/// Refuses what none of the scopes gives; the last one is the narrowest that would.
fn allow(context: &ToolContext, scopes: &[EvaluationScope], what: impl FnOnce() -> String) -> Result<(), ToolError> {
    if scopes.iter().any(|scope| scope.is_given(&context.definition)) {
        return Ok(());
    }
    let has = context.definition.gate(EVALUATION_SCOPES).join(", ");
    let needed = scopes.last().map_or("", |scope| scope.as_str());
    Err(ToolError::Denied(format!(
        "agent {} is not allowed to {} (to allow it, add {needed} to `{EVALUATION_SCOPES}`, which has: {has})",
        context.definition.name,
        what()
    )))
}

fn asked(input: &Input) -> Result<ListAsked, EvaluationError> {
    let limit = input.limit.unwrap_or(USUAL_LIST);
    if !(1..=MOST_LISTED).contains(&limit) {
        return Err(EvaluationError::BadLimit(limit));
    }
    Ok(ListAsked {
        tag: input.tag.clone(),
        latest_per_tag: input.latest_per_tag,
        after: input.after.clone(),
        limit,
        bytes: Some(MOST_BYTES),
    })
}

fn page(listed: &Listed) -> Value {
    let evaluations: Vec<Value> = listed.evaluations.iter().map(super::Evaluation::show).collect();
    json!({ "evaluations": evaluations, "truncated": listed.next.is_some(), "next": listed.next })
}

fn missing(field: &str, op: &str) -> ToolError {
    ToolError::Invalid(format!("op={op} requires `{field}`"))
}
