//! Runs and batches as things that an MCP call waits for.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use drawloom_contract::{record::Status, time::Instant};
use drawloom_wire::{
    batches::BatchResult,
    runs::{MAX_WAIT_MS, RunResult},
};
use rmcp::{
    ErrorData,
    model::{CallToolResult, DetailedTask, InputRequests, InputResponses, Task, TaskPayload, TaskStatus},
};

use crate::{
    activity,
    app::App,
    goals::Stand,
    handle::{Handle, Target, batch_result, run_result},
    lean,
    mcp::{
        offered::{refused, structured},
        table::{Outcome, Pending, Progress, Terms},
    },
};

/// How soon to look at a task again.
const POLL_INTERVAL_MS: u64 = 1_000;

/// What a call waits for, and on which terms.
pub(super) struct Waited {
    app: Arc<App>,
    handle: Handle,
    terms: Terms,
    /// When the caller's own wait is over.
    until: Option<Instant>,
}

/// Rows as callers see them.
enum Shown {
    Run(Box<RunResult>),
    Batch(BatchResult),
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
        let how = handle.how();
        let terms = Terms {
            belongs_to_call,
            cancel_when_gone: how.cancel_on_disconnect,
            until: how.wait_ms.map(|millis| app.clock.wall().after(Duration::from_millis(millis))),
            result_bytes: how.result_bytes,
        };
        let detached = handle.is_detached();
        let mut waited = Self::new(app, handle, terms);
        if detached { Outcome::Done(waited.so_far().await) } else { Outcome::Pending(Box::new(waited)) }
    }

    pub(super) fn new(app: &Arc<App>, handle: Handle, terms: Terms) -> Self {
        let until = until(app, &terms);
        Self { app: app.clone(), handle, terms, until }
    }

    /// Reads the rows again; the last ones are shown when that fails.
    async fn look(&mut self) {
        if let Err(error) = self.handle.refresh(&self.app).await {
            tracing::debug!(%error, "rows could not be read; the last ones are shown");
        }
    }

    /// The answer as the rows say it.
    fn result(&self) -> impl Future<Output = CallToolResult> + Send + use<> {
        let (app, caller, most) = (self.app.clone(), self.handle.caller().clone(), self.terms.result_bytes);
        let answer = match self.handle.target() {
            Target::Batch(batch, _) => Shown::Batch(batch_result(&app, *batch, self.handle.views(), most)),
            Target::Run(run) => Shown::Run(Box::new(run_result(&app, &run.view, most))),
        };
        let belongs_to_call = self.terms.belongs_to_call;
        async move {
            match answer {
                Shown::Batch(result) => structured(lean::batch(&app, &caller, result).await),
                Shown::Run(result) => {
                    let failed = result.status.is_terminal() && result.status != Status::Completed;
                    let mut answer = structured(lean::run(&app, &caller, *result).await);
                    answer.is_error = Some(failed && belongs_to_call);
                    answer
                }
            }
        }
    }

    /// The answer: a goal's own, or as the rows say it.
    fn told(&self) -> impl Future<Output = CallToolResult> + Send + use<> {
        let (app, caller) = (self.app.clone(), self.handle.caller().clone());
        let (goal, usual) = (self.handle.goal(), self.result());
        async move {
            match goal {
                Some(run) => match app.goals.result_of(&app, &caller, run).await {
                    Ok(result) => structured(lean::goal(&result)),
                    Err(failure) => refused(&app, &failure, &[]),
                },
                None => usual.await,
            }
        }
    }

    /// Where a goal stands; nothing for other runs.
    fn stand_of_goal(&self) -> impl Future<Output = Option<Stand>> + Send + use<> {
        let (app, caller, goal) = (self.app.clone(), self.handle.caller().clone(), self.handle.goal());
        async move {
            match app.goals.stand(&app, &caller, goal?).await {
                Ok(stand) => Some(stand),
                Err(error) => {
                    tracing::debug!(%error, "a goal could not be read; its row is shown");
                    None
                }
            }
        }
    }

    fn words(&self) -> String {
        match self.handle.target() {
            Target::Run(run) => {
                let view = &run.view;
                let does =
                    if view.status.is_terminal() { String::new() } else { activity::in_words(&self.app, view.run) };
                format!("run {} is {}, {} records{does}", view.run, view.status.as_str(), view.seq)
            }
            Target::Batch(_, runs) => format!(
                "{} of {} done, {} running, {} queued",
                self.count(Status::is_terminal),
                runs.len(),
                self.count(|status| matches!(status, Status::Running | Status::Waiting)),
                self.count(|status| status == Status::Queued)
            ),
        }
    }

    fn count(&self, wanted: impl Fn(Status) -> bool) -> usize {
        self.handle.views().filter(|view| wanted(view.status)).count()
    }
}

