//! Connections: accepted, bounded, served, drained.

use std::{convert::Infallible, error::Error as _, future::Future, io, net::IpAddr, sync::Arc, time::Duration};

use axum::http::Uri;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    app::App,
    connections::{Connection, Progress, Upload},
    rest::Surface,
};

/// How many connections over the limit are told so at once; further ones are closed without a word.
const TURNED_AWAY: usize = 64;

/// How many connections over the limit may be open because those that they replace have yet to be closed.
const REPLACED: usize = 64;

/// How long a connection that is turned away may take to say what it wanted.
const TURN_AWAY_TIMEOUT: Duration = Duration::from_secs(2);

/// Most bytes of a request's head, and of answers that wait for the socket, per connection.
pub(crate) const CONNECTION_BUFFER: usize = 128 * 1024;

/// Most bytes that the kernel holds for a peer; it doubles the number for its own bookkeeping.
const SEND_BUFFER: usize = 256 * 1024;

/// When the kernel asks a silent peer whether it is still there.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);

/// How often it asks again.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// How long to wait when the machine has no room for another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves `app` at `listener` until `shutdown` is done. Then no connection is accepted any more, waits are answered with
/// what they wait for as it stands, streams end, and connections that do not finish within the limit are cut.
///
/// When `limits.connections` are open, a new one takes the place of one that is idle or whose peer does not read. If there
/// is none, it gets a 503 and is closed: a caller that checks the server's health must not wait behind callers that wait
/// for runs.
pub async fn serve(listener: TcpListener, app: Arc<App>, shutdown: impl Future<Output = ()> + Send) {
    let most = app.limits.connections;
    let turned_away = TURNED_AWAY.min(most);
    let server = Listener {
        surface: Surface::new(app.clone()),
        overflow: Arc::new(Semaphore::new(turned_away)),
        tasks: TaskTracker::new(),
        cut: CancellationToken::new(),
        app,
    };
    let mut shutdown = std::pin::pin!(shutdown);
    // A file descriptor each, which is free again only when its task has dropped it. Further connections wait with the kernel.
    let sockets = Arc::new(Semaphore::new(most + turned_away + REPLACED.min(most / 2)));
    loop {
        let accept = async {
            let socket = sockets.clone().acquire_owned().await.expect("it is never closed");
            listener.accept().await.map(|(stream, address)| (Socket { stream, _place: socket }, address))
        };
        let accepted = tokio::select! {
            biased;
            () = &mut shutdown => break,
            accepted = accept => accepted,
        };
        match accepted {
            Ok((socket, address)) => server.admit(socket, address.ip()),
            Err(error) => {
                // Out of file descriptors, mostly: accepting fails at once, over and over, until something closes.
                tracing::warn!(error = %error, "cannot accept a connection");
                let clock = &server.app.clock;
                clock.sleep_until(clock.now().after(ACCEPT_PAUSE)).await;
            }
        }
    }
    drop(listener);
    server.drain().await;
}

/// An open connection and its place among those that there may be.
struct Socket {
    stream: TcpStream,
    _place: OwnedSemaphorePermit,
}

struct Listener {
    app: Arc<App>,
    surface: Arc<Surface>,
    /// Places for connections over the limit, which get a 503.
    overflow: Arc<Semaphore>,
    tasks: TaskTracker,
    cut: CancellationToken,
}

impl Listener {
    fn admit(&self, socket: Socket, address: IpAddr) {
        if let Err(error) = set_options(&socket.stream, self.app.limits.write_timeout) {
            tracing::debug!(error = %error, "cannot set a socket option");
        }
        if let Some(connection) = self.app.connections.admit(address) {
            let connection = Arc::new(connection);
            self.tasks.spawn(converse(self.surface.clone(), self.app.clone(), self.cut.clone(), socket, connection));
        } else if let Ok(place) = self.overflow.clone().try_acquire_owned() {
            tracing::warn!(limit = self.app.limits.connections, "connection limit reached; connection refused");
            self.tasks.spawn(turn_away(self.surface.clone(), self.app.clone(), socket, place));
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
        tracing::warn!(connections = self.tasks.len(), "closed connections that did not finish in time");
        self.cut.cancel();
        self.tasks.wait().await;
    }
}

/// Short answers go out at once; a peer that is gone, or that takes no byte, is noticed by the kernel too; and the kernel
/// holds a bounded number of bytes for a peer that does not read.
fn set_options(stream: &TcpStream, write_timeout: Duration) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE_IDLE).with_interval(KEEPALIVE_INTERVAL))?;
    #[cfg(target_os = "linux")]
    // The last resort, for a peer that is gone: who is there and does not read is judged by what it takes.
    socket.set_tcp_user_timeout(Some((write_timeout * 2).max(KEEPALIVE_IDLE)))?;
    #[cfg(not(target_os = "linux"))]
    let _ = write_timeout;
    socket.set_send_buffer_size(SEND_BUFFER)
}

/// Serves one connection, request after request.
async fn converse(
    surface: Arc<Surface>,
    app: Arc<App>,
    cut: CancellationToken,
    Socket { stream, _place }: Socket,
    connection: Arc<Connection>,
) {
    let _here = app.presence.enter(&*app.clock);
    let socket = TokioIo::new(Progress::new(stream, connection.clone(), app.limits.write_timeout));
    let closed = connection.closed().clone();
    let on_request = connection.clone();
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let (surface, connection) = (surface.clone(), on_request.clone());
        async move {
            connection.begin(request.uri().clone());
            let request = request.map(|body| Upload::body(body, &connection));
            Ok::<_, Infallible>(surface.answer_on(&connection, request).await)
        }
    });
    let mut served = std::pin::pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(app.limits.head_timeout)
            .max_buf_size(CONNECTION_BUFFER)
            // Short answers go out in one piece, which costs less than a list of pieces.
            .writev(false)
            .serve_connection(socket, service)
    );
    let ended = tokio::select! {
        biased;
        ended = served.as_mut() => ended,
        () = cut.cancelled() => return,
        () = closed.cancelled() => return,
        () = app.stopping.cancelled() => {
            served.as_mut().graceful_shutdown();
            tokio::select! {
                ended = served => ended,
                () = cut.cancelled() => return,
                () = closed.cancelled() => return,
            }
        }
    };
    let Err(error) = ended else { return };
    let request = connection.request();
    let request = request.as_ref().map(Uri::path);
    let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
    if cause.is_some_and(|cause| cause.kind() == io::ErrorKind::TimedOut) {
        tracing::warn!(request, error = cause.map(tracing::field::display), "dropped a stalled connection");
    } else {
        tracing::debug!(request, error = %error, "connection failed");
    }
}

/// Answers the first request of a connection for which there is no room, and closes it.
async fn turn_away(
    surface: Arc<Surface>,
    app: Arc<App>,
    Socket { stream, _place }: Socket,
    overflow: OwnedSemaphorePermit,
) {
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
    drop(overflow);
}
