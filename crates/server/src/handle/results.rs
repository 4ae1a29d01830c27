//! Rows as callers see them.

use std::collections::BTreeMap;

use drawloom_contract::{
    ids::{BatchId, RunId, RunKey},
    record::Status,
    usage::Usage,
    view::RunView,
};
use drawloom_wire::{
    batches::{BatchResult, BatchStatus, SpawnedBatch},
    runs::{Amount, RunResult, Spawned, fit},
};

use crate::app::App;

pub(super) fn spawned(app: &App, view: &RunView) -> Spawned {
    Spawned::of(view, position(app, view))
}

pub(super) fn spawned_batch<'a>(
    app: &App,
    batch_id: BatchId,
    views: impl Iterator<Item = &'a RunView> + Clone,
) -> SpawnedBatch {
    let positions = positions(app, views.clone());
    let runs: Vec<Spawned> = views.map(|view| Spawned::of(view, positions.get(&view.run).copied())).collect();
    SpawnedBatch {
        batch_id,
        status: BatchStatus::of(runs.iter().map(|run| run.status)),
        spawned: count(runs.len()),
        results: runs,
    }
}

/// A run as it stands; a text of more than `most` bytes comes as an artifact.
pub(crate) fn run_result(app: &App, view: &RunView, most: Option<u64>) -> RunResult {
    let mut result = RunResult::of(view, position(app, view));
    if let Some(most) = most {
        fit(std::slice::from_mut(&mut result), most);
    }
    result
}

/// A batch as it stands; texts of more than `most` bytes come as artifacts.
pub(crate) fn batch_result<'a>(
    app: &App,
    batch_id: BatchId,
    views: impl Iterator<Item = &'a RunView> + Clone,
    most: Option<u64>,
) -> BatchResult {
    let positions = positions(app, views.clone());
    let mut results: Vec<RunResult> =
        views.map(|view| RunResult::of(view, positions.get(&view.run).copied())).collect();
    if let Some(most) = most {
        fit(&mut results, most);
    }
    BatchResult {
        batch_id,
        status: BatchStatus::of(results.iter().map(|result| result.status)),
        spawned: count(results.len()),
        usage: results.iter().fold(Usage::default(), |mut sum, result| {
            sum += result.usage;
            sum
        }),
        cost: results.iter().filter_map(|result| result.cost).reduce(|sum, more| Amount(sum.0 + more.0)),
        results,
        warnings: Vec::new(),
        hint: None,
    }
}

/// A run's place in the queue, asked only when it can have one.
fn position(app: &App, view: &RunView) -> Option<u64> {
    (view.status == Status::Queued).then(|| app.runs.positions(&[view.key()]).remove(&view.run))?
}

/// Places in the queue of those runs that can have one.
pub(crate) fn positions<'a>(app: &App, views: impl Iterator<Item = &'a RunView>) -> BTreeMap<RunId, u64> {
    let queued: Vec<RunKey> = views.filter(|view| view.status == Status::Queued).map(RunView::key).collect();
    if queued.is_empty() { BTreeMap::new() } else { app.runs.positions(&queued) }
}

fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
