//! What the server says by itself, in a session: one stream, taken up again where it was when it breaks.

use std::{sync::Arc, time::Duration};

use drawloom_net::{
    Method,
    sse::{Event, Parser},
};
use tokio::sync::watch;

use super::{
    Shared, call,
    exchange::{Era, is_stream},
    frame,
    session::Open,
};
use crate::events::LIMITS;

/// The wait after a first failure; each further one is twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(100);

/// The longest wait between tries.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// The longest wait that a server may ask for.
const LONGEST_RETRY: Duration = Duration::from_secs(300);

/// How a stream ended.
enum End {
    /// The server offers none, or not to us.
    Never,
    /// It never began.
    NotBegun,
    /// It broke or was closed.
    Broken {
        /// Whether it brought something, or lived for a while.
        was_useful: bool,
        /// How long the server wants to be left alone.
        retry: Option<Duration>,
    },
    /// The server does not know the session.
    NoSession,
}

/// Listens for as long as it is polled.
pub(crate) async fn listen(shared: Arc<Shared>) {
    let mut changes = shared.session.watch();
    // How long to leave a server alone that does not know the session that it has just opened.
    let mut lost = Duration::ZERO;
    loop {
        shared.clock.sleep_until(shared.clock.now().after(lost)).await;
        let Some(open) = open(&shared, &mut changes).await else { return };
        let mut last_event = None;
        let mut wait = FIRST_WAIT;
        let mut asked = Duration::ZERO;
        // Until this session is replaced by another.
        loop {
            let end = tokio::select! {
                end = stream(&shared, &open, &mut last_event) => end,
                () = replaced(&shared, &open, &mut changes) => break,
            };
            match end {
                End::Never => {
                    replaced(&shared, &open, &mut changes).await;
                    break;
                }
                End::NoSession => {
                    drop(call::renew(&shared, open.generation, None).await);
                    lost = (lost * 2).clamp(FIRST_WAIT, LONGEST_WAIT);
                }
                End::Broken { was_useful, retry } => {
                    lost = Duration::ZERO;
                    asked = retry.map_or(asked, |retry| retry.min(LONGEST_RETRY));
                    if was_useful {
                        wait = FIRST_WAIT;
                    }
                }
                End::NotBegun => {}
            }
            let until = shared.clock.now().after(wait.max(asked));
            wait = (wait * 2).min(LONGEST_WAIT);
            tokio::select! {
                () = shared.clock.sleep_until(until) => {}
                () = replaced(&shared, &open, &mut changes) => break,
            }
        }
    }
}

/// The session, once there is one with a name.
async fn open(shared: &Shared, changes: &mut watch::Receiver<()>) -> Option<Open> {
    loop {
        changes.mark_unchanged();
        match shared.session.settled().await {
            Some(open) if open.id.is_some() => return Some(open),
            _ => changes.changed().await.ok()?,
        }
    }
}

async fn replaced(shared: &Shared, open: &Open, changes: &mut watch::Receiver<()>) {
    while shared.session.current().is_some_and(|now| now.generation == open.generation) {
        if changes.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}

async fn stream(shared: &Shared, open: &Open, last_event: &mut Option<String>) -> End {
    // It only looks: for a stream on which nobody waits no server is started.
    let Some(at) = shared.upstream.known() else { return End::NotBegun };
    let mut request = shared.request(Method::Get, &at, &Era::Session(open.clone()), None);
    request.headers.extend(last_event.iter().map(|id| ("last-event-id".into(), id.clone())));
    let Ok(mut response) = shared.http.send(request).await else { return End::NotBegun };
    match response.status() {
        200 if is_stream(&response) => {}
        404 => return End::NoSession,
        408 | 421 | 429 | 500..=599 => return End::NotBegun,
        _ => return End::Never,
    }
    let (begun, mut heard) = (shared.clock.now(), false);
    let (mut parser, mut events) = (Parser::new(LIMITS), Vec::new());
    while let Ok(Some(bytes)) = response.chunk().await {
        if parser.feed(&bytes, &mut events).is_err() {
            break;
        }
        for Event { id, data, .. } in events.drain(..) {
            heard |= shared.pass(frame::look(&data), &data).await;
            if id.is_some() {
                *last_event = id;
            }
        }
    }
    let was_useful = heard || shared.clock.now().since(begun) >= LONGEST_WAIT;
    End::Broken { was_useful, retry: parser.retry().map(Duration::from_millis) }
}
