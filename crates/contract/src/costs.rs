//! What runs cost, in groups.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ids::UserId, money::Cost, time::Timestamp};

/// What runs are grouped by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CostBy {
    /// The agent.
    #[default]
    Agent,
    /// The model, with its provider. A run that changed its model counts for the last one.
    Model,
    /// The user that the run belongs to.
    User,
    /// The day on which the run was accepted.
    Day,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CostQuery {
    pub by: CostBy,
    pub user: Option<UserId>,
    /// Only runs that were accepted at this time or later.
    pub since: Option<Timestamp>,
    /// Where a day begins, in minutes east of UTC.
    pub utc_offset_minutes: i32,
}

/// The sums over the runs of a group. Each run counts alone, without its children.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CostGroup {
    pub name: String,
    pub runs: u64,
    pub tokens: u64,
    /// Absent when no model of the group has a price.
    pub cost: Option<Cost>,
    pub assumed: Option<Cost>,
    /// When the oldest of its runs was accepted.
    pub first: Timestamp,
}
