//! The way in: who calls is found out on every request, then `rmcp` takes over.

use std::{sync::Arc, time::Duration};

use axum::{
    body::{Body, HttpBody as _},
    extract::Request,
    http::{HeaderMap, Method, StatusCode, request},
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use drawloom_contract::{
    caller::Caller,
    failure::{Failure, FailureKind},
    ids::{Tenant, UserId},
    suggest::closest,
};
use drawloom_wire::numbers;
use futures::StreamExt as _;
use http_body_util::{BodyExt as _, BodyStream, Full, StreamBody};
use hyper::body::Frame;
use rmcp::{
    model::{InitializeRequestParams, RequestId},
    transport::{
        StreamableHttpServerConfig, StreamableHttpService,
        streamable_http_server::session::{SessionId, SessionManager as _},
    },
};
use serde::Deserialize;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::{
    app::App,
    locks::Locks,
    mcp::{
        Offered,
        calls::Calls,
        cancel,
        handler::Handler,
        listeners::Listeners,
        manager::Manager,
        messages,
        open::Open,
        sessions::Sessions,
        table::{Change, Table, View},
    },
    rest::{Refusal, read_body},
};

pub(super) const SESSION_ID: &str = "mcp-session-id";

/// The last version that has several messages in a body.
const WITH_BATCHES: &str = "2025-03-26";
/// Silence on a stream of events before a comment is sent.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The longest `initialize`: it is kept with the session.
pub(super) const LONGEST_INITIALIZE: usize = 64 * 1024;
/// How long answers may take when the server stops, before streams are ended.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// The name of a call, for an explicit cancel.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct CallName {
    pub(super) tenant: Tenant,
    pub(super) subject: UserId,
    pub(super) key: String,
}

/// A call of a session: the session, and the id of the request.
pub(super) type SessionCall = (String, RequestId);

/// What all sessions share.
pub(super) struct Shared {
    pub(super) app: Arc<App>,
    pub(super) tables: Vec<Arc<dyn Table>>,
    pub(super) calls: Arc<Calls<CallName>>,
    /// Calls of sessions.
    pub(super) in_sessions: Arc<Calls<SessionCall>>,
    pub(super) open: Arc<Open>,
    pub(super) listeners: Arc<Listeners>,
    pub(super) changes: broadcast::Sender<Change>,
}

/// MCP over streamable HTTP.
pub(crate) struct Endpoint {
    shared: Arc<Shared>,
    sessions: Arc<Sessions>,
    service: StreamableHttpService<Handler, Manager>,
    manager: Arc<Manager>,
    /// Sessions that are being taken up from the store.
    restoring: Locks<String>,
}

impl Endpoint {
    /// The endpoint with the operations, and the tables beside them.
    pub(crate) fn new(app: &Arc<App>) -> Arc<Self> {
        let mut tables: Vec<Arc<dyn Table>> = vec![Arc::new(Offered::new(&app.operations))];
        tables.extend(app.tables.iter().cloned());
        let (changes, _) = broadcast::channel(64);
        let shared = Arc::new(Shared {
            app: app.clone(),
            tables,
            calls: Arc::default(),
            in_sessions: Arc::default(),
            open: Arc::new(Open::new(&app.limits)),
            listeners: Arc::default(),
            changes,
        });
        let sessions = Arc::new(Sessions::new(app.clone()));
        // Origin and Host are checked for every surface alike, before this.
        let mut config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_sse_keep_alive(Some(KEEP_ALIVE))
            .with_json_response(true)
            // Events of a greeting, or of the stream that belongs to no call, are no reason to come back: only of calls.
            .with_sse_retry(None)
            .with_cancellation_token(last_words(app))
            .with_max_request_body_bytes(app.limits.body);
        config.session_store = Some(sessions.clone());
        let for_handlers = shared.clone();
        let manager = Arc::new(Manager::new(shared.clone(), sessions.clone()));
        let make = move || Ok(Handler::new(for_handlers.clone()));
        let service = StreamableHttpService::new(make, manager.clone(), config);
        Arc::new(Self { shared, sessions, service, manager, restoring: Locks::default() })
    }

