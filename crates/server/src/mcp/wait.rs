//! Waiting for what takes time, in the best form that the caller can take: as a task, with heartbeats, or for as long as it
//! bears and then with a handle.

use std::{sync::Arc, time::Duration};

use drawloom_contract::time::Timestamp;
use rmcp::{
    ErrorData,
    model::{CallToolResponse, CreateTaskResult, ErrorCode, ProgressNotificationParam, ProgressToken},
};

use crate::mcp::{
    CALL_KEY, PATIENCE,
    calls::{Cancel, is_timeout},
    clients,
    table::{Ask, Pending},
};

/// Until then no word of progress is sent: most calls are over.
const FIRST_BEAT: Duration = Duration::from_secs(2);
/// Longest silence towards a caller who hears of progress.
const BEAT: Duration = Duration::from_secs(5);
/// How long a caller who takes tasks waits for the end itself: what is over by then needs no task.
const TASK_GRACE: Duration = Duration::from_millis(200);
/// How long the reason of a cancel may take after the cancel.
const REASON_GRACE: Duration = Duration::from_secs(1);

/// Waits for `pending` on behalf of a call.
pub(super) async fn answer(
    ask: &Ask,
    mut pending: Box<dyn Pending>,
    cancel: &Arc<Cancel>,
) -> Result<CallToolResponse, ErrorData> {
    let began = ask.app.clock.now();
    if pending.belongs_to_call() && ask.takes_tasks() {
        return match pending.wait(began.after(TASK_GRACE)).await {
            Some(done) => done.map(Into::into),
            None => Ok(CreateTaskResult::new(pending.task().await?.task).into()),
        };
    }
    let mut waiting = Waiting::new(ask, began);
    let waited = tokio::select! {
        biased;
        reason = cancel.said() => Ended::Cancelled(reason),
        () = ask.context.ct.cancelled() => Ended::Gone,
        answered = waiting.until_answered(ask, &mut *pending) => Ended::Answered(answered),
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
        Ended::Answered(answered) => answered,
        Ended::Gone => Err(gone("the connection is gone; what was started goes on")),
        Ended::Cancelled(reason) if is_timeout(reason.as_deref()) || !pending.belongs_to_call() => {
            Err(gone("the client stopped waiting; what was started goes on"))
        }
        Ended::Cancelled(reason) => {
            let reason = reason.filter(|reason| !reason.is_empty());
            pending
                .cancel(Some(reason.map_or_else(
                    || "the call was cancelled over MCP".to_owned(),
                    |reason| format!("the call was cancelled over MCP: {}", clip(&reason)),
                )))
                .await?;
            Err(gone("the call was cancelled"))
        }
    }
}

enum Ended {
    Answered(Result<CallToolResponse, ErrorData>),
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

struct Waiting {
    began: Timestamp,
    deadline: Timestamp,
    token: Option<ProgressToken>,
    /// Whether the caller asks again by itself when the connection breaks.
    asks_again: bool,
    beats: u32,
    said: f64,
}

impl Waiting {
    fn new(ask: &Ask, began: Timestamp) -> Self {
        let token = ask.context.meta.get_progress_token();
        let own = ask.context.meta.get(PATIENCE).and_then(serde_json::Value::as_u64).map(Duration::from_millis);
        let client = ask.context.client_info();
        let patience = clients::patience(client.as_ref().map(|client| client.name.as_str()), token.is_some(), own);
        Self {
            began,
            deadline: began.after(patience),
            token,
            asks_again: ask.context.meta.contains_key(CALL_KEY),
            beats: 0,
            said: 0.0,
        }
    }

    async fn until_answered(&mut self, ask: &Ask, pending: &mut dyn Pending) -> Result<CallToolResponse, ErrorData> {
        let clock = &ask.app.clock;
        loop {
            let beat = self.token.is_some().then(|| {
                let pause = if self.beats == 0 { FIRST_BEAT } else { BEAT };
                clock.now().after(pause)
            });
            let until = beat.map_or(self.deadline, |beat| beat.min(self.deadline));
            let ended = tokio::select! {
                biased;
                ended = pending.wait(until) => ended,
                () = ask.app.stopping.cancelled() => {
                    if self.asks_again {
                        // The connection ends with the server, and the caller comes back with the same call.
                        std::future::pending::<()>().await;
                    }
                    return Ok(pending.so_far().await.into());
                }
            };
            if let Some(done) = ended {
                return done.map(Into::into);
            }
            if clock.now() >= self.deadline {
                return Ok(pending.so_far().await.into());
            }
            self.beat(ask, pending).await;
        }
    }

    /// Word of progress: its number grows with every beat, as the protocol wants.
    async fn beat(&mut self, ask: &Ask, pending: &mut dyn Pending) {
        let Some(token) = self.token.clone() else { return };
        self.beats += 1;
        let progress = pending.progress().await;
        let beats = f64::from(self.beats);
        let now = match progress.total {
            Some(_) => f64::from(progress.done) + 0.9 * beats / (beats + 1.0),
            None => ask.app.clock.now().since(self.began).as_secs_f64(),
        };
        self.said = if now > self.said { now } else { self.said + 0.001 };
        let mut notice = ProgressNotificationParam::new(token, self.said).with_message(progress.message);
        notice.total = progress.total.map(f64::from);
        if let Err(error) = ask.context.peer.notify_progress(notice).await {
            tracing::debug!(%error, "word of progress could not be sent");
        }
    }
}
