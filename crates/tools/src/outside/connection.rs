//! One connection to an outside server, from its opening to its end.

pub(super) mod list;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use drawloom_contract::{
    VERSION,
    failure::Explain as _,
    redact::Redactor,
    time::{Clock, Instant},
};
use drawloom_net::Configured;
use drawloom_process::{Gone, Service, Serving};
use rmcp::{
    Peer, RoleClient,
    model::{
        CallToolRequest, CallToolRequestParams, CallToolResponse, CancelledNotificationParam, ClientCapabilities,
        ClientConfig, ClientRequest, Implementation, PingRequest, ProtocolVersion, RequestId, ServerResult,
    },
    service::{
        ClientInitializeError, ClientLifecycleMode, ClientServiceExt as _, PeerRequestOptions, RunningService,
        ServiceError,
    },
    transport::{StreamableHttpClientTransport, streamable_http_client::StreamableHttpClientTransportConfig},
};
use tokio::sync::watch;

pub(super) use list::NoList;

use super::{
    OutsideParts,
    config::{ALWAYS, McpServerConfig},
    filter::{ConnectionState, Filter, Filtered},
    http::{self, Http},
    probe::{NEWER, ProbeTimeout},
    quote,
    stdio::{LONGEST_MESSAGE, Lines},
};

/// How long a program has to end by itself, and again until it is killed.
const GRACE: Duration = Duration::from_secs(2);

/// How long the end of a program is waited for once its pipes have ended, to say how it ended.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// The longest text of a server in one of our errors, in bytes.
const LONGEST_QUOTE: usize = 600;

/// An open connection.
pub(super) struct Connection {
    service: RunningService<RoleClient, ClientConfig>,
    end: End,
    pub(super) since: Instant,
}

/// How it will have ended.
#[derive(Clone)]
struct End {
    state: Arc<ConnectionState>,
    redactor: Arc<Redactor>,
    clock: Arc<dyn Clock>,
    /// The end of the program, when there is one.
    program: Option<watch::Receiver<Option<Gone>>>,
}

impl End {
    /// Why the connection ended: how the program did, else what was seen on the pipes.
    async fn why(&self) -> String {
        let mut why = self.state.why().unwrap_or_else(|| "the connection ended".into());
        if let Some(ended) = &self.program {
            let mut ended = ended.clone();
            let gone = tokio::select! {
                gone = ended.wait_for(Option::is_some) => gone.ok().and_then(|gone| gone.clone()),
                () = self.clock.sleep_until(self.clock.now().after(LAST_WORDS)) => None,
            };
            if let Some(Gone { how, said, .. }) = gone {
                // Whom we hung up on, we ended too.
                why = if self.state.is_by_us() { why } else { how };
                if !said.is_empty() {
                    why.push_str(&format!("; last output: {}", quote(&self.redactor, &said, LONGEST_QUOTE)));
                }
            }
        }
        why
    }
}

/// Opens a connection. Both eras of the protocol are tried: the stateless one first, and the one with a handshake when the
/// server does not know it. `older` keeps whether finding that out took long, so that it is not tried at every start.
pub(super) async fn open(
    config: &McpServerConfig,
    parts: &OutsideParts,
    older: &AtomicBool,
) -> Result<Connection, String> {
    // Should it fail now, both are tried again.
    let known_older = older.swap(false, Ordering::SeqCst);
    let both = match known_older {
        true => ClientLifecycleMode::Initialize,
        false => ClientLifecycleMode::Auto {
            preferred_versions: vec![NEWER],
            legacy_version: Some(ProtocolVersion::V_2025_11_25),
        },
    };
    let keep = |connection: Connection, asked_older: bool| {
        older.store(known_older || asked_older || connection.end.state.was_silent(), Ordering::SeqCst);
        connection
    };
    let probe_timeout = ProbeTimeout::of_start(Duration::from_millis(config.start_timeout_ms), parts.clock.clone());
    let Some(url) = &config.url else {
        let (error, retry) = match open_program(config, parts, both, probe_timeout.clone()).await {
            Ok(connection) => return Ok(keep(connection, false)),
            Err(failed) => failed,
        };
        // Some end at a question that they do not know: those are started once more and asked the older way.
        return match retry {
            Retry::Older => {
                let opened = open_program(config, parts, ClientLifecycleMode::Initialize, probe_timeout).await;
                opened.map(|connection| keep(connection, true)).map_err(|(error, _)| error)
            }
            Retry::No => Err(error),
        };
    };
    let client = Configured::new().map_err(|error| error.to_string())?;
    let value = |variable: &String| match parts.environment.get(variable) {
        Some(value) => Ok(value.clone()),
        None => Err(format!("{variable}, which holds its credential, is not set")),
    };
    let header = |(name, variable): (&String, &String)| Ok::<_, String>((name.clone(), value(variable)?));
    let headers = config.headers_env.iter().map(header).collect::<Result<Vec<_>, _>>()?;
    let mut transport = StreamableHttpClientTransportConfig::with_uri(url.as_str())
        .max_sse_event_size(LONGEST_MESSAGE)
        // A new session would break off the calls that are under way in the old one; `server` opens another connection.
        .reinit_on_expired_session(false);
    if let Some(variable) = &config.bearer_env {
        transport = transport.auth_header(value(variable)?);
    }
    let state = Arc::<ConnectionState>::default();
    let http = Http::new(client, headers, state.clone(), parts.redactor.clone(), probe_timeout);
    let inner = StreamableHttpClientTransport::with_client(http, transport);
    let end = End { state: state.clone(), redactor: parts.redactor.clone(), program: None, clock: parts.clock.clone() };
    match this_client(&both).serve_with_lifecycle(Filtered { inner, filter: Filter::new(state) }, both).await {
        Ok(service) => Ok(keep(Connection { service, end, since: parts.clock.now() }, false)),
        Err(error) => Err(described(&error, &parts.redactor)),
    }
}

