//! The stdio MCP proxy: JSON-RPC lines of a host on one side, a server's streamable HTTP on the other.
//!
//! It understands as little as it must: which frames want an answer, which session or protocol version they belong to, and
//! under which key a call happens once. No call waits behind another. A server that goes away is looked for again, and
//! what it had not answered is sent again: every call of a tool carries a key, so nothing happens twice. What is on its
//! way to the host is written whole or not at all, and every request is answered at most once.

mod call;
mod calls;
mod exchange;
mod frame;
mod headers;
mod limits;
mod lines;
mod listen;
mod notify;
mod outage;
mod output;
mod progress;
mod session;
#[cfg(test)]
mod tests;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use drawloom_contract::{
    failure::{Failure, FailureKind},
    time::{Clock, Entropy},
};
use drawloom_net::Configured;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_util::{
    sync::CancellationToken,
    task::{AbortOnDropHandle, TaskTracker},
};

pub use limits::LIMITS;

use calls::Calls;
use frame::{Frame, Id, Notification, Refusal, Request, Stamp};
use headers::Annotations;
use lines::{Line, Lines};
use output::Output;
use progress::Progress;
use session::Session;

use crate::upstream::Upstream;

/// The longest line of a host, in bytes.
pub const LONGEST_LINE: usize = 16 * 1024 * 1024;

/// The longest answer of a server that comes in one piece, in bytes.
pub const LONGEST_ANSWER: usize = crate::events::MAX_EVENT;

/// The most calls of tools in flight at once.
pub const MOST_IN_FLIGHT: usize = 1024;

/// The most other messages on their way at once: calls that wait leave room for a `ping` and for lists.
pub const MOST_OTHERS: usize = 256;

/// How long a server may be away before what waits for it fails.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// How long the first request of a host may take in all, the start of a server included: it waits for nothing else, and a
/// reason is worth more than time.
pub const FIRST_CONTACT_PATIENCE: Duration = Duration::from_secs(8);

/// How often one request is sent at most when the server takes it and breaks off each time, soon after.
pub const MOST_SENDS: u32 = 20;

/// A connection that lived so long counts as no failure of the server: gateways cut what waits for a minute.
pub const LONG_LIFE: Duration = Duration::from_secs(30);

/// How often a host that wants to hear of progress hears of it while the server does not answer.
pub const HEARTBEAT: Duration = Duration::from_secs(5);

/// How long requests in flight may take to be answered once the host's input has ended.
pub const DRAIN: Duration = Duration::from_secs(5);

/// How long the end of a session may take to reach the server, and the last lines the host when a signal ends it all.
const GOODBYE: Duration = Duration::from_millis(200);

/// The part of `_meta` that names the key under which the server does a call once.
const IDEMPOTENCY_KEY: &str = "io.drawloom/idempotencyKey";

/// The part of `_meta` in which a host says how long it waits.
const PATIENCE_MS: &str = "io.drawloom/patienceMs";

/// The part of `_meta` that says after how long the server gives a handle back, so that it arrives while the host waits.
const ANSWER_WITHIN_MS: &str = "io.drawloom/answerWithinMs";

/// The part of `_meta` in which a stateless message says its version.
const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// From this protocol version on there are no sessions.
const STATELESS_SINCE: &str = "2026-07-28";

const RPC_NOT_JSON: i64 = -32700;
const RPC_INVALID: i64 = -32600;
const RPC_FAILED: i64 = -32000;

/// What a proxy is made of.
pub struct Parts {
    /// Where the server is.
    pub upstream: Arc<dyn Upstream>,
    /// Reaches it.
    pub http: Configured,
    /// More headers for it.
    pub headers: Vec<(String, String)>,
    /// How long the host waits for the answer of a tool, when that is known: before it gives up, a handle comes back.
    pub patience: Option<Duration>,
    /// Times what is tried again.
    pub clock: Arc<dyn Clock>,
    /// Makes keys.
    pub entropy: Arc<dyn Entropy>,
}

