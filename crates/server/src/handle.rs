//! Handles: waiting for what was started, following it, and letting go of it. Written once, for every surface.

mod guard;
mod wait;

use std::{collections::BTreeMap, sync::Arc};

use drawloom_contract::{
    caller::Caller,
    ids::{BatchId, RunId, RunKey},
    record::{Seq, Status},
    runs::{Live, Started},
    usage::Usage,
    view::RunView,
};
use drawloom_wire::runs::{Amount, BatchResult, BatchStatus, How, RunResult, Spawned, SpawnedBatch, fit};

pub(crate) use guard::CancelGuard;

use crate::app::App;

/// A durable thing that a caller can wait for, follow or cancel.
pub enum Handle {
    /// A run.
    Run(Box<RunHandle>),
    /// A batch.
    Batch(BatchHandle),
}

/// A run that a caller asked for.
pub struct RunHandle {
    /// Who asked.
    pub caller: Caller,
    /// The run, as last seen.
    pub view: Arc<RunView>,
    /// What happens to it, when it is already listened to.
    pub live: Option<Live>,
    /// How the caller wants to wait.
    pub how: How,
    /// Where the stream begins.
    pub from: From,
}

/// Where a stream begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// With the run itself, greeting included.
    Start,
    /// After this record; 0 is the beginning.
    After(Seq),
}

/// A batch that a caller asked for.
pub struct BatchHandle {
    /// Who asked.
    pub caller: Caller,
    /// The batch.
    pub batch: BatchId,
    /// Its runs, by index.
    pub runs: Vec<Started>,
    /// How the caller wants to wait.
    pub how: How,
}

impl RunHandle {
    /// The ids, for a caller who does not wait.
    pub fn spawned(&self, app: &App) -> Spawned {
        Spawned::of(&self.view, position(app, &self.view))
    }

    /// The result, once the run ended or the wait is over. What cut a wait short is in the result's `warnings`.
    /// A caller who goes away before the wait begins is noticed too.
    pub fn result(self, app: Arc<App>) -> impl Future<Output = RunResult> {
        let mut guard = CancelGuard::new(&app, &self.caller, &self.how, vec![self.view.run]);
        async move {
            let until = wait::until(&app, &self.how);
            let (view, cut_short) = wait::run(&app, &self.caller, self.view, self.live, until).await;
            guard.disarm();
            let mut result = run_result(&app, &view, self.how.result_bytes);
            result.warnings.extend(cut_short);
            result
        }
    }
}

impl BatchHandle {
    /// The ids, for a caller who does not wait.
    pub fn spawned(&self, app: &App) -> SpawnedBatch {
        let positions = positions(app, self.runs.iter().map(|started| &*started.view));
        let runs: Vec<Spawned> = self
            .runs
            .iter()
            .map(|started| Spawned::of(&started.view, positions.get(&started.view.run).copied()))
            .collect();
        SpawnedBatch {
            batch_id: self.batch,
            status: BatchStatus::of(runs.iter().map(|run| run.status)),
            spawned: count(runs.len()),
            results: runs,
        }
    }

    /// The results by index, once all runs ended or the wait is over.
    pub fn result(self, app: Arc<App>) -> impl Future<Output = BatchResult> {
        let runs = self.runs.iter().map(|started| started.view.run).collect();
        let mut guard = CancelGuard::new(&app, &self.caller, &self.how, runs);
        async move {
            let until = wait::until(&app, &self.how);
            let (views, cut_short) = wait::batch(&app, &self.caller, self.batch, self.runs, until).await;
            guard.disarm();
            batch_result(&app, self.batch, views.iter().map(|view| &**view), cut_short, self.how.result_bytes)
        }
    }

    /// The results by index, ended or not.
    pub fn as_it_stands(&self, app: &App) -> BatchResult {
        batch_result(app, self.batch, self.runs.iter().map(|started| &*started.view), None, self.how.result_bytes)
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

pub(crate) fn batch_result<'a>(
    app: &App,
    batch_id: BatchId,
    views: impl Iterator<Item = &'a RunView> + Clone,
    cut_short: Option<String>,
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
        warnings: cut_short.into_iter().collect(),
        hint: None,
    }
}

/// A run's place in the queue, asked only when it can have one.
pub(crate) fn position(app: &App, view: &RunView) -> Option<u64> {
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