/// Whether a program that could not be talked to may be asked the older way.
enum Retry {
    Older,
    No,
}

async fn open_program(
    config: &McpServerConfig,
    parts: &OutsideParts,
    lifecycle: ClientLifecycleMode,
    probe_timeout: ProbeTimeout,
) -> Result<Connection, (String, Retry)> {
    let (program, args) = config.command.split_first().ok_or_else(|| ("it has no command".to_owned(), Retry::No))?;
    let always = ALWAYS.iter().map(|name| ((*name).to_owned(), (*name).to_owned()));
    let named = config.env.iter().map(|(child, variable)| (child.clone(), variable.clone()));
    let value = |(child, variable)| Some((child, parts.environment.get::<String>(&variable)?.clone()));
    if let Some(directory) = config.cwd.as_ref().filter(|directory| !directory.is_dir()) {
        return Err((format!("its `cwd` {} is not a directory", directory.display()), Retry::No));
    }
    let service = Service {
        program: program.clone(),
        args: args.to_vec(),
        directory: config.cwd.clone(),
        // What is named last counts, so that the operator can give another HOME.
        environment: always.chain(named).filter_map(value).collect(),
        grace: GRACE,
    };
    let serving = parts.launcher.serve(&service).await.map_err(|error| {
        let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
        (format!("{error}{hint}"), Retry::No)
    })?;
    let Serving { input, output, mut watch } = serving;
    let (tell, ended) = watch::channel(None);
    let state = Arc::<ConnectionState>::default();
    let redactor = parts.redactor.clone();
    let end =
        End { state: state.clone(), redactor: redactor.clone(), program: Some(ended), clock: parts.clock.clone() };
    let clock = parts.clock.clone();
    tokio::spawn(async move {
        let gone = watch.ended(&*clock).await;
        tell.send_replace(Some(gone));
    });
    let lines = Lines::new(output, input, Filter::new(state), probe_timeout, redactor);
    match this_client(&lifecycle).serve_with_lifecycle(lines, lifecycle).await {
        Ok(service) => Ok(Connection { service, end, since: parts.clock.now() }),
        Err(error) => match end.state.why() {
            None => Err((described(&error, &parts.redactor), Retry::No)),
            Some(_) => {
                let why = end.why().await;
                let started =
                    end.program.as_ref().is_none_or(|ended| ended.borrow().as_ref().is_none_or(|gone| gone.started));
                let retry = if started && !end.state.is_by_us() { Retry::Older } else { Retry::No };
                Err((why, retry))
            }
        },
    }
}

impl Connection {
    /// Whether it has not ended.
    pub(super) fn is_open(&self) -> bool {
        !self.end.state.is_closed() && !self.service.peer().is_transport_closed()
    }

    /// Whether the server said that its tools have changed since this was last asked.
    pub(super) fn take_changed(&self) -> bool {
        self.end.state.take_changed()
    }

    /// Whether it said so, without taking note.
    pub(super) fn has_changed(&self) -> bool {
        self.end.state.has_changed()
    }

    /// Why it ended.
    pub(super) async fn why(&self) -> String {
        self.end.why().await
    }

    /// Ends it, for a reason that calls in flight are told. A program's input ends with it, also when the program does not
    /// read it, and then the launcher ends the program and all that it started.
    pub(super) fn end(&self, why: &str) {
        self.end.state.hang_up(why);
        self.end.state.close();
        self.service.cancellation_token().cancel();
    }

