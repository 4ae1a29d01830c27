//! `list_runs`: runs, newest first.

use drawloom_contract::{
    ids::{AgentName, BatchId, RunId, SessionId, UserId},
    journal::RunFilter,
    record::Status,
    time::Timestamp,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    request::{Changes, Request, Route},
    runs::{Include, RunResult},
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
    /// Only runs with one of these statuses. Defaults to all.
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
    /// Only runs that no other run spawned.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub roots: bool,
    /// Only runs accepted within this many seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_age_seconds: Option<u64>,
    /// Only runs whose id begins like this (`r_01a1`), or whose batch's id does (`b_01a1`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[rb]_[0-9a-f]{0,32}$"))]
    pub id_prefix: Option<String>,
    /// Only runs whose prompt contains this text in its first 64 KiB, upper or lower case. A page may then have fewer runs than `limit`, or none,
    /// although there is a `next`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1_000))]
    pub search: Option<String>,
    /// Fields to add: `prompt`, `short_id`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<Include>,
    /// Only runs older than this one: `next` of the previous page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<RunId>,
    /// Maximum number of runs. Defaults to 50.
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

impl ListRuns {
    /// The filter of the store. Ages count back from `now`.
    pub fn filter(self, now: Timestamp) -> RunFilter {
        let prefix = self.id_prefix.as_deref().unwrap_or_default();
        let since = self.max_age_seconds.map(|seconds| {
            let millis = i64::try_from(seconds.saturating_mul(1_000)).unwrap_or(i64::MAX);
            let since = u64::try_from(now.as_millis().saturating_sub(millis)).unwrap_or(0);
            // The first six bytes of an id are its time.
            (u128::from(since) << 80, u128::MAX)
        });
        let ids = [prefix.strip_prefix("r_").map(range), since].into_iter().flatten();
        let ids = ids.reduce(|(first, last), (from, to)| (first.max(from), last.min(to)));
        RunFilter {
            limit: self.page_size(),
            ids: ids
                .map(|(first, last)| (RunId::from_bytes(first.to_be_bytes()), RunId::from_bytes(last.to_be_bytes()))),
            batches: prefix.strip_prefix("b_").map(range).map(|(first, last)| {
                (BatchId::from_bytes(first.to_be_bytes()), BatchId::from_bytes(last.to_be_bytes()))
            }),
            user: self.user_id,
            agent: self.agent,
            status: self.status.unwrap_or_default(),
            session: self.session_id,
            batch: self.batch_id,
            parent: self.parent_run_id,
            roots: self.roots,
            before: self.before,
        }
    }
}

/// The first and the last id that begin with these hex digits.
fn range(digits: &str) -> (u128, u128) {
    let digits: String = digits.chars().take(32).collect();
    let padded = |fill: &str| format!("{digits}{}", fill.repeat(32 - digits.len()));
    let number = |text: String| u128::from_str_radix(&text, 16).unwrap_or_default();
    (number(padded("0")), number(padded("f")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_and_an_age_are_ranges_of_ids() {
        let list = |prefix: Option<&str>, max_age_seconds| {
            let list = ListRuns { id_prefix: prefix.map(Into::into), max_age_seconds, ..ListRuns::default() };
            list.filter(Timestamp::from_millis(0x019a_93b1_c2d4))
        };
        let shown = |filter: RunFilter| filter.ids.map(|(first, last)| format!("{first} {last}"));
        assert_eq!(
            shown(list(Some("r_019a9"), None)).as_deref(),
            Some("r_019a9000000000000000000000000000 r_019a9fffffffffffffffffffffffffff")
        );
        assert_eq!(
            shown(list(None, Some(1))).as_deref(),
            Some("r_019a93b1beec00000000000000000000 r_ffffffffffffffffffffffffffffffff")
        );
        // Both: the narrower ends.
        assert_eq!(
            shown(list(Some("r_019a93b1"), Some(1))).as_deref(),
            Some("r_019a93b1beec00000000000000000000 r_019a93b1ffffffffffffffffffffffff")
        );
        let batches = list(Some("b_01"), None);
        assert_eq!(batches.ids, None);
        assert!(batches.batches.is_some_and(|(first, _)| first.to_string().starts_with("b_0100")));
        assert_eq!(list(None, None), RunFilter { limit: 50, ..RunFilter::default() });
        assert!(list(None, Some(u64::MAX)).ids.is_some_and(|(first, _)| first == RunId::from_bytes([0; 16])));
    }
}
