//! Waiting for what takes time, in the best form that the caller can take: as a task, with heartbeats, or for as long as it
//! bears and then with a handle.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use drawloom_contract::{
    caller::Scope,
    time::{Instant, Timestamp},
};
use rmcp::{
    ErrorData, RoleServer,
    model::{CallToolResponse, CallToolResult, CreateTaskResult, ErrorCode, ProgressNotificationParam, ProgressToken},
    service::Peer,
};

use crate::{
    app::App,
    mcp::{
        ANSWER_WITHIN, CALL_KEY, PATIENCE,
        calls::{Cancel, is_timeout},
        clients,
        manager::Mark,
        notes::{self, Note, Notes},
        offered::RESULT_BYTES,
        table::{Ask, Pending},
    },
};

/// Until then no word of progress is sent: most calls are over.
const FIRST_BEAT: Duration = Duration::from_secs(2);
/// Longest silence towards a caller who hears of progress.
const BEAT: Duration = Duration::from_secs(5);
/// How long a caller who takes tasks waits for the end itself: what is over by then needs no task.
const TASK_GRACE: Duration = Duration::from_millis(200);
/// How long a call of a session may take before it is noted, so that it can be taken up after a restart.
const NOTE_GRACE: Duration = Duration::from_millis(20);
/// The most letters of a client's name that are noted.
const LONGEST_NAME: usize = 128;
/// How long the reason of a cancel may take after the cancel.
const REASON_GRACE: Duration = Duration::from_secs(1);

/// Whoever hears of progress.
#[async_trait]
pub(super) trait Listener: Send + Sync {
    /// Tells them. They may be gone.
    async fn tell(&self, notice: ProgressNotificationParam);
}

#[async_trait]
impl Listener for Peer<RoleServer> {
    async fn tell(&self, notice: ProgressNotificationParam) {
        if let Err(error) = self.notify_progress(notice).await {
            tracing::debug!(%error, "a progress notification could not be sent");
        }
    }
}

/// Waits for `pending` on behalf of a call.
pub(super) async fn answer(
    ask: &Ask,
    mut pending: Box<dyn Pending>,
    cancel: &Arc<Cancel>,
    began: Instant,
) -> Result<CallToolResponse, ErrorData> {
    let terms = pending.terms();
    // A task is of use only to those who may ask for its end.
    if terms.belongs_to_call && ask.takes_tasks() && ask.view.caller.may(Scope::RunsRead) {
        let over = tokio::select! {
            biased;
            reason = cancel.said() => return stop(&mut *pending, reason).await,
            over = pending.wait(began.after(TASK_GRACE)) => over,
        };
        return match over {
            Some(done) => done.map(Into::into),
            None => {
                let task = pending.task().await?.task;
                if terms.result_bytes.is_some_and(|bytes| bytes != RESULT_BYTES) {
                    let note = Note::of(ask, &*pending, began, None);
                    Notes::new(ask.app.clone()).keep(&notes::of_task(&note.handle), &note).await;
                }
                Ok(CreateTaskResult::new(task).into())
            }
        };
    }
    let waited = tokio::select! {
        biased;
        reason = cancel.said() => Ended::Cancelled(reason),
        () = ask.context.ct.cancelled() => Ended::Gone,
        answered = until_answered(ask, &mut *pending, began) => Ended::Answered(answered),
    };
    let waited = match waited {
        // In a session the cancel comes first and its reason right after it; a connection that broke has none.
        Ended::Gone => tokio::select! {
            reason = cancel.said() => Ended::Cancelled(reason),
            () = ask.app.clock.sleep_until(ask.app.clock.now().after(REASON_GRACE)) => Ended::Gone,
        },
        other => other,
    };
    match waited {
        Ended::Answered(answered) => answered.map(Into::into),
        Ended::Cancelled(reason) => {
            let stopped = stop(&mut *pending, reason).await;
            // The first word counts: one that comes later finds a call that is over. That is noted even if nothing was noted
            // yet, because a note may be on its way.
            let (notes, note) = (Notes::new(ask.app.clone()), Note::of(ask, &*pending, began, ask.client()));
            for name in ask.names() {
                notes.answered(&name, &note).await;
            }
            stopped
        }
        Ended::Gone if terms.cancel_when_gone => {
            pending.cancel(Some("the caller disconnected, with cancel_on_disconnect".into())).await?;
            Err(gone("the connection is closed; what was started is cancelled"))
        }
        Ended::Gone => Err(gone("the connection is closed; what was started continues")),
    }
}

/// An explicit cancel: stops what belongs to the call, unless only the client's time ran out.
pub(super) async fn stop<T>(pending: &mut dyn Pending, reason: Option<String>) -> Result<T, ErrorData> {
    if is_timeout(reason.as_deref()) || !pending.terms().belongs_to_call {
        return Err(gone("the client stopped waiting; what was started continues"));
    }
    let words = match reason.filter(|reason| !reason.is_empty()) {
        Some(reason) => format!("the call was cancelled over MCP: {}", clip(&reason)),
        None => "the call was cancelled over MCP".to_owned(),
    };
    pending.cancel(Some(words)).await?;
    Err(gone("the call was cancelled"))
}

enum Ended {
    Answered(Result<CallToolResult, ErrorData>),
    Cancelled(Option<String>),
    Gone,
}

