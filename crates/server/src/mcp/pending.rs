//! Runs and batches as things that an MCP call waits for.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use drawloom_contract::{
    caller::Caller,
    failure::Failure,
    ids::{BatchId, RunId},
    record::Status,
    runs::{Item, Live},
    time::Instant,
    view::RunView,
};
use drawloom_wire::runs::{BatchResult, How, MAX_WAIT_MS, Mode, RunResult};
use futures::StreamExt;
use rmcp::{
    ErrorData,
    model::{CallToolResult, DetailedTask, InputResponses, Task, TaskPayload, TaskStatus},
};

use crate::{
    app::App,
    handle::{BatchHandle, Handle, RunHandle, batch_result, run_result},
    mcp::{
        offered::{refused, structured},
        table::{Outcome, Pending, Progress, Terms},
    },
};

/// How long the next wait should be, as we advise it: under what most clients bear.
const ADVISED_WAIT_MS: u64 = 45_000;
/// How soon to look at a task again.
const POLL_INTERVAL_MS: u64 = 1_000;

/// What a call waits for: one run or the runs of a batch.
pub(super) struct Waited {
    app: Arc<App>,
    caller: Caller,
    batch: Option<BatchId>,
    runs: Vec<(Arc<RunView>, Option<Live>)>,
    terms: Terms,
    /// When the caller's own wait is over.
    until: Option<Instant>,
}

/// When a wait is over in this process that the terms end at a time of the wall clock. It is never longer than a wait may
/// be, whatever became of that clock.
fn until(app: &App, terms: &Terms) -> Option<Instant> {
    let left = terms.until?.since(app.clock.wall()).min(Duration::from_millis(MAX_WAIT_MS));
    Some(app.clock.now().after(left))
}

impl Waited {
    /// What `handle` means for a call; a caller who detaches gets it as it stands.
    pub(super) async fn outcome(app: &Arc<App>, handle: Handle, belongs_to_call: bool) -> Outcome {
        let terms = |how: &How| Terms {
            belongs_to_call,
            cancel_when_gone: how.cancel_on_disconnect,
            until: how.wait_ms.map(|millis| app.clock.wall().after(Duration::from_millis(millis))),
            result_bytes: how.result_bytes,
        };
        let (detached, mut waited) = match handle {
            Handle::Run(run) => {
                let RunHandle { caller, view, live, how, .. } = *run;
                let (runs, terms) = (vec![(view, live)], terms(&how));
                let until = until(app, &terms);
                let waited = Self { app: app.clone(), caller, batch: None, runs, terms, until };
                (how.mode == Some(Mode::Detach), waited)
            }
            Handle::Batch(BatchHandle { caller, batch, runs, how }) => {
                let runs = runs.into_iter().map(|started| (started.view, started.live)).collect();
                let terms = terms(&how);
                let until = until(app, &terms);
                let waited = Self { app: app.clone(), caller, batch: Some(batch), runs, terms, until };
                (how.mode == Some(Mode::Detach), waited)
            }
        };
        if detached { Outcome::Done(waited.so_far().await) } else { Outcome::Pending(Box::new(waited)) }
    }

    /// A run or a batch that a task's id names.
    pub(super) fn found(
        app: &Arc<App>,
        caller: &Caller,
        batch: Option<BatchId>,
        views: Vec<RunView>,
        terms: Terms,
    ) -> Self {
        let runs = views.into_iter().map(|view| (Arc::new(view), None)).collect();
        let until = until(app, &terms);
        Self { app: app.clone(), caller: caller.clone(), batch, runs, terms, until }
    }

    fn ended(&self) -> bool {
        self.runs.iter().all(|(view, _)| view.status.is_terminal())
    }

    /// Every row at its end, one after the other: the last to end decides.
    async fn all_ended(&mut self) -> Result<(), Failure> {
        for (view, live) in &mut self.runs {
            while !view.status.is_terminal() {
                match live {
                    Some(items) => match items.next().await {
                        Some(Ok(Item::Ended(row))) => *view = row,
                        Some(Ok(_)) => {}
                        Some(Err(_)) | None => *live = None,
                    },
                    None => *view = self.app.runs.wait(&self.caller, view.run, None).await?,
                }
            }
        }
        Ok(())
    }

    /// The rows as they are now.
    async fn look(&mut self) {
        let now = match (self.batch, self.runs.first()) {
            (Some(batch), _) => self.app.runs.load_batch(&self.caller, batch).await,
            (None, Some((view, _))) => self.app.runs.load(&self.caller, view.run).await.map(|view| vec![view]),
            (None, None) => return,
        };
        match now {
            Ok(rows) => {
                for ((view, _), row) in self.runs.iter_mut().zip(rows) {
                    *view = Arc::new(row);
                }
            }
            Err(failure) => tracing::debug!(error = %failure, "rows could not be looked at; the last ones are shown"),
        }
    }

    fn result(&self) -> CallToolResult {
        match self.batch {
            Some(batch) => structured(&self.batch_result(batch)),
            None => {
                let Some((view, _)) = self.runs.first() else { return CallToolResult::success(Vec::new()) };
                let mut result = run_result(&self.app, view, self.terms.result_bytes);
                advise_run(&mut result);
                let failed = view.status.is_terminal() && view.status != Status::Completed;
                let mut answer = structured(&result);
                answer.is_error = Some(failed && self.terms.belongs_to_call);
                answer
            }
        }
    }

