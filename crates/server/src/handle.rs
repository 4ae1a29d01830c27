//! Handles: waiting for what was started, following it, and letting go of it. Written once, for every surface.

mod guard;
mod results;

use std::{sync::Arc, time::Duration};

use drawloom_contract::{
    caller::Caller,
    failure::Failure,
    ids::{BatchId, RunId},
    record::{Seq, Status},
    runs::{Item, Started},
    time::Instant,
    view::RunView,
};
use drawloom_wire::{
    batches::{BatchResult, SpawnedBatch},
    goals::GoalResult,
    runs::{How, Mode, RunResult, Spawned},
};
use futures::StreamExt;
use serde::Serialize;

pub(crate) use guard::CancelGuard;
pub(crate) use results::{batch_result, positions, run_result};

use crate::app::App;

/// Something durable that a caller can wait for, follow or cancel.
pub struct Handle {
    caller: Caller,
    target: Target,
    how: How,
    from: From,
    shape: Shape,
}

/// What the result is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// As runs and batches have it.
    Usual,
    /// That of a goal; the wait for it is also over when it asks something.
    Goal,
}

/// What a handle stands for.
pub(crate) enum Target {
    Run(Started),
    Batch(BatchId, Vec<Started>),
}

/// Where a stream begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// With the run itself, greeting included.
    Start,
    /// After this record; 0 is the beginning.
    After(Seq),
}

/// A run whose events are streamed.
pub(crate) struct Followed {
    pub(crate) caller: Caller,
    pub(crate) run: Started,
    pub(crate) how: How,
    pub(crate) from: From,
}

/// What a caller gets for a handle.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum HandleAnswer {
    /// The ids of a run, for a caller who does not wait.
    Spawned(Spawned),
    /// The ids of a batch, for a caller who does not wait.
    SpawnedBatch(SpawnedBatch),
    /// A run that ended, or whose wait is over.
    Run(Box<RunResult>),
    /// A batch that ended, or whose wait is over.
    Batch(BatchResult),
    /// A goal that ended or asks something, or whose wait is over.
    Goal(Box<GoalResult>),
}

impl Target {
    fn runs(&self) -> &[Started] {
        match self {
            Self::Run(run) => std::slice::from_ref(run),
            Self::Batch(_, runs) => runs,
        }
    }

    fn runs_mut(&mut self) -> &mut [Started] {
        match self {
            Self::Run(run) => std::slice::from_mut(run),
            Self::Batch(_, runs) => runs,
        }
    }
}

impl Handle {
    /// A run.
    pub fn run(caller: Caller, run: Started, how: How) -> Self {
        Self { caller, target: Target::Run(run), how, from: From::After(0), shape: Shape::Usual }
    }

    /// A run that is a goal.
    pub(crate) fn of_goal(caller: Caller, run: Started, how: How) -> Self {
        Self { shape: Shape::Goal, ..Self::run(caller, run, how) }
    }

    /// A batch, with its runs by index.
    pub fn batch(caller: Caller, batch: BatchId, runs: Vec<Started>, how: How) -> Self {
        Self { caller, target: Target::Batch(batch, runs), how, from: From::After(0), shape: Shape::Usual }
    }

    /// Where a stream of the run's events begins.
    #[must_use]
    pub fn streamed_from(self, from: From) -> Self {
        Self { from, ..self }
    }

    /// What a stream needs; the handle itself, when it has no stream: batches, and callers who do not wait.
    pub(crate) fn into_followed(self) -> Result<Followed, Box<Self>> {
        match self.target {
            Target::Run(run) if self.how.mode != Some(Mode::Detach) && self.shape == Shape::Usual => {
                Ok(Followed { caller: self.caller, run, how: self.how, from: self.from })
            }
            target => Err(Box::new(Self { target, ..self })),
        }
    }

    /// The run, unless this is a batch.
    pub fn into_run(self) -> Option<Started> {
        match self.target {
            Target::Run(run) => Some(run),
            Target::Batch(..) => None,
        }
    }