    /// Answers one request.
    pub(crate) async fn answer(self: &Arc<Self>, request: Request) -> Result<Response, Refusal> {
        let app = &self.shared.app;
        let (mut parts, body) = request.into_parts();
        let caller = app.auth.identify(&parts.headers).map_err(Refusal::unknown_caller)?;
        let toolsets = toolsets(app, &parts)?;
        if let Some(id) = session_of(&parts.headers)
            && self.is_foreign(id, &caller).await?
        {
            // Somebody else's session is no session.
            return Ok(messages::no_session(&[]));
        }
        let view = View { caller: caller.clone(), toolsets };
        if parts.method == Method::DELETE {
            return self.close(&parts).await;
        }
        if parts.method != Method::POST {
            parts.extensions.insert(view);
            let knows_empty_events = messages::knows_empty_events(&parts.headers);
            let response = self.handle(parts, Bytes::new()).await;
            return Ok(if knows_empty_events { response } else { messages::without_empty_events(response) });
        }
        // `rmcp` makes ids of its own, and panics when it cannot.
        app.entropy.check().map_err(Failure::from)?;
        let held = read_body(app, &parts.headers, body, app.limits.body).await?;
        let bytes = held.bytes.clone();
        if let Err(failure) = numbers::check(&bytes, "the message") {
            return Ok(messages::refuse(&bytes, &failure.message));
        }
        if cancel::take(&self.shared, &view, &bytes).await {
            return Ok(accepted());
        }
        parts.extensions.insert(view);
        if let Some(split) = messages::split(&bytes) {
            return Ok(self.answer_all(parts, &bytes, split).await);
        }
        let knows_empty_events = messages::knows_empty_events(&parts.headers);
        let opens = session_of(&parts.headers).is_none() && messages::is_initialize(&bytes);
        let response = match opens {
            true => self.open(parts, &bytes, caller).await?,
            false => self.handle(parts, bytes.clone()).await,
        };
        if response.status() == StatusCode::INTERNAL_SERVER_ERROR && app.stopping.is_cancelled() {
            // What waits when the server stops is cut off; whoever asks again finds it.
            let failure = Failure::new(FailureKind::Unavailable, "stopping", "the server is stopping");
            return Err(failure.with_hint("retry when it is back; started runs continue then").into());
        }
        let mut response = messages::in_protocol(response, &bytes).await;
        if !knows_empty_events {
            response = messages::without_empty_events(response);
        }
        Ok(hold_head(app, response).await)
    }

    /// Opens a session. Whoever asked may hang up meanwhile: it is kept and counted all the same.
    async fn open(self: &Arc<Self>, parts: request::Parts, bytes: &Bytes, caller: Caller) -> Result<Response, Refusal> {
        if bytes.len() > LONGEST_INITIALIZE {
            let message = format!("initialize is too long: the limit is {LONGEST_INITIALIZE} bytes");
            return Err(Failure::new(FailureKind::TooLarge, "too_large", message).into());
        }
        let (endpoint, bytes) = (self.clone(), bytes.clone());
        let opening = tokio::spawn(async move {
            let response = endpoint.handle(parts, bytes.clone()).await;
            if let Some(id) = session_of(response.headers()) {
                endpoint.keep(id, &caller, &bytes).await?;
            }
            Ok(response)
        });
        let opened = opening
            .await
            .map_err(|error| self.shared.app.panicked(format!("a session could not be opened: {error}")))?;
        opened.map_err(|failure: Failure| failure.into())
    }

    /// Lets `rmcp` answer. The first request of a session that is not in memory takes it up alone: `rmcp` shows the session
    /// to others before it has greeted it, and a request that comes in between would break it.
    async fn handle(&self, parts: request::Parts, body: Bytes) -> Response {
        let lock = match session_of(&parts.headers) {
            None => None,
            Some(id) => {
                // In this order: a request that takes a session up has the lock before the session is there.
                let is_there = self.manager.has_session(&SessionId::from(id)).await.unwrap_or(false);
                let id = id.to_owned();
                self.restoring.find(&id).or_else(|| (!is_there).then(|| self.restoring.of(id)))
            }
        };
        let _alone = match &lock {
            Some(lock) => Some(lock.acquire().await),
            None => None,
        };
        self.service.handle(Request::from_parts(parts, Full::new(body))).await.map(Body::new)
    }

    /// Answers each message of a list by itself.
    async fn answer_all(
        &self,
        parts: request::Parts,
        body: &Bytes,
        split: Result<Vec<Bytes>, &'static str>,
    ) -> Response {
        let version = parts.headers.get("mcp-protocol-version").and_then(|version| version.to_str().ok());
        let all = match split {
            Ok(_) if version.is_some_and(|version| version > WITH_BATCHES) => {
                return messages::refuse(body, "this protocol version allows one message per body");
            }
            Ok(messages) => messages,
            Err(why) => return messages::refuse(body, why),
        };
        let answers = all.into_iter().map(async |message| {
            if messages::is_initialize(&message) {
                return messages::refuse(&message, "initialize must be the only message of its request");
            }
            let response = self.handle(parts.clone(), message.clone()).await;
            messages::in_protocol(response, &message).await
        });
        messages::join(futures::future::join_all(answers).await).await
    }

