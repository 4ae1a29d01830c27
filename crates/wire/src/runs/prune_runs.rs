//! `prune_runs`: removes runs that ended long ago.

use drawloom_contract::{
    ids::{AgentName, RunId, RunKey, Tenant},
    record::Status,
    retention::Pruned,
    time::Timestamp,
    view::RunView,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::request::{Changes, Request, Route};

/// Removes whole trees of runs that ended long ago. What is unfinished always stays, and so does what shares a session or
/// a batch with something that stays.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PruneRuns {
    /// Delete top-level runs that ended at least this many seconds ago, with their child runs.
    #[schemars(range(max = 3_153_600_000_u64))]
    pub older_than_seconds: u64,
    /// Keep runs that ended at this time or later (RFC 3339), whatever their age. With `ended_before` of a dry run, exactly what that
    /// counted is deleted, however long the answer to a question took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_before: Option<String>,
    /// Only report what would be deleted.
    #[serde(default)]
    pub dry_run: bool,
    /// Include all tenants; needs the scope `substrate:admin`. Defaults to the caller's tenant.
    #[serde(default)]
    pub all_tenants: bool,
    /// Idempotency key: a request with the same key and body returns the first response again; with another body it fails with a
    /// conflict. Also the header `Idempotency-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub idempotency_key: Option<String>,
}

/// What was deleted, or would be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PruneReport {
    /// Whether this only reports, and nothing was deleted.
    pub dry_run: bool,
    /// Runs that ended before this time (RFC 3339, UTC).
    pub ended_before: String,
    /// Top-level runs.
    pub trees: u64,
    /// All runs, child runs included.
    pub runs: u64,
    /// Journal records.
    pub records: u64,
    /// Large values that were no longer used; 0 if nothing was deleted.
    pub blobs: u64,
    /// With `dry_run`: the first 50 of the top-level runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub top_level: Vec<PrunableRun>,
}

/// A top-level run that would be deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PrunableRun {
    /// The run.
    pub run_id: RunId,
    /// Its tenant, when it is another one than the caller's; then the rest is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Tenant>,
    /// Its agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentName>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// When it ended (RFC 3339, UTC).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
}

impl Request for PruneRuns {
    const NAME: &'static str = "prune_runs";
    const ROUTES: &'static [Route] = &[Route::post("/v1/runs:prune")];
    const CHANGES: Changes = Changes::Once;
    type Output = PruneReport;
}

impl PrunableRun {
    /// A run of another tenant.
    pub fn of_tenant(key: RunKey) -> Self {
        Self { run_id: key.run, tenant: Some(key.tenant), agent: None, status: None, ended_at: None }
    }

    /// A run that the caller sees.
    pub fn of(view: &RunView) -> Self {
        Self {
            run_id: view.run,
            tenant: None,
            agent: Some(view.agent.clone()),
            status: Some(view.status),
            ended_at: view.ended_at.map(Timestamp::to_rfc3339),
        }
    }
}

impl PruneReport {
    /// What the store did, as callers see it.
    pub fn of(pruned: &Pruned, ended_before: Timestamp, dry_run: bool) -> Self {
        let Pruned { trees, runs, records, blobs } = *pruned;
        let ended_before = ended_before.to_rfc3339();
        Self { dry_run, ended_before, trees, runs, records, blobs, top_level: Vec::new() }
    }
}
