//! Requests that look at, follow and stop what was started.

use drawloom_contract::{
    ids::{AgentId, AgentName, BatchId, RunId, SessionId, UserId},
    journal::RunFilter,
    record::Status,
    runs,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::runs::{MAX_RESULT_BYTES, MAX_WAIT_MS, RunResult};

/// How many runs a page of a list has when nobody says.
const DEFAULT_LIMIT: u32 = 50;

/// Looks at a run, or waits for it. Give `run_id` or `agent_id`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetRun {
    /// The run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// The caller's handle: the unfinished run that has it, else the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// Waits so many milliseconds for the end, then answers the run as it stands. At once, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = MAX_WAIT_MS))]
    pub wait_ms: Option<u64>,
    /// Longest final text, in bytes, of the whole answer; longer ones come as an outline that `read_artifact` reads on. No
    /// bound, when absent, except over MCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = MAX_RESULT_BYTES))]
    pub result_bytes: Option<u64>,
}

/// Lists runs, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListRuns {
    /// Only of this user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<UserId>,
    /// Only of this agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentName>,
    /// Only in one of these states. All, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Vec<Status>>,
    /// Only of this session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// Only of this batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_id: Option<BatchId>,
    /// Only children of this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<RunId>,
    /// Only runs older than this one: `next` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<RunId>,
    /// At most this many; 50, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 200))]
    pub limit: Option<u32>,
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunPage {
    /// The runs, newest first, without `final_text`.
    pub runs: Vec<RunResult>,
    /// `before` of the next page, when there may be more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<RunId>,
}

/// Follows a run: its events so far, then new ones until it ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FollowRun {
    /// The run.
    pub run_id: RunId,
    /// Only events with an id above this one, the same as the header `Last-Event-ID`. All, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_seq: Option<u64>,
}

/// Stops a run and all below it. Give `run_id` or `agent_id`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelRun {
    /// The run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// The caller's handle: the unfinished run that has it, else the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// Why, in your words; it is journaled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1000))]
    pub reason: Option<String>,
}

/// What a cancel did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cancelled {
    /// Whether this call made it stop; not, when it had ended.
    pub cancelled: bool,
    /// The run.
    pub run_id: RunId,
    /// The caller's handle of it.
    pub agent_id: AgentId,
    /// Where it stands.
    pub status: Status,
    /// Runs below it that were told to stop too.
    pub cascaded: Vec<RunId>,
    /// Why, as given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Looks at a batch, or waits for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetBatch {
    /// The batch.
    pub batch_id: BatchId,
    /// Waits so many milliseconds for the end of all runs, then answers the batch as it stands. At once, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = MAX_WAIT_MS))]
    pub wait_ms: Option<u64>,
    /// Longest final text, in bytes, of the whole answer; longer ones come as an outline that `read_artifact` reads on. No
    /// bound, when absent, except over MCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = MAX_RESULT_BYTES))]
    pub result_bytes: Option<u64>,
}

/// Stops every run of a batch and all below them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelBatch {
    /// The batch.
    pub batch_id: BatchId,
    /// Why, in your words; it is journaled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1000))]
    pub reason: Option<String>,
}

/// What cancelling a batch did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CancelledBatch {
    /// The batch.
    pub batch_id: BatchId,
    /// How many runs this call made stop.
    pub cancelled: u32,
    /// What it did to each, by index.
    pub runs: Vec<Cancelled>,
}

/// Folds a run's journal again, with no model and no tool called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplayRun {
    /// The run.
    pub run_id: RunId,
}

impl ListRuns {
    /// How many runs the page may have.
    pub fn page_size(&self) -> u32 {
        self.limit.unwrap_or(DEFAULT_LIMIT)
    }
}

impl From<ListRuns> for RunFilter {
    fn from(list: ListRuns) -> Self {
        Self {
            limit: list.page_size(),
            user: list.user_id,
            agent: list.agent,
            status: list.status.unwrap_or_default(),
            session: list.session_id,
            batch: list.batch_id,
            parent: list.parent_run_id,
            before: list.before,
        }
    }
}

impl Cancelled {
    /// What the engine did, as callers see it.
    pub fn of(done: runs::Cancelled, reason: Option<String>) -> Self {
        Self {
            cancelled: done.cancelled,
            run_id: done.view.run,
            agent_id: done.view.agent_id,
            status: done.view.status,
            cascaded: done.cascaded,
            reason,
        }
    }
}
