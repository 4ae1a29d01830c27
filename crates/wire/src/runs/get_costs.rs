//! `get_costs`: what runs cost, by agent, model, user or day.

pub use drawloom_contract::costs::CostBy;
use drawloom_contract::{
    costs::{CostGroup, CostQuery},
    ids::UserId,
    time::Timestamp,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    request::{Changes, Request, Route},
    runs::Amount,
};

/// What a report says of runs that are gone.
const NOTE: &str = "runs that were deleted or pruned are not counted";

/// Sums up what runs cost. Each run counts alone, without its child runs, which count too.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetCosts {
    /// What the runs are grouped by: `agent` (default), `model`, `user` or `day`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<CostBy>,
    /// Only runs accepted within this many seconds. Defaults to all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_age_seconds: Option<u64>,
    /// Only of this user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<UserId>,
    /// With `day`: where days begin, in minutes east of UTC. Defaults to 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -1_560, max = 1_560))]
    pub utc_offset_minutes: Option<i32>,
}

/// What runs cost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CostReport {
    /// What the runs are grouped by.
    pub by: CostBy,
    /// Only runs accepted at this time or later (RFC 3339, UTC).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// The groups, the most expensive first; days with the newest first.
    pub groups: Vec<Costs>,
    /// The sums over all groups; its name is `total`.
    pub total: Costs,
    /// The currency of the costs, as the config names it.
    pub currency: String,
    /// When the oldest run that counts was accepted (RFC 3339, UTC). Absent if no run counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_run_at: Option<String>,
    /// What the sums leave out: runs that were deleted.
    pub note: String,
}

/// What the runs of a group cost.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Costs {
    /// The agent, the model with its provider, the user, or the day.
    pub name: String,
    /// Number of runs.
    pub runs: u64,
    /// Input and output tokens.
    pub tokens: u64,
    /// Their cost. Absent if no model of the group has a known price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Amount>,
    /// The estimated part of `cost`. Absent if all usage is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assumed_cost: Option<Amount>,
}

impl Request for GetCosts {
    const NAME: &'static str = "get_costs";
    const ROUTES: &'static [Route] = &[Route::get("/v1/costs")];
    const CHANGES: Changes = Changes::Nothing;
    type Output = CostReport;
}

impl GetCosts {
    /// The question to the store. Ages count back from `now`.
    pub fn query(self, now: Timestamp) -> CostQuery {
        let since = self.max_age_seconds.map(|seconds| {
            let millis = i64::try_from(seconds.saturating_mul(1_000)).unwrap_or(i64::MAX);
            Timestamp::from_millis(now.as_millis().saturating_sub(millis).max(0))
        });
        CostQuery {
            by: self.by.unwrap_or_default(),
            user: self.user_id,
            since,
            utc_offset_minutes: self.utc_offset_minutes.unwrap_or_default(),
        }
    }
}

impl CostReport {
    /// The report on these groups.
    pub fn of(query: &CostQuery, groups: Vec<CostGroup>, currency: String) -> Self {
        let oldest_run_at = groups.iter().map(|group| group.first).min().map(Timestamp::to_rfc3339);
        let groups: Vec<Costs> = groups.into_iter().map(Costs::from).collect();
        let add = |one: Option<Amount>, other: Option<Amount>| match (one, other) {
            (Some(one), Some(other)) => Some(Amount(one.0 + other.0)),
            (one, other) => one.or(other),
        };
        let total = groups.iter().fold(Costs { name: "total".into(), ..Costs::default() }, |sum, group| Costs {
            name: sum.name,
            runs: sum.runs + group.runs,
            tokens: sum.tokens.saturating_add(group.tokens),
            cost: add(sum.cost, group.cost),
            assumed_cost: add(sum.assumed_cost, group.assumed_cost),
        });
        let since = query.since.map(Timestamp::to_rfc3339);
        Self { by: query.by, since, groups, total, currency, oldest_run_at, note: NOTE.into() }
    }
}

impl From<CostGroup> for Costs {
    fn from(group: CostGroup) -> Self {
        let CostGroup { name, runs, tokens, cost, assumed, first: _ } = group;
        Self { name, runs, tokens, cost: cost.map(Amount), assumed_cost: assumed.map(Amount) }
    }
}
