//! Connections: accepted, bounded, served, drained.

use std::{convert::Infallible, future::Future, sync::Arc, time::Duration};

use axum::body::Body;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{app::App, rest::Surface};

/// How many connections over the limit are told so at once; further ones are closed without a word.
const TURNED_AWAY: usize = 64;

/// How long a connection that is turned away may take to say what it wanted.
const TURN_AWAY_TIMEOUT: Duration = Duration::from_secs(2);

/// How long to wait when the machine has no room for another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves `app` at `listener` until `shutdown` is done. Then no connection is accepted any more, waits are answered with
/// what they wait for as it stands, streams end, and connections that do not finish within the limit are cut.
///
/// Of a batch of more than `limits.connections` callers those over the limit get a 503 and are closed: a caller that
/// checks the server's health must not wait behind callers that wait for runs.
pub async fn serve(listener: TcpListener, app: Arc<App>, shutdown: impl Future<Output = ()> + Send) {
    let house = House {
        surface: Surface::new(app.clone()),
        rooms: Arc::new(Semaphore::new(app.limits.connections)),
        porch: Arc::new(Semaphore::new(TURNED_AWAY)),
        tasks: TaskTracker::new(),
        cut: CancellationToken::new(),
        app,
    };
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut shutdown => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => house.admit(stream),
            Err(error) => {
                // Out of file descriptors, mostly: accepting fails at once, over and over, until something closes.
                tracing::warn!(error = %error, "a connection could not be accepted");
                let clock = &house.app.clock;
                clock.sleep_until(clock.now().after(ACCEPT_PAUSE)).await;
            }
        }
    }
    drop(listener);
    house.drain().await;
}

struct House {
    app: Arc<App>,
    surface: Arc<Surface>,
    rooms: Arc<Semaphore>,
    porch: Arc<Semaphore>,
    tasks: TaskTracker,
    cut: CancellationToken,
}

impl House {
    fn admit(&self, stream: TcpStream) {
        // Answers are small and written whole; waiting for more to send would only delay them.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(error = %error, "TCP_NODELAY could not be set");
        }
        if let Ok(room) = self.rooms.clone().try_acquire_owned() {
            self.tasks.spawn(converse(self.surface.clone(), self.app.clone(), self.cut.clone(), stream, room));
        } else if let Ok(room) = self.porch.clone().try_acquire_owned() {
            tracing::warn!(limit = self.app.limits.connections, "a connection over the limit was turned away");
            self.tasks.spawn(turn_away(self.surface.clone(), self.app.clone(), stream, room));
        }
    }

    async fn drain(self) {
        self.app.stopping.cancel();
        self.tasks.close();
        let clock = &self.app.clock;
        let deadline = clock.now().after(self.app.limits.drain);
        tokio::select! {
            biased;
            () = self.tasks.wait() => return,
            () = clock.sleep_until(deadline) => {}
        }
        tracing::warn!(connections = self.tasks.len(), "connections did not finish in time and were cut");
        self.cut.cancel();
        self.tasks.wait().await;
    }
}

/// Serves one connection, request after request.
async fn converse(
    surface: Arc<Surface>,
    app: Arc<App>,
    cut: CancellationToken,
    stream: TcpStream,
    room: OwnedSemaphorePermit,
) {
    let _here = app.presence.enter(&*app.clock);
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let surface = surface.clone();
        async move { Ok::<_, Infallible>(surface.answer(request.map(Body::new)).await) }
    });
    let mut connection = std::pin::pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(app.limits.head_timeout)
            // Short answers go out in one piece, which costs less than a list of pieces.
            .writev(false)
            .serve_connection(TokioIo::new(stream), service)
    );
    let ended = tokio::select! {
        biased;
        ended = connection.as_mut() => ended,
        () = cut.cancelled() => return,
        () = app.stopping.cancelled() => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                ended = connection => ended,
                () = cut.cancelled() => return,
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(error = %error, "a connection broke");
    }
    drop(room);
}

/// Answers the first request of a connection for which there is no room, and closes it.
async fn turn_away(surface: Arc<Surface>, app: Arc<App>, stream: TcpStream, room: OwnedSemaphorePermit) {
    let service = service_fn(move |_: hyper::Request<Incoming>| {
        let surface = surface.clone();
        async move { Ok::<_, Infallible>(surface.turn_away()) }
    });
    let deadline = app.clock.now().after(TURN_AWAY_TIMEOUT);
    let connection = http1::Builder::new().keep_alive(false).serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        // Whether it heard us or not, it is over.
        _ = connection => {}
        () = app.clock.sleep_until(deadline) => {}
    }
    drop(room);
}