    /// Ends a session: in the store first, so that it stays ended.
    async fn close(&self, parts: &request::Parts) -> Result<Response, Refusal> {
        let unknown = || Failure::new(FailureKind::NotFound, "unknown_session", "unknown session");
        let id = session_of(&parts.headers).ok_or_else(unknown)?;
        if !self.sessions.forget(id).await? {
            return Err(unknown().into());
        }
        self.shared.open.remove(id);
        self.manager.put_away(&SessionId::from(id)).await;
        // Somebody may have written them down in between.
        self.sessions.forget_wishes(id).await?;
        // Not 202, which the Python clients take for a failure.
        Ok(StatusCode::NO_CONTENT.into_response())
    }

    /// Whether a session belongs to somebody else. One that nobody knows is not looked for here.
    async fn is_foreign(&self, id: &str, caller: &Caller) -> Result<bool, Failure> {
        if let Some(is_own) = self.shared.open.is_own(id, caller) {
            return Ok(!is_own);
        }
        let is_own = self.sessions.is_of(id, caller).await?;
        if is_own == Some(true) {
            self.add(id, caller).await?;
        }
        Ok(is_own == Some(false))
    }

    /// Keeps a session before its id leaves the server. One that cannot be kept is not opened.
    async fn keep(&self, id: &str, caller: &Caller, body: &Bytes) -> Result<(), Failure> {
        #[derive(Deserialize)]
        struct Initialize {
            params: InitializeRequestParams,
        }
        let Ok(Initialize { params }) = serde_json::from_slice(body) else { return Ok(()) };
        let mut kept = self.sessions.keep(id, caller, params).await;
        if kept.is_ok() {
            kept = self.add(id, caller).await;
        }
        if kept.is_err() {
            self.manager.put_away(&SessionId::from(id)).await;
        }
        kept
    }

    /// Notes a session as open, and puts another away when there are too many.
    async fn add(&self, id: &str, caller: &Caller) -> Result<(), Failure> {
        if let Some(other) = self.shared.open.add(id, caller)? {
            self.manager.put_away(&SessionId::from(other.as_str())).await;
        }
        Ok(())
    }
}

/// Cancelled a little after the server begins to stop: what waits is answered first, with how it stands.
fn last_words(app: &Arc<App>) -> CancellationToken {
    let token = CancellationToken::new();
    let (app, ended) = (app.clone(), token.clone());
    tokio::spawn(async move {
        app.stopping.cancelled().await;
        app.clock.sleep_until(app.clock.now().after(LAST_WORDS)).await;
        ended.cancel();
    });
    token
}

/// Holds the head back for a moment: an answer that comes by then goes out with it in one piece.
async fn hold_head(app: &App, response: Response) -> Response {
    if response.body().size_hint().exact().is_some() {
        return response;
    }
    let (parts, mut body) = response.into_parts();
    let over = app.clock.now().after(app.limits.head_grace);
    let mut first = Vec::new();
    loop {
        let frame = tokio::select! {
            biased;
            frame = body.frame() => frame,
            () = app.clock.sleep_until(over) => break,
        };
        let Some(frame) = frame else { break };
        // The first event of a stream may have an id and nothing else.
        let says =
            |frame: &Frame<Bytes>| frame.data_ref().is_none_or(|data| data.windows(7).any(|part| part == b"data: {"));
        let is_last = frame.as_ref().map_or(true, says);
        first.push(frame);
        if is_last {
            break;
        }
    }
    let frames = futures::stream::iter(first).chain(BodyStream::new(body));
    Response::from_parts(parts, Body::new(StreamBody::new(frames)))
}

fn session_of(headers: &HeaderMap) -> Option<&str> {
    headers.get(SESSION_ID)?.to_str().ok()
}

pub(super) fn accepted() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

/// The toolsets that the address asks for.
fn toolsets(app: &App, parts: &request::Parts) -> Result<Option<Arc<[String]>>, Failure> {
    let Some(query) = parts.uri.query() else { return Ok(None) };
    let mut wanted = None;
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    for (key, value) in pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))) {
        if key != "toolsets" {
            let message = format!("{key:?} is not a query parameter of this URL");
            return Err(
                Failure::new(FailureKind::Invalid, "unknown_key", message).with_hint("the only parameter is toolsets")
            );
        }
        let value = value.replace("%2C", ",").replace("%2c", ",");
        let names: Vec<String> = value.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let known = Offered::toolsets(&app.operations);
        if let Some(unknown) = names.iter().find(|name| !known.contains(&name.as_str())) {
            let guess = closest(unknown, known.iter().copied()).map(|name| format!("did you mean {name}? "));
            let hint = format!("{}known toolsets: {}", guess.unwrap_or_default(), known.join(", "));
            let message = format!("unknown toolset {unknown:?}");
            return Err(Failure::new(FailureKind::Invalid, "unknown_toolset", message).with_hint(hint));
        }
        wanted = Some(names.into());
    }
    Ok(wanted)
}
