//! `list_runs`: runs, newest first.

use drawloom_contract::{
    ids::{AgentName, BatchId, RunId, SessionId, UserId},
    journal::RunFilter,
    record::Status,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    request::{Changes, Request, Route},
    runs::RunResult,
};

/// How many runs a page has, unless the request says otherwise.
const DEFAULT_LIMIT: u32 = 50;

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

impl Request for ListRuns {
    const NAME: &'static str = "list_runs";
    const ROUTES: &'static [Route] = &[Route::get("/v1/runs"), Route::get("/v1/users/{user_id}/agents")];
    const CHANGES: Changes = Changes::Nothing;
    type Output = RunPage;
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
