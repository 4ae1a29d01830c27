//! `prune_runs`: removes runs that ended long ago.

use drawloom_contract::{retention::Pruned, time::Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::request::{Changes, Request, Route};

/// Removes whole trees of runs that ended long ago. What is unfinished always stays, and so does what shares a session or
/// a batch with something that stays.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PruneRuns {
    /// Only trees whose root ended at least so many seconds ago.
    #[schemars(range(max = 3_153_600_000_u64))]
    pub older_than_seconds: u64,
    /// Only says what would go.
    #[serde(default)]
    pub dry_run: bool,
    /// Of all tenants, which needs the scope `substrate:admin`; else of the caller's.
    #[serde(default)]
    pub all_tenants: bool,
    /// Your key of this request: the same key and body gets the first answer again, another body is a conflict. Also the header
    /// `Idempotency-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub idempotency_key: Option<String>,
}

/// What went, or would go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PruneReport {
    /// Whether nothing was removed, because that was asked.
    pub dry_run: bool,
    /// What ended before this (RFC 3339, UTC) was looked at.
    pub ended_before: String,
    /// Roots, each with all runs below it.
    pub trees: u64,
    /// Runs, roots included.
    pub runs: u64,
    /// Records of their journals.
    pub records: u64,
    /// Large values that nothing else referred to; 0 when nothing was removed.
    pub blobs: u64,
}

impl Request for PruneRuns {
    const NAME: &'static str = "prune_runs";
    const ROUTES: &'static [Route] = &[Route::post("/v1/runs:prune")];
    const CHANGES: Changes = Changes::Once;
    type Output = PruneReport;
}

impl PruneReport {
    /// What the store did, as callers see it.
    pub fn of(pruned: &Pruned, ended_before: Timestamp, dry_run: bool) -> Self {
        let Pruned { trees, runs, records, blobs } = *pruned;
        Self { dry_run, ended_before: ended_before.to_rfc3339(), trees, runs, records, blobs }
    }
}