    fn batch_result(&self, batch: BatchId) -> BatchResult {
        let views = self.runs.iter().map(|(view, _)| &**view);
        let mut result = batch_result(&self.app, batch, views, None, self.terms.result_bytes);
        if !self.ended() {
            result.hint = Some(format!(
                "the batch goes on; call get_batch with batch_id {batch} and wait_ms {ADVISED_WAIT_MS} to wait for it"
            ));
        } else if result.results.iter().any(|result| result.artifact.is_some()) {
            result.hint = Some("texts with an artifact are long; read_artifact gives them in parts".into());
        }
        result
    }

    fn words(&self) -> String {
        let count = |wanted: &[Status]| self.runs.iter().filter(|(view, _)| wanted.contains(&view.status)).count();
        match (self.batch, self.runs.first()) {
            (Some(_), _) => format!(
                "{} of {} done, {} running, {} queued",
                self.runs.iter().filter(|(view, _)| view.status.is_terminal()).count(),
                self.runs.len(),
                count(&[Status::Running, Status::Waiting]),
                count(&[Status::Queued])
            ),
            (None, Some((view, _))) => {
                format!("run {} is {}, {} records", view.run, view.status.as_str(), view.seq)
            }
            (None, None) => String::new(),
        }
    }
}

/// Tells how to go on with a run that is not done, or whose text is elsewhere.
pub(super) fn advise_run(result: &mut RunResult) {
    if !result.status.is_terminal() {
        result.hint = Some(format!(
            "the run goes on; call get_run with run_id {} and wait_ms {ADVISED_WAIT_MS} to wait for it",
            result.run_id
        ));
    } else if result.artifact.is_some() {
        result.hint = Some("the text is long; read_artifact gives it in parts".into());
    }
}

#[async_trait]
impl Pending for Waited {
    fn id(&self) -> String {
        match (self.batch, self.runs.first()) {
            (Some(batch), _) => batch.to_string(),
            (None, Some((view, _))) => view.run.to_string(),
            (None, None) => String::new(),
        }
    }

    fn terms(&self) -> Terms {
        self.terms.clone()
    }

    async fn wait(&mut self, until: Instant) -> Option<Result<CallToolResult, ErrorData>> {
        let app = self.app.clone();
        let limit = self.until.map_or(until, |own| own.min(until));
        let waited = tokio::select! {
            biased;
            waited = self.all_ended() => Some(waited),
            () = app.clock.sleep_until(limit) => None,
        };
        match waited {
            Some(Ok(())) => Some(Ok(self.result())),
            Some(Err(failure)) => Some(Ok(refused(&self.app, &failure, &[]))),
            None if self.until.is_some_and(|own| app.clock.now() >= own) => Some(Ok(self.so_far().await)),
            None => None,
        }
    }

    async fn progress(&mut self) -> Progress {
        self.look().await;
        let ended = self.runs.iter().filter(|(view, _)| view.status.is_terminal()).count();
        let whole = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        Progress { done: whole(ended), total: self.batch.map(|_| whole(self.runs.len())), message: self.words() }
    }

    async fn so_far(&mut self) -> CallToolResult {
        self.look().await;
        self.result()
    }

    async fn task(&mut self) -> Result<DetailedTask, ErrorData> {
        self.look().await;
        let accepted = self.runs.iter().map(|(view, _)| view.accepted_at).min();
        let ended = self.runs.iter().filter_map(|(view, _)| view.ended_at).max();
        let cancelled = !self.runs.is_empty() && self.runs.iter().all(|(view, _)| view.status == Status::Cancelled);
        let now = self.app.clock.wall();
        let payload = match self.ended() {
            false => TaskPayload::Working,
            true if cancelled => TaskPayload::Cancelled,
            true => {
                let value = serde_json::to_value(self.result()).expect("results have only text keys");
                let serde_json::Value::Object(result) = value else { unreachable!("a result is an object") };
                TaskPayload::Completed { result }
            }
        };
        let updated = if self.ended() { ended.unwrap_or(now) } else { now };
        let created = accepted.unwrap_or(now).to_rfc3339();
        let task = Task::new(self.id(), TaskStatus::Working, created, updated.to_rfc3339())
            .with_status_message(self.words())
            .with_poll_interval_ms(POLL_INTERVAL_MS);
        Ok(DetailedTask::new(task, payload))
    }

    async fn cancel(&mut self, reason: Option<String>) -> Result<(), ErrorData> {
        let runs: Vec<RunId> = self.runs.iter().map(|(view, _)| view.run).collect();
        let mut failed = None;
        for run in runs {
            failed = failed.or(self.app.runs.cancel(&self.caller, run, reason.clone()).await.err());
        }
        failed.map_or(Ok(()), |failure| Err(ErrorData::internal_error(failure.message, None)))
    }

    async fn answer(&mut self, responses: InputResponses) -> Result<(), ErrorData> {
        match responses.keys().next() {
            None => Ok(()),
            Some(key) => Err(ErrorData::invalid_params(format!("{} asked nothing called {key}", self.id()), None)),
        }
    }
}
