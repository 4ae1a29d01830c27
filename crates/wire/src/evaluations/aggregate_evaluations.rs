//! `aggregate_evaluations`: statistics of a definition, or of every definition of an agent.

use std::collections::BTreeMap;

use drawloom_contract::ids::AgentName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::request::{Changes, Request, Route};

/// Statistics of the evaluations of a definition, or of every definition that an agent has had.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AggregateEvaluations {
    /// The definition: its digest, `name@version`, or the name of an agent for its current one. Give this or `agent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 200), regex(pattern = r"^[A-Za-z0-9_./@-]*$"))]
    pub def_id: Option<String>,
    /// The agent, for all of its definitions that were evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentName>,
    /// Include the definitions that it was made from; only with `def_id`.
    #[serde(default)]
    pub include_lineage: bool,
}

/// Statistics of evaluations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EvaluationStats {
    /// The definition, if it was asked for: its content hash, or `name@version` when none of its runs was evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub def_id: Option<String>,
    /// The agent, if it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentName>,
    /// How many evaluations.
    pub count: u64,
    /// Of the overall scores; absent when there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<ScoreStats>,
    /// Of each dimension.
    pub dimensions: BTreeMap<String, ScoreStats>,
    /// Of the overall scores by who submitted them.
    pub by_emitter_role: BTreeMap<String, ScoreStats>,
    /// Whether definitions that it was made from are included.
    pub lineage_included: bool,
    /// The same by definition: the one that was asked for and then its parents, or all of the agent, newest first.
    pub versions: Vec<VersionStats>,
    /// What the caller should know, such as that others' runs are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Statistics of the evaluations of one definition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VersionStats {
    /// Its content hash; `name@version` when none of its runs was evaluated.
    pub def_id: String,
    /// Its name as a version, such as `reviewer@3`; `reviewer@config` for a parent from the config.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The version that it was made from, such as `reviewer@2` or `reviewer@config`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Its agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentName>,
    /// Whether what was asked for was made from it.
    pub is_parent: bool,
    /// How many evaluations.
    pub count: u64,
    /// Of the overall scores; absent when there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<ScoreStats>,
    /// Of each dimension.
    pub dimensions: BTreeMap<String, ScoreStats>,
    /// When the first of them was submitted (RFC 3339, UTC).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_at: Option<String>,
    /// When the last of them was submitted (RFC 3339, UTC).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latest_at: Option<String>,
}

/// Statistics of some scores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScoreStats {
    /// How many.
    pub count: u64,
    /// Their mean.
    pub mean: f64,
    /// Their median.
    pub median: f64,
    /// The lowest.
    pub min: f64,
    /// The highest.
    pub max: f64,
    /// The newest.
    pub latest: f64,
    /// The newest 32, oldest first.
    pub recent: Vec<f64>,
}

impl Request for AggregateEvaluations {
    const NAME: &'static str = "aggregate_evaluations";
    const ROUTES: &'static [Route] = &[Route::get("/v1/evaluations:aggregate")];
    const CHANGES: Changes = Changes::Nothing;
    type Output = EvaluationStats;
}