#[async_trait]
impl Pending for Waited {
    fn id(&self) -> String {
        match self.handle.target() {
            Target::Run(run) => run.view.run.to_string(),
            Target::Batch(batch, _) => batch.to_string(),
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
            waited = self.handle.ended(&app) => Some(waited),
            () = app.clock.sleep_until(limit) => None,
        };
        match waited {
            Some(Ok(())) => Some(Ok(self.told().await)),
            Some(Err(failure)) => Some(Ok(refused(&self.app, &failure, &[]))),
            None if self.until.is_some_and(|own| app.clock.now() >= own) => Some(Ok(self.so_far().await)),
            None => None,
        }
    }

    async fn progress(&mut self) -> Progress {
        self.look().await;
        if let Some(Stand { events, message, .. }) = self.stand_of_goal().await {
            return Progress { done: u32::try_from(events).unwrap_or(u32::MAX), total: None, message };
        }
        let whole = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let total = match self.handle.target() {
            Target::Run(_) => None,
            Target::Batch(_, runs) => Some(whole(runs.len())),
        };
        Progress { done: whole(self.count(Status::is_terminal)), total, message: self.words() }
    }

    async fn so_far(&mut self) -> CallToolResult {
        self.look().await;
        self.told().await
    }

    async fn task(&mut self) -> Result<DetailedTask, ErrorData> {
        self.look().await;
        let (accepted, ended, cancelled) = {
            let mut views = self.handle.views();
            let accepted = views.clone().map(|view| view.accepted_at).min();
            let ended = views.clone().filter_map(|view| view.ended_at).max();
            (accepted, ended, accepted.is_some() && views.all(|view| view.status == Status::Cancelled))
        };
        let now = self.app.clock.wall();
        let stand = self.stand_of_goal().await;
        let payload = match self.handle.has_ended() {
            // Answers come through `orchestrate_resume`, as on every surface, so there is no request of the protocol to answer.
            false if stand.as_ref().is_some_and(|stand| stand.needs_input) => {
                TaskPayload::InputRequired { input_requests: InputRequests::new() }
            }
            false => TaskPayload::Working,
            true if cancelled => TaskPayload::Cancelled,
            true => {
                let value = serde_json::to_value(self.told().await).expect("results have only text keys");
                let serde_json::Value::Object(result) = value else { unreachable!("a result is an object") };
                TaskPayload::Completed { result }
            }
        };
        let message = stand.map_or_else(|| self.words(), |stand| stand.message);
        let updated = if self.handle.has_ended() { ended.unwrap_or(now) } else { now };
        let created = accepted.unwrap_or(now).to_rfc3339();
        let task = Task::new(self.id(), TaskStatus::Working, created, updated.to_rfc3339())
            .with_status_message(message)
            .with_poll_interval_ms(POLL_INTERVAL_MS);
        Ok(DetailedTask::new(task, payload))
    }

    async fn cancel(&mut self, reason: Option<String>) -> Result<(), ErrorData> {
        let cancelled = self.handle.cancel(&self.app, reason).await;
        cancelled.map_err(|failure| ErrorData::internal_error(failure.message, None))
    }

    async fn answer(&mut self, responses: InputResponses) -> Result<(), ErrorData> {
        match responses.keys().next() {
            None => Ok(()),
            Some(key) => Err(ErrorData::invalid_params(format!("{} asked nothing called {key}", self.id()), None)),
        }
    }
}
