//! The way in: who calls is found out on every request, then `rmcp` takes over.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{
    body::Body,
    extract::Request,
    http::{HeaderMap, Method, StatusCode, request},
    response::Response,
};
use bytes::Bytes;
use drawloom_contract::{
    caller::Caller,
    failure::{Failure, FailureKind},
    ids::{Tenant, UserId},
    journal::HandleId,
};
use drawloom_wire::validate::closest;
use http_body_util::Full;
use rmcp::{
    model::InitializeRequestParams,
    transport::{
        StreamableHttpServerConfig, StreamableHttpService,
        streamable_http_server::session::{SessionId, SessionManager},
    },
};
use serde::Deserialize;
use tokio::sync::broadcast;

use crate::{
    app::App,
    mcp::{
        CALL_KEY, Offered,
        calls::{Calls, is_timeout},
        handler::Handler,
        manager::Manager,
        sessions::Sessions,
        table::{Change, Table, View},
    },
    rest::{Refusal, read_body},
};

pub(super) const SESSION_ID: &str = "mcp-session-id";

/// Silence on a stream of events before a comment is sent.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How many sessions are open at once. When there are more, the one that was not used for the longest time is put away.
const OPEN_SESSIONS: usize = 1_024;

/// Who opened a session, and when it was last used.
struct Known {
    tenant: Tenant,
    subject: UserId,
    used: u64,
}

/// The name of a call, for an explicit cancel.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct CallName {
    pub(super) tenant: Tenant,
    pub(super) subject: UserId,
    pub(super) key: String,
}

/// What all sessions share.
pub(super) struct Shared {
    pub(super) app: Arc<App>,
    pub(super) tables: Vec<Arc<dyn Table>>,
    pub(super) calls: Arc<Calls<CallName>>,
    pub(super) changes: broadcast::Sender<Change>,
}

/// MCP over streamable HTTP.
pub(crate) struct Endpoint {
    shared: Arc<Shared>,
    sessions: Arc<Sessions>,
    service: StreamableHttpService<Handler, Manager>,
    manager: Arc<Manager>,
    /// The sessions that were used lately.
    known: Mutex<HashMap<String, Known>>,
    uses: AtomicU64,
}

impl Endpoint {
    /// The endpoint with the operations, and the tables beside them.
    pub(crate) fn new(app: &Arc<App>) -> Arc<Self> {
        let mut tables: Vec<Arc<dyn Table>> = vec![Arc::new(Offered::new())];
        tables.extend(app.tables.iter().cloned());
        let (changes, _) = broadcast::channel(64);
        let shared = Arc::new(Shared { app: app.clone(), tables, calls: Arc::default(), changes });
        let sessions = Arc::new(Sessions::new(app.clone()));
        // Origin and Host are checked for every surface alike, before this.
        let mut config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_sse_keep_alive(Some(KEEP_ALIVE))
            .with_json_response(true)
            .with_cancellation_token(app.stopping.child_token())
            .with_max_request_body_bytes(app.limits.body);
        config.session_store = Some(sessions.clone());
        let for_handlers = shared.clone();
        let manager = Arc::new(Manager::new(shared.clone(), sessions.clone()));
        let make = move || Ok(Handler::new(for_handlers.clone()));
        let service = StreamableHttpService::new(make, manager.clone(), config);
        Arc::new(Self { shared, sessions, service, manager, known: Mutex::default(), uses: AtomicU64::new(0) })
    }

    /// Answers one request.
    pub(crate) async fn answer(&self, request: Request) -> Result<Response, Refusal> {
        let app = &self.shared.app;
        let (mut parts, body) = request.into_parts();
        let caller = app.auth.identify(&parts.headers).map_err(Refusal::unknown_caller)?;
        let toolsets = toolsets(&parts)?;
        if let Some(id) = session_of(&parts.headers)
            && self.is_foreign(id, &caller).await?
        {
            // Somebody else's session is no session.
            let failure = Failure::new(FailureKind::NotFound, "unknown_session", "there is no such session")
                .with_hint("send initialize to open one");
            return Err(failure.into());
        }
        let held = match parts.method {
            Method::POST => Some(read_body(app, &parts.headers, body, app.limits.body).await?),
            _ => None,
        };
        let bytes = held.as_ref().map(|held| held.bytes.clone()).unwrap_or_default();
        if self.cancels(&caller, &bytes).await {
            return Ok(accepted());
        }
        parts.extensions.insert(View { caller: caller.clone(), toolsets });
        let opens = parts.method == Method::POST && session_of(&parts.headers).is_none();
        let request = Request::from_parts(parts, Full::new(bytes.clone()));
        let response = self.service.handle(request).await.map(Body::new);
        if opens && let Some(id) = session_of(response.headers()) {
            self.keep(id, &caller, &bytes).await?;
        }
        Ok(response)
    }

    /// Whether a session belongs to somebody else. One that nobody knows is not looked for here.
    async fn is_foreign(&self, id: &str, caller: &Caller) -> Result<bool, Failure> {
        let is_own = self.is_own(id, caller);
        if let Some(is_own) = is_own {
            return Ok(!is_own);
        }
        let is_own = self.sessions.is_of(id, caller).await?;
        if is_own == Some(true) {
            self.remember(id, caller).await;
        }
        Ok(is_own == Some(false))
    }

