//! Answers for models: the text that was asked for, what helps to go on, and nothing else. A value for programs has the fields of
//! the operation's own answer with most of them left out; the text beside it says the same in words, the answer first.
//!
//! Hosts hand their models either the text or the value, never both: see `mcp/clients.rs`.

mod text;

use drawloom_contract::{caller::Caller, money::Cost, record::Status};
use drawloom_wire::{
    agents::AgentList,
    batches::{BatchResult, BatchStatus},
    goals::GoalResult,
    runs::{Amount, ArtifactPart, Cancelled, RunPage, RunResult, TreeSpent},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{app::App, operation::Told};

/// How long the next wait should be, as we advise it: under what most clients bear.
const ADVISED_WAIT_MS: u64 = 45_000;

const RUN: &[&str] = &[
    "index",
    "run_id",
    "agent",
    "prompt",
    "short_id",
    "status",
    "position",
    "stop_reason",
    "final_text",
    "artifact",
    "tree",
    "error",
    "warnings",
    "hint",
    "timings",
    "batch_id",
    "parent_run_id",
    "retry_of",
    "retried_as",
    "parent_context",
];
const ARTIFACT: &[&str] = &["name", "bytes", "lines", "outline"];
const RUN_IN_LIST: &[&str] = &[
    "index",
    "run_id",
    "agent",
    "prompt",
    "short_id",
    "status",
    "position",
    "error",
    "timings",
    "batch_id",
    "parent_run_id",
    "retry_of",
    "retried_as",
];
const AGENT: &[&str] = &["name", "description", "model", "tools", "gates", "budget_tokens", "run_timeout_ms"];
const PART: &[&str] = &["run_id", "name", "bytes", "lines", "text", "from_line", "next_offset", "matches", "truncated"];
const CANCELLED: &[&str] = &["cancelled", "run_id", "status", "cascaded", "reason"];

/// An answer for a model: in words, and as a value.
pub(crate) struct Lean {
    pub(crate) text: String,
    pub(crate) value: Value,
}

/// The answer of an operation; one of another shape than its card says comes as it is.
pub(crate) async fn answer(app: &App, caller: &Caller, told: Told, value: Value) -> Lean {
    let lean = match told {
        Told::Json => None,
        Told::Goal => read::<GoalResult>(&value).map(|result| goal(&result)),
        Told::Run => match read(&value) {
            Some(result) => Some(run(app, caller, result).await),
            None => None,
        },
        Told::Batch => match read(&value) {
            Some(result) => Some(batch(app, caller, result).await),
            None => None,
        },
        Told::Runs => read(&value).map(|page| list(&page)),
        Told::Agents => read(&value).map(|list| agents(&list)),
        Told::Part => read(&value).map(|part: ArtifactPart| Lean { text: text::part(&part), value: kept(&part, PART) }),
        Told::Cancelled => {
            read(&value).map(|done: Cancelled| Lean { text: text::cancelled(&done), value: kept(&done, CANCELLED) })
        }
    };
    lean.unwrap_or_else(|| Lean { text: value.to_string(), value })
}

/// A run, with the sums over all runs below it.
pub(crate) async fn run(app: &App, caller: &Caller, mut result: RunResult) -> Lean {
    let spent = spent(app, caller, &result).await;
    result.tree = Some(spent);
    if !result.status.is_terminal() {
        result.hint = Some(format!(
            "the run continues; call get_run with run_id {} and wait_ms {ADVISED_WAIT_MS} to wait for it",
            result.run_id
        ));
    } else if result.artifact.is_some() {
        result.hint = Some("the text is long; read_artifact gives it in parts".into());
    }
    Lean { text: text::run(&result, &currency(app, spent)), value: run_value(&result) }
}

/// A batch, with the sums over its runs and all runs below them.
pub(crate) async fn batch(app: &App, caller: &Caller, mut result: BatchResult) -> Lean {
    let mut total =
        TreeSpent { tokens: 0, cost: Amount::default(), assumed_cost: None, children: 0, failed_children: 0 };
    for one in &mut result.results {
        let spent = spent(app, caller, one).await;
        total = sum(total, spent);
        one.tree = Some(spent);
    }
    let batch = result.batch_id;
    if result.status == BatchStatus::Running {
        result.hint = Some(format!(
            "the batch continues; call get_batch with batch_id {batch} and wait_ms {ADVISED_WAIT_MS} to wait for it"
        ));
    } else if result.results.iter().any(|one| one.artifact.is_some()) {
        result.hint = Some("texts with an artifact are long; read_artifact gives them in parts".into());
    }
    let text = text::batch(&result, total, &currency(app, total));
    let mut value = kept(&result, &["batch_id", "status", "spawned", "warnings", "hint"]);
    value["results"] = result.results.iter().map(|one| without(run_value(one), "batch_id")).collect();
    value["tree"] = to_value(&total);
    Lean { text, value }
}

/// A goal: its summary and what the workers report, or what it asks; the rest is in the value.
pub(crate) fn goal(result: &GoalResult) -> Lean {
    let mut lines = vec![format!("goal {}: {}", result.run_id, result.status)];
    lines.extend(result.summary.clone());
    if let Some(worktree) = &result.worktree {
        lines.push(format!("repository {}, branch {}", worktree.repository.display(), worktree.branch));
        let asks = worktree.needs_acceptance.iter();
        lines.extend(asks.map(|file| format!("must be accepted to land: {} ({})", file.path, file.why)));
        let more = worktree.needs_acceptance_more;
        lines.extend((more > 0).then(|| format!("and {more} more files that must be accepted to land")));
    }
    lines.extend((!result.message.is_empty()).then(|| result.message.clone()));
    lines.extend(result.questions.iter().enumerate().map(|(index, question)| format!("{}. {question}", index + 1)));
    lines.extend(result.token.iter().map(|token| format!("token: {token}")));
    lines.extend(result.error.iter().map(|error| format!("{}: {}", error.code, error.message)));
    lines.extend(result.final_output.iter().map(|output| format!("\n{output}")));
    Lean { text: lines.join("\n"), value: serde_json::to_value(result).expect("results have only text keys") }
}

/// A run in a list.
pub(crate) fn run_row(result: &RunResult) -> Value {
    let mut row = kept(result, RUN_IN_LIST);
    retain(&mut row["timings"], &["accepted_at", "total_ms"]);
    row
}

/// An agent in a list.
pub(crate) fn agent_row(agent: &drawloom_wire::agents::Agent) -> Value {
    let mut row = kept(agent, AGENT);
    if let Some(gates) = row["gates"].as_object_mut() {
        gates.retain(|_, names| names.as_array().is_some_and(|names| !names.is_empty()));
    }
    row
}

fn list(page: &RunPage) -> Lean {
    let mut value = kept(page, &["next"]);
    value["runs"] = page.runs.iter().map(run_row).collect();
    Lean { text: text::runs(page), value }
}

fn agents(list: &AgentList) -> Lean {
    let mut value = kept(list, &["next"]);
    value["agents"] = list.agents.iter().map(agent_row).collect();
    Lean { text: text::agents(list), value }
}

fn run_value(result: &RunResult) -> Value {
    let mut value = kept(result, RUN);
    if result.artifact.is_some() {
        retain(&mut value["artifact"], ARTIFACT);
    }
    match result.timings.total_ms {
        Some(_) => retain(&mut value["timings"], &["total_ms"]),
        None => value = without(value, "timings"),
    }
    value
}

/// What the run and all below it took; its own part when the rest cannot be read.
async fn spent(app: &App, caller: &Caller, result: &RunResult) -> TreeSpent {
    if let Some(tree) = result.tree {
        return tree;
    }
    // A run that never began has spent nothing, and has nothing below it.
    if result.status != Status::Queued {
        match app.runs.total(caller, result.run_id).await {
            Ok(total) => return total.into(),
            Err(error) => tracing::debug!(%error, "the sums over a tree could not be read; its own are shown"),
        }
    }
    TreeSpent {
        tokens: result.usage.total(),
        cost: result.cost.unwrap_or_default(),
        assumed_cost: result.assumed_cost,
        children: 0,
        failed_children: 0,
    }
}

fn sum(one: TreeSpent, other: TreeSpent) -> TreeSpent {
    let assumed = one.assumed_cost.into_iter().chain(other.assumed_cost);
    TreeSpent {
        tokens: one.tokens.saturating_add(other.tokens),
        cost: Amount(one.cost.0 + other.cost.0),
        assumed_cost: assumed.reduce(|one, other| Amount(one.0 + other.0)),
        children: one.children + other.children,
        failed_children: one.failed_children + other.failed_children,
    }
}

/// The currency of costs, asked only when there is one to show.
fn currency(app: &App, spent: TreeSpent) -> String {
    if spent.cost.0 > Cost::default() { app.models.list().currency } else { String::new() }
}

fn read<T: DeserializeOwned>(value: &Value) -> Option<T> {
    T::deserialize(value).ok()
}

fn to_value(value: &impl Serialize) -> Value {
    serde_json::to_value(value).expect("answers have only text keys")
}

fn kept(value: &impl Serialize, fields: &[&str]) -> Value {
    let mut value = to_value(value);
    retain(&mut value, fields);
    value
}

fn retain(value: &mut Value, fields: &[&str]) {
    if let Some(map) = value.as_object_mut() {
        map.retain(|name, _| fields.contains(&name.as_str()));
    }
}

fn without(mut value: Value, field: &str) -> Value {
    if let Some(map) = value.as_object_mut() {
        map.remove(field);
    }
    value
}