/// What nobody reads any more.
fn gone(message: &'static str) -> ErrorData {
    ErrorData::new(ErrorCode::INTERNAL_ERROR, message, None)
}

fn clip(text: &str) -> &str {
    &text[..text.floor_char_boundary(900)]
}

async fn until_answered(ask: &Ask, pending: &mut dyn Pending, began: Instant) -> Result<CallToolResult, ErrorData> {
    let meta = &ask.context.meta;
    let token = meta.get_progress_token();
    let millis = |key: &str| meta.get(key).and_then(serde_json::Value::as_u64).map(Duration::from_millis);
    // A tenth less than it waits, so that the answer is there in time.
    let own = millis(ANSWER_WITHIN).or_else(|| Some(millis(PATIENCE)?.mul_f64(0.9)));
    let client = ask.client();
    let patience = clients::patience(client.as_deref(), token.is_some(), own);
    let names = ask.names();
    let mut waiting = Waiting::new(began, patience, token, meta.contains_key(CALL_KEY));
    if names.is_empty() {
        return waiting.until_answered(&ask.app, pending, &ask.context.peer).await;
    }
    if let Some(done) = pending.wait(began.after(NOTE_GRACE.min(patience))).await {
        return done;
    }
    let note = Note::of(ask, pending, began, client);
    let notes = Notes::new(ask.app.clone());
    for name in &names {
        notes.keep(name, &note).await;
    }
    let answered = waiting.until_answered(&ask.app, pending, &ask.context.peer).await;
    for name in &names {
        notes.answered(name, &note).await;
    }
    answered
}

impl Note {
    fn of(ask: &Ask, pending: &dyn Pending, began: Instant, client: Option<String>) -> Self {
        let clock = &ask.app.clock;
        let ago = i64::try_from(clock.now().since(began).as_millis()).unwrap_or(i64::MAX);
        let began = Timestamp::from_millis(clock.wall().as_millis().saturating_sub(ago));
        Self {
            handle: pending.id(),
            terms: pending.terms(),
            began,
            token: ask.context.meta.get_progress_token(),
            client: client.map(|name| name.chars().take(LONGEST_NAME).collect()),
            serial: ask.context.extensions.get::<Mark>().map(|mark| (mark.boot.clone(), mark.serial)),
            answered: false,
        }
    }
}

/// One wait.
pub(super) struct Waiting {
    began: Instant,
    deadline: Instant,
    token: Option<ProgressToken>,
    /// Whether the caller asks again by itself when the connection breaks.
    asks_again: bool,
    beats: u32,
    said: f64,
}

impl Waiting {
    pub(super) fn new(began: Instant, patience: Duration, token: Option<ProgressToken>, asks_again: bool) -> Self {
        Self { began, deadline: began.after(patience), token, asks_again, beats: 0, said: 0.0 }
    }

    /// A wait that an earlier connection or process began this long ago: its progress goes on from there.
    pub(super) fn taken_up(ago: Duration, now: Instant, patience: Duration, token: Option<ProgressToken>) -> Self {
        // More beats than there can have been, so that what is said next is more than what was said last.
        let beats = u32::try_from(ago.as_secs() / 2 + 2).unwrap_or(u32::MAX);
        let began = Instant::from_origin(now.since_origin().saturating_sub(ago));
        Self { began, deadline: now.after(patience), token, asks_again: false, beats, said: 0.0 }
    }

    /// The end, or how it stands when the caller cannot wait any longer.
    pub(super) async fn until_answered(
        &mut self,
        app: &App,
        pending: &mut dyn Pending,
        listener: &dyn Listener,
    ) -> Result<CallToolResult, ErrorData> {
        let clock = &app.clock;
        loop {
            let beat = self.token.is_some().then(|| {
                let pause = if self.beats == 0 { FIRST_BEAT } else { BEAT };
                clock.now().after(pause)
            });
            let until = beat.map_or(self.deadline, |beat| beat.min(self.deadline));
            let ended = tokio::select! {
                biased;
                ended = pending.wait(until) => ended,
                () = app.stopping.cancelled() => {
                    if self.asks_again {
                        // The connection ends with the server, and the caller comes back with the same call.
                        std::future::pending::<()>().await;
                    }
                    return Ok(pending.so_far().await);
                }
            };
            if let Some(done) = ended {
                return done;
            }
            if clock.now() >= self.deadline {
                return Ok(pending.so_far().await);
            }
            self.beat(app, pending, listener).await;
        }
    }

    /// Word of progress: its number grows with every beat, as the protocol wants.
    async fn beat(&mut self, app: &App, pending: &mut dyn Pending, listener: &dyn Listener) {
        let Some(token) = self.token.clone() else { return };
        self.beats = self.beats.saturating_add(1);
        let progress = pending.progress().await;
        let beats = f64::from(self.beats);
        let counted = f64::from(progress.done) + 0.9 * beats / (beats + 1.0);
        let now = match (progress.total, progress.done) {
            (Some(total), _) => counted.min(f64::from(total)),
            (None, 0) => app.clock.now().since(self.began).as_secs_f64(),
            (None, _) => counted,
        };
        self.said = if now > self.said { now } else { self.said + 0.001 };
        let mut notice = ProgressNotificationParam::new(token, self.said).with_message(progress.message);
        notice.total = progress.total.map(f64::from);
        listener.tell(notice).await;
    }
}