    fn is_own(&self, id: &str, caller: &Caller) -> Option<bool> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let session = known.get_mut(id)?;
        let is_own = session.tenant == caller.tenant && session.subject == caller.subject;
        if is_own {
            session.used = self.uses.fetch_add(1, Ordering::Relaxed);
        }
        Some(is_own)
    }

    /// Keeps a session before its id leaves the server. One that cannot be kept is not opened.
    async fn keep(&self, id: &str, caller: &Caller, body: &Bytes) -> Result<(), Failure> {
        #[derive(Deserialize)]
        struct Initialize {
            params: InitializeRequestParams,
        }
        let Ok(Initialize { params }) = serde_json::from_slice(body) else { return Ok(()) };
        let kept = self.sessions.keep(id, caller, params).await;
        match &kept {
            Ok(()) => self.remember(id, caller).await,
            Err(_) => self.put_away(id).await,
        }
        kept
    }

    async fn remember(&self, id: &str, caller: &Caller) {
        let used = self.uses.fetch_add(1, Ordering::Relaxed);
        let oldest = {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            let oldest = (known.len() >= OPEN_SESSIONS)
                .then(|| known.iter().min_by_key(|(_, session)| session.used).map(|(id, _)| id.clone()))
                .flatten();
            if let Some(oldest) = &oldest {
                known.remove(oldest);
            }
            let session = Known { tenant: caller.tenant.clone(), subject: caller.subject.clone(), used };
            known.insert(id.to_owned(), session);
            oldest
        };
        if let Some(oldest) = oldest {
            self.put_away(&oldest).await;
        }
    }

    async fn put_away(&self, id: &str) {
        if let Err(error) = self.manager.close_session(&SessionId::from(id)).await {
            tracing::debug!(%error, "a session could not be put away");
        }
    }

    /// Takes an explicit cancel that names its call by key: the newer protocol has no other way to say it over HTTP.
    async fn cancels(&self, caller: &Caller, body: &[u8]) -> bool {
        #[derive(Deserialize)]
        struct Cancelled {
            method: String,
            params: Params,
        }
        #[derive(Deserialize)]
        struct Params {
            #[serde(default)]
            reason: Option<String>,
            #[serde(rename = "_meta", default)]
            meta: serde_json::Map<String, serde_json::Value>,
        }
        const METHOD: &str = "notifications/cancelled";
        // Parsing is for the few that can be it.
        if body.len() > 16 * 1024 || !body.windows(METHOD.len()).any(|window| window == METHOD.as_bytes()) {
            return false;
        }
        let Ok(Cancelled { method, params }) = serde_json::from_slice(body) else { return false };
        let Some(key) = params.meta.get(CALL_KEY).and_then(|key| key.as_str()) else { return false };
        let name = CallName { tenant: caller.tenant.clone(), subject: caller.subject.clone(), key: key.to_owned() };
        if method != METHOD {
            return false;
        }
        if self.shared.calls.cancel(&name, params.reason.clone()) {
            return true;
        }
        match cancel_started(&self.shared.app, caller, key, params.reason.as_deref()).await {
            Ok(found) => found,
            Err(failure) => {
                tracing::warn!(error = %failure, "what a cancelled call had started could not be stopped");
                false
            }
        }
    }
}

/// Cancels what a call had started that nobody waits for here any more: the server was restarted since, or its caller
/// was gone for a while. A call that was not accepted started nothing.
async fn cancel_started(app: &App, caller: &Caller, key: &str, reason: Option<&str>) -> Result<bool, Failure> {
    if is_timeout(reason) {
        return Ok(false);
    }
    for operation in ["spawn_run", "spawn_runs"] {
        let runs = match app.runs.find_keyed(caller, operation, key).await? {
            None => continue,
            Some(HandleId::Run(run)) => vec![run],
            Some(HandleId::Batch(batch)) => {
                app.runs.load_batch(caller, batch).await?.into_iter().map(|view| view.run).collect()
            }
        };
        for run in runs {
            app.runs.cancel(caller, run, Some("the call was cancelled over MCP".into())).await?;
        }
        return Ok(true);
    }
    Ok(false)
}

fn session_of(headers: &HeaderMap) -> Option<&str> {
    headers.get(SESSION_ID)?.to_str().ok()
}

fn accepted() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

/// The toolsets that the address asks for.
fn toolsets(parts: &request::Parts) -> Result<Option<Arc<[String]>>, Failure> {
    let Some(query) = parts.uri.query() else { return Ok(None) };
    let invalid = |code, message: String| Failure::new(FailureKind::Invalid, code, message);
    let mut wanted = None;
    for (key, value) in
        query.split('&').filter(|pair| !pair.is_empty()).map(|pair| pair.split_once('=').unwrap_or((pair, "")))
    {
        if key != "toolsets" {
            return Err(invalid("unknown_key", format!("{key:?} is not a parameter of this address"))
                .with_hint("the only one is toolsets"));
        }
        let value = value.replace("%2C", ",").replace("%2c", ",");
        let names: Vec<String> = value.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let known = Offered::toolsets();
        if let Some(unknown) = names.iter().find(|name| !known.contains(&name.as_str())) {
            let guess = closest(unknown, known.iter().copied()).map(|name| format!("did you mean {name}? "));
            return Err(invalid("unknown_toolset", format!("there is no toolset {unknown:?}")).with_hint(format!(
                "{}there are {}",
                guess.unwrap_or_default(),
                known.join(", ")
            )));
        }
        wanted = Some(names.into());
    }
    Ok(wanted)
}