    pub(crate) fn caller(&self) -> &Caller {
        &self.caller
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    pub(crate) fn how(&self) -> &How {
        &self.how
    }

    /// The rows as last seen.
    pub(crate) fn views(&self) -> impl Iterator<Item = &RunView> + Clone {
        self.target.runs().iter().map(|started| &*started.view)
    }

    fn run_ids(&self) -> Vec<RunId> {
        self.views().map(|view| view.run).collect()
    }

    /// Whether the caller does not wait.
    pub(crate) fn is_detached(&self) -> bool {
        self.how.mode == Some(Mode::Detach)
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.views().all(|view| view.status.is_terminal())
    }

    /// The answer: the ids at once for a caller who detached; else the result, once everything ended or the wait is over. What
    /// cut a wait short is in the result's `warnings`. A caller who goes away before the wait begins is noticed too.
    pub fn answer(mut self, app: Arc<App>) -> impl Future<Output = HandleAnswer> {
        let detached = self.is_detached();
        let runs = if self.how.cancel_on_disconnect { self.run_ids() } else { Vec::new() };
        let mut guard = (!detached).then(|| CancelGuard::new(&app, &self.caller, &self.how, runs));
        async move {
            if detached {
                return self.accepted(&app);
            }
            let cut_short = self.wait(&app).await;
            guard.as_mut().map(CancelGuard::disarm);
            let (goal, caller, usual) = (self.goal(), self.caller.clone(), self.result(&app, cut_short.clone()));
            drop(self);
            match goal {
                Some(run) => match app.goals.result_of(&app, &caller, run).await {
                    Ok(mut result) => {
                        result.warnings.extend(cut_short);
                        HandleAnswer::Goal(Box::new(result))
                    }
                    Err(_) => usual,
                },
                None => usual,
            }
        }
    }

    /// Waits for the end, for as long as the caller wants to. Returns what cut the wait short.
    async fn wait(&mut self, app: &App) -> Option<String> {
        let until = self.how.wait_ms.map(|millis| app.clock.now().after(Duration::from_millis(millis)));
        let cut_short = match bounded(app, until, self.ended(app)).await {
            Some(Ok(())) => return None,
            Some(Err(failure)) => Some(broken(&failure)),
            // A caller's own `wait_ms` needs no warning.
            None => app
                .stopping
                .is_cancelled()
                .then(|| "the server shut down before the run ended; it continues after a restart".into()),
        };
        match self.refresh(app).await {
            Ok(()) => cut_short,
            Err(failure) => cut_short.or_else(|| Some(broken(&failure))),
        }
    }

    /// Returns when every run ended. It can be dropped and called again.
    pub(crate) async fn ended(&mut self, app: &App) -> Result<(), Failure> {
        if let (Shape::Goal, Some(run)) = (self.shape, self.run_ids().first()) {
            app.goals.settled(app, &self.caller, *run).await?;
            return self.refresh(app).await;
        }
        loop {
            // One after the other is as good as together: the last to end decides.
            let Self { caller, target, .. } = &mut *self;
            for Started { view, live } in target.runs_mut() {
                while !view.status.is_terminal() {
                    match live {
                        Some(items) => match items.next().await {
                            Some(Ok(Item::Ended(row))) => *view = row,
                            Some(Ok(_)) => {}
                            Some(Err(_)) | None => *live = None,
                        },
                        None => *view = app.runs.wait(caller, view.run, None).await?,
                    }
                }
            }
            // A run of a batch that did not complete may have been retried in its place meanwhile.
            let may_be_retried =
                matches!(self.target, Target::Batch(..)) && self.views().any(|view| view.status != Status::Completed);
            if !may_be_retried {
                return Ok(());
            }
            self.refresh(app).await?;
            if self.has_ended() {
                return Ok(());
            }
        }
    }

    /// Cancels every run. What has ended is left as it is.
    pub(crate) async fn cancel(&mut self, app: &App, reason: Option<String>) -> Result<(), Failure> {
        let mut failed = None;
        for run in self.run_ids() {
            failed = failed.or(app.runs.cancel(&self.caller, run, reason.clone()).await.err());
        }
        failed.map_or(Ok(()), Err)
    }

    /// Reads the rows again.
    pub(crate) async fn refresh(&mut self, app: &App) -> Result<(), Failure> {
        let rows = match &self.target {
            Target::Run(run) => vec![app.runs.load(&self.caller, run.view.run).await?],
            Target::Batch(batch, _) => app.runs.load_batch(&self.caller, *batch).await?,
        };
        for (started, row) in self.target.runs_mut().iter_mut().zip(rows) {
            if started.view.run != row.run {
                started.live = None;
            }
            started.view = Arc::new(row);
        }
        Ok(())
    }

    fn accepted(&self, app: &App) -> HandleAnswer {
        match &self.target {
            Target::Run(run) => HandleAnswer::Spawned(results::spawned(app, &run.view)),
            Target::Batch(batch, _) => HandleAnswer::SpawnedBatch(results::spawned_batch(app, *batch, self.views())),
        }
    }

    /// The goal that it stands for, if it is one.
    pub(crate) fn goal(&self) -> Option<RunId> {
        self.run_ids().first().copied().filter(|_| self.shape == Shape::Goal)
    }

    /// The result as the rows say it.
    fn result(&self, app: &App, cut_short: Option<String>) -> HandleAnswer {
        let most = self.how.result_bytes;
        match &self.target {
            Target::Run(run) => {
                let mut result = run_result(app, &run.view, most);
                result.warnings.extend(cut_short);
                HandleAnswer::Run(Box::new(result))
            }
            Target::Batch(batch, _) => {
                let mut result = batch_result(app, *batch, self.views(), most);
                result.warnings.extend(cut_short);
                HandleAnswer::Batch(result)
            }
        }
    }
}

/// What `work` yields, unless the time is up or the server stops first.
async fn bounded<T>(app: &App, until: Option<Instant>, work: impl Future<Output = T>) -> Option<T> {
    let time_is_up = async {
        match until {
            Some(until) => app.clock.sleep_until(until).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        done = work => Some(done),
        () = time_is_up => None,
        () = app.stopping.cancelled() => None,
    }
}

fn broken(failure: &Failure) -> String {
    format!("the wait was interrupted ({}): {failure}", failure.code)
}
