//! `get_run`: looks at a run, or waits for it.

mod include;

use drawloom_contract::{
    failure::RunError,
    ids::{AgentId, AgentName, BatchId, RunId, SessionId, UserId},
    money::{Amount, TreeTotal},
    record::{Status, StopReason},
    time::Timestamp,
    usage::Usage,
    view::RunView,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    request::{Changes, Request, Route},
    runs::{Artifact, MAX_RESULT_BYTES, MAX_WAIT_MS},
};

pub use include::{Include, short_id};

/// Looks at a run, or waits for it. Give `run_id` or `agent_id`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetRun {
    /// The run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// The caller's own id of a run: the unfinished run that has it, else the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// Maximum wait for the end, in milliseconds; then the current state is returned. Defaults to no wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = MAX_WAIT_MS))]
    pub wait_ms: Option<u64>,
    /// Maximum bytes of final texts in the response; longer texts are returned as an outline, to be read with `read_artifact`.
    /// Defaults to no limit, except over MCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = MAX_RESULT_BYTES))]
    pub result_bytes: Option<u64>,
    /// Fields to add, without `wait_ms`: `prompt`, `short_id`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<Include>,
}

/// A run: how it stands, and what it came to once it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunResult {
    /// Its place in its batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// The run.
    pub run_id: RunId,
    /// The shortest unique start of `run_id`; only with `include`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short_id: Option<String>,
    /// The caller's own id of the run.
    pub agent_id: AgentId,
    /// Its session: a label that groups runs.
    pub session_id: SessionId,
    /// The agent.
    pub agent: AgentName,
    /// The user that the run belongs to.
    pub user_id: UserId,
    /// The prompt; only with `include`. Lists have its first 200 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Its status.
    pub status: Status,
    /// Its place in the queue, from 1, while it is queued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// Why the model stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<StopReason>,
    /// The text of the last turn. Left out of lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_text: Option<String>,
    /// The text of the last turn, if it is too long for the response: read it in parts with `read_artifact`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<Artifact>,
    /// Tokens of the whole run so far.
    pub usage: Usage,
    /// Their cost, for models with a known price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Amount>,
    /// The estimated part of `cost`: reserved for calls whose usage the provider did not report. Absent if all usage is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assumed_cost: Option<Amount>,
    /// Totals of the run and its child runs so far; only for a single run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<TreeSpent>,
    /// What went wrong, unless it completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
    /// What was narrowed, overridden, defaulted or cut short.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// What else is worth knowing of it, such as why a retry is not in the tree of the first attempt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// How to continue, if the run has not ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// When things happened.
    pub timings: Timings,
    /// The provider of the model.
    pub provider: String,
    /// The model.
    pub model: String,
    /// The run that spawned it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<RunId>,
    /// The caller's own id of that run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_agent_id: Option<AgentId>,
    /// The call of that run that spawned it: `call` of its events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_call: Option<u64>,
    /// Its place among the runs that this call spawned, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_index: Option<u32>,
    /// The top-level run of its tree; for a top-level run, itself.
    pub root_run_id: RunId,
    /// Number of runs above it; 0 for a top-level run.
    pub depth: u32,
    /// The batch that it is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_id: Option<BatchId>,
    /// The run that this one retries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<RunId>,
    /// The run that retries this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retried_as: Option<RunId>,
    /// The data that the caller passed as `parent_context`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_context: Option<Value>,
    /// The last record of its journal: what `Last-Event-ID` counts.
    pub seq: u64,
}

/// When things happened, and how long they took.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Timings {
    /// When it was accepted (RFC 3339, UTC).
    pub accepted_at: String,
    /// When it was first admitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// Milliseconds from accept to first admission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued_ms: Option<u64>,
    /// Milliseconds from first admission to the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_ms: Option<u64>,
    /// Milliseconds from accept to the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_ms: Option<u64>,
}

/// Totals of a run and its child runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TreeSpent {
    /// Input and output tokens.
    pub tokens: u64,
    /// Cost, for models with a known price.
    pub cost: Amount,
    /// The estimated part of `cost`. Absent if all usage is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assumed_cost: Option<Amount>,
    /// Child runs, at any depth.
    #[serde(default)]
    pub children: u64,
    /// Child runs that did not complete.
    #[serde(default)]
    pub failed_children: u64,
}

impl Request for GetRun {
    const NAME: &'static str = "get_run";
    const ROUTES: &'static [Route] = &[Route::get("/v1/runs/{run_id}"), Route::get("/v1/agents/{agent_id}")];
    const CHANGES: Changes = Changes::Nothing;
    type Output = RunResult;
}

impl RunResult {
    /// A row as callers see it; `position` is its place in the queue, if it is there.
    pub fn of(view: &RunView, position: Option<u64>) -> Self {
        Self {
            index: view.batch.map(|place| place.index),
            run_id: view.run,
            short_id: None,
            agent_id: view.agent_id.clone(),
            session_id: view.session,
            agent: view.agent.clone(),
            user_id: view.user.clone(),
            prompt: None,
            status: view.status,
            position: position.filter(|_| view.status == Status::Queued),
            stop_reason: view.stop_reason,
            final_text: view.final_text.clone(),
            artifact: None,
            usage: view.usage,
            cost: view.cost.map(Amount),
            assumed_cost: view.assumed.map(Amount),
            tree: None,
            error: view.error.clone(),
            warnings: view.warnings.clone(),
            notes: Vec::new(),
            hint: None,
            timings: Timings::of(view),
            provider: view.provider.clone(),
            model: view.model.clone(),
            parent_run_id: view.parent.as_ref().map(|parent| parent.run),
            parent_agent_id: view.parent.as_ref().map(|parent| parent.agent_id.clone()),
            parent_call: view.parent.as_ref().map(|parent| parent.call),
            parent_index: view.parent.as_ref().map(|parent| parent.index),
            root_run_id: view.root,
            depth: view.depth,
            batch_id: view.batch.map(|place| place.batch),
            retry_of: view.retry.map(|retry| retry.of),
            retried_as: None,
            parent_context: view.parent_context.clone(),
            seq: view.seq,
        }
    }
}

impl Timings {
    /// The timings of a row.
    pub fn of(view: &RunView) -> Self {
        let millis =
            |later: Timestamp, earlier: Timestamp| u64::try_from(later.since(earlier).as_millis()).unwrap_or(u64::MAX);
        Self {
            accepted_at: view.accepted_at.to_rfc3339(),
            started_at: view.started_at.map(Timestamp::to_rfc3339),
            ended_at: view.ended_at.map(Timestamp::to_rfc3339),
            queued_ms: view.started_at.map(|started| millis(started, view.accepted_at)),
            run_ms: view.started_at.zip(view.ended_at).map(|(started, ended)| millis(ended, started)),
            total_ms: view.ended_at.map(|ended| millis(ended, view.accepted_at)),
        }
    }
}

impl From<TreeTotal> for TreeSpent {
    fn from(total: TreeTotal) -> Self {
        Self {
            tokens: total.spent.tokens,
            cost: Amount(total.spent.cost),
            assumed_cost: total.assumed.map(Amount),
            children: total.below,
            failed_children: total.failed,
        }
    }
}