/// What all tasks of a proxy share.
struct Shared {
    upstream: Arc<dyn Upstream>,
    http: Configured,
    headers: Vec<(String, String)>,
    patience: Option<Duration>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    output: Output,
    calls: Calls,
    session: Session,
    progress: Progress,
    annotations: Mutex<Annotations>,
    /// The version of the last stateless request, for notifications that say none.
    version: Mutex<Option<String>>,
    /// Room for calls of tools.
    for_calls: Arc<Semaphore>,
    /// Room for everything else.
    for_others: Arc<Semaphore>,
    /// The host's input has ended: nobody listens any more.
    host_gone: CancellationToken,
}

/// What the host writes.
pub type Input = Box<dyn AsyncRead + Send + Unpin>;

/// What the host reads.
pub type Out = Box<dyn AsyncWrite + Send + Unpin>;

/// Runs a proxy between a host and its server. Returns when the input has ended and what was in flight was answered (or
/// had [`DRAIN`] for it), when the output is gone, or when `stop` is done; a host that does not read what is left is not
/// waited for. What goes on at the server goes on.
///
/// Nothing of it is generic: its code lies together in this crate, and few pages of the binary are touched when it starts.
pub fn run(parts: Parts, input: Input, output: Out, stop: BoxFuture<'static, ()>) -> BoxFuture<'static, ()> {
    Box::pin(proxy(parts, input, output, stop))
}

async fn proxy(parts: Parts, input: Input, output: Out, stop: BoxFuture<'static, ()>) {
    let (to_host, lines) = Output::new();
    let Parts { upstream, http, headers, patience, clock, entropy } = parts;
    let shared = Arc::new(Shared {
        upstream,
        http,
        headers,
        patience,
        clock,
        entropy,
        output: to_host,
        calls: Calls::default(),
        session: Session::default(),
        progress: Progress::default(),
        annotations: Mutex::default(),
        version: Mutex::default(),
        for_calls: Arc::new(Semaphore::new(MOST_IN_FLIGHT)),
        for_others: Arc::new(Semaphore::new(MOST_OTHERS)),
        host_gone: CancellationToken::new(),
    });
    let tasks = TaskTracker::new();
    let over = CancellationToken::new();
    let writer = tokio::spawn(output::write(lines, output));
    let listener = tokio::spawn(over.clone().run_until_cancelled_owned(listen::listen(shared.clone())));
    let work = async {
        read(&shared, &tasks, &over, input).await;
        shared.host_gone.cancel();
        tasks.close();
        let deadline = shared.clock.now().after(DRAIN);
        tokio::select! {
            () = tasks.wait() => {}
            () = shared.clock.sleep_until(deadline) => {
                tracing::info!(left = tasks.len(), "the host disconnected; what it started continues in the server");
            }
        }
    };
    let mut writer = AbortOnDropHandle::new(writer);
    // How long the host may take to read what is written already.
    let last_lines = tokio::select! {
        () = work => DRAIN,
        _ = &mut writer => Duration::ZERO,
        () = stop => GOODBYE,
    };
    over.cancel();
    drop(listener.await);
    notify::goodbye(&shared).await;
    tasks.close();
    tasks.wait().await;
    // With the last sender gone, the writer ends once all is written.
    let clock = shared.clock.clone();
    drop(shared);
    if !last_lines.is_zero() {
        let deadline = clock.now().after(last_lines);
        tokio::select! {
            _ = writer => {}
            () = clock.sleep_until(deadline) => tracing::warn!("the host does not read; what was left for it is dropped"),
        }
    }
}

/// Reads the host's lines to their end. It waits for nothing but the host.
async fn read(shared: &Arc<Shared>, tasks: &TaskTracker, over: &CancellationToken, input: Input) {
    let mut lines = Lines::new(input);
    loop {
        let line = match lines.next().await {
            Ok(Some(line)) => line,
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(error = %error, "the host's input broke");
                return;
            }
        };
        let spawn = |task| drop(tasks.spawn(over.clone().run_until_cancelled_owned(task)));
        match line {
            Line::TooLong(id) => {
                let what = format!("a message is longer than {LONGEST_LINE} bytes");
                let failure = Failure::new(FailureKind::TooLarge, "line_too_long", what)
                    .with_hint("send less at once; put large inputs into a file that the agent can read");
                let data = Some(data_of(&failure));
                shared.output.line(frame::error(id.as_ref(), RPC_INVALID, &call::in_words(&failure), data)).await;
            }
            Line::Whole(line) if line.iter().all(u8::is_ascii_whitespace) => {}
            Line::Whole(line) => {
                let stamp = Stamp { entropy: &*shared.entropy, patience: shared.patience, now: shared.clock.now() };
                for frame in frame::read(&line, &stamp) {
                    shared.take(frame, &spawn).await;
                }
            }
        }
    }
}