    /// Ends it, and waits until its session has ended when there is one.
    pub(super) async fn leave(&self) {
        self.end("drawloom is shutting down");
        self.end.state.session_ended().await;
    }

    /// Calls a tool. When the future is dropped, the call is cancelled.
    pub(super) async fn call(&self, params: CallToolRequestParams) -> Result<CallToolResponse, Failed> {
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let (answered, stream_error) = self.ask(request).await;
        match answered {
            Ok(ServerResult::CallToolResult(result)) => Ok(CallToolResponse::Complete(result)),
            Ok(ServerResult::InputRequiredResult(result)) => Ok(CallToolResponse::InputRequired(result)),
            Ok(ServerResult::CreateTaskResult(result)) => Ok(CallToolResponse::Task(result)),
            Ok(_) => Err(Failed { error: ServiceError::UnexpectedResponse, stream_error: None }),
            Err(error) => Err(Failed { error, stream_error }),
        }
    }

    /// Asks, and returns the answer with what happened to it, when that is known. When the future is dropped, the server and
    /// the library are told that the call is cancelled: over HTTP the library asks but so many things at once.
    async fn ask(&self, request: ClientRequest) -> (Result<ServerResult, ServiceError>, Option<String>) {
        let peer = self.service.peer();
        let handle = match peer.send_request_with_option(request, PeerRequestOptions::no_options()).await {
            Ok(handle) => handle,
            Err(error) => return (Err(error), None),
        };
        let waiting = Waiting { peer: peer.clone(), state: self.end.state.clone(), id: Some(handle.id.clone()) };
        let answered = handle.await_response().await;
        (answered, waiting.end())
    }

    /// Whether it answers anything at all; it need not know what a ping is.
    pub(super) async fn answers(&self) -> bool {
        match self.ask(ClientRequest::PingRequest(PingRequest::default())).await.0 {
            Ok(_) | Err(ServiceError::McpError(_) | ServiceError::UnexpectedResponse) => true,
            Err(ServiceError::TransportSend(error)) => {
                http::is_session_lost(&error) || http::Error::find(&error).is_some_and(http::Error::is_answer)
            }
            Err(_) => false,
        }
    }

    /// Whether every call has a way of its own to the server, so that one can fail without the others.
    pub(super) fn is_remote(&self) -> bool {
        self.end.program.is_none()
    }
}

fn is_session_lost(error: &ServiceError) -> bool {
    matches!(error, ServiceError::TransportSend(error) if http::is_session_lost(error))
}

/// Why a call has no result, and what happened to its own answer, when that is known.
pub(super) struct Failed {
    pub(super) error: ServiceError,
    pub(super) stream_error: Option<String>,
}

impl Failed {
    /// Whether the server does not know the session any more, and so has not made the call.
    pub(super) fn is_session_lost(&self) -> bool {
        is_session_lost(&self.error)
    }
}

/// A caller that waits for an answer.
struct Waiting {
    peer: Peer<RoleClient>,
    state: Arc<ConnectionState>,
    id: Option<RequestId>,
}

impl Waiting {
    /// It came, or will not come; what happened to it, when that is known.
    fn end(mut self) -> Option<String> {
        self.id.take().and_then(|id| self.state.take_stream_error(&id))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        self.state.take_stream_error(&id);
        let peer = self.peer.clone();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            // Whether it reaches a server that is gone does not matter.
            runtime.spawn(async move { peer.notify_cancelled(CancelledNotificationParam::new(Some(id), None)).await });
        }
    }
}

fn this_client(lifecycle: &ClientLifecycleMode) -> ClientConfig {
    let client = ClientConfig::new(ClientCapabilities::default(), Implementation::new("drawloom", VERSION));
    match lifecycle {
        // The newest version of all has no handshake.
        ClientLifecycleMode::Initialize => client.with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE),
        _ => client,
    }
}

/// Why the beginning failed, in words that name what happened and not the library.
fn described(error: &ClientInitializeError, redactor: &Redactor) -> String {
    let text = match error {
        ClientInitializeError::JsonRpcError(error) => format!("initialization failed: {}", error.message),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => return described(fallback, redactor),
        ClientInitializeError::TransportError { error, .. } => error.error.to_string(),
        other => other.to_string(),
    };
    plain(&text, redactor)
}

/// A text of the library's without what only its authors want to know.
pub(super) fn plain(text: &str, redactor: &Redactor) -> String {
    let prefixes = ["Client error: ", "unexpected server response: "];
    // What the library says of it names a status that may have been another one.
    if text.starts_with("Session expired") {
        return "unknown session".into();
    }
    let plain = prefixes.iter().find_map(|prefix| text.strip_prefix(prefix)).unwrap_or(text);
    quote(redactor, plain, LONGEST_QUOTE)
}