type Task = futures::future::BoxFuture<'static, ()>;

impl Shared {
    async fn take(self: &Arc<Self>, frame: Result<Frame, Refusal>, spawn: &(dyn Fn(Task) + Sync)) {
        match frame {
            Err(Refusal::NotJson(why)) => {
                let message = format!("a line is not JSON: {why}");
                self.output.line(frame::error(None, RPC_NOT_JSON, &message, None)).await;
            }
            Err(Refusal::NotRpc(why, id)) => {
                let message = format!("a line is not a JSON-RPC message: {why}");
                self.output.line(frame::error(id.as_ref(), RPC_INVALID, &message, None)).await;
            }
            Ok(Frame::Request(request)) => self.take_request(request, spawn).await,
            Ok(Frame::Notification(notification)) if notification.method == "notifications/cancelled" => {
                let id = notification.params.get("requestId").and_then(|raw| Id::read(raw.get()));
                if let Some(id) = id {
                    self.calls.withdraw(&id, notification);
                }
            }
            Ok(Frame::Notification(notification)) => {
                let Some(room) = self.room_for(&notification.method) else { return };
                // From here on others wait until it has arrived, so only with room for it.
                if notification.method == "notifications/initialized" {
                    self.session.initialized(notification.text.clone());
                }
                spawn(Box::pin(notify::send(self.clone(), notification, room)));
            }
            Ok(Frame::Response(text)) => {
                let Some(room) = self.room_for("an answer of the host") else { return };
                let answer =
                    Notification { method: "an answer".into(), text, version: None, params: Default::default() };
                spawn(Box::pin(notify::send(self.clone(), answer, room)));
            }
        }
    }

    async fn take_request(self: &Arc<Self>, request: Request, spawn: &(dyn Fn(Task) + Sync)) {
        let (room, most) = match request.method == "tools/call" {
            true => (&self.for_calls, MOST_IN_FLIGHT),
            false => (&self.for_others, MOST_OTHERS),
        };
        let Ok(room) = room.clone().try_acquire_owned() else {
            let what = format!("{most} requests like this one are in flight already");
            let failure = Failure::new(FailureKind::Throttled, "too_many_calls", what)
                .with_hint("wait for some of them; spawn_runs starts many runs with one call");
            return self.output.line(call::refusal(&request, &failure)).await;
        };
        let Some(withdrawn) = self.calls.begin(&request.id) else {
            tracing::warn!(id = request.id.json(), "a second request of an id that is in flight was dropped");
            return;
        };
        if request.method == "initialize" {
            self.session.hello(request.text.clone());
        }
        if let Some(version) = &request.version {
            *self.version.lock().unwrap_or_else(PoisonError::into_inner) = Some(version.clone());
        }
        let shared = self.clone();
        let listens = request.method == "subscriptions/listen";
        let carried = async move {
            let gone = shared.host_gone.clone();
            let carried = call::carry(shared, request, withdrawn);
            // Listening has no end of its own, so it is nothing to wait for.
            match listens {
                true => drop(gone.run_until_cancelled(carried).await),
                false => carried.await,
            }
            drop(room);
        };
        spawn(Box::pin(carried));
    }

    fn room_for(&self, what: &str) -> Option<OwnedSemaphorePermit> {
        let room = self.for_others.clone().try_acquire_owned().ok();
        if room.is_none() {
            tracing::warn!(%what, limit = MOST_OTHERS, "dropped: too many messages are on their way");
        }
        room
    }

    fn headers_of(&self, request: &Request) -> Vec<(String, String)> {
        self.annotations.lock().unwrap_or_else(PoisonError::into_inner).of(request)
    }

    fn learn(&self, listing: &Bytes) {
        if let Ok(listing) = std::str::from_utf8(listing) {
            self.annotations.lock().unwrap_or_else(PoisonError::into_inner).learn(listing);
        }
    }
}

/// What programs are told of a failure.
fn data_of(failure: &Failure) -> Value {
    json!({ "code": failure.code, "hint": failure.hint, "retryable": failure.kind.is_retryable() })
}
