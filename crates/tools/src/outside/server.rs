//! An outside server over all its lives: opened when it is first needed, again when it has died, and left alone for a while
//! when it keeps dying.

use std::{
    sync::{
        Arc, Mutex as StdMutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use drawloom_contract::{
    time::Instant,
    tool::{Offer, Step, ToolError},
};
use rmcp::{
    model::{CallToolRequestParams, CallToolResponse},
    service::ServiceError,
};
use serde_json::{Map, Value};
use tokio::sync::Mutex;

use super::{
    OutsideParts, answer,
    config::{McpServerConfig, prefix},
    connection::{self, Connection, Failed, NoList},
    http,
    message::is_unreadable,
    offer, quote,
};

/// How long a server that failed is left alone at first; twice as long after each further failure.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// How long it is left alone at most.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A server that lived this long has not failed when it dies.
const LIVED: Duration = Duration::from_secs(10);

/// How long a caller waits for a server that is left alone; beyond that he is told at once.
const WORTH_WAITING: Duration = Duration::from_secs(3);

/// How long a server may take to answer a ping after it was late for a call.
const PING: Duration = Duration::from_secs(5);

/// How long a run waits at most for a newer list of tools, when there is one that may be good; what comes later is for the
/// next run.
const NEWER_LIST: Duration = Duration::from_secs(2);

/// How long the end of its session may take.
const LEAVE: Duration = Duration::from_secs(3);

/// The longest text of the server's in one of our errors, in bytes.
const LONGEST_QUOTE: usize = 2_000;

/// Most remarks about its tools that are logged.
const MOST_LOGGED: usize = 20;

/// An outside server.
pub(super) struct Server {
    name: String,
    prefix: String,
    config: McpServerConfig,
    parts: OutsideParts,
    /// The connection that calls use. It is not held while a connection is opened or asked.
    current: StdMutex<Option<Current>>,
    state: Mutex<State>,
    /// How many openings have failed. A caller that waited meanwhile gets the same failure.
    failed_openings: AtomicU64,
    /// Whether it is asked the older way at once.
    older: AtomicBool,
}

/// A connection and what it offers.
type Current = (Arc<Connection>, Arc<Offer>);

/// The same; or what is offered without one.
type Reached = Result<Current, Arc<Offer>>;

struct State {
    /// What is offered while it cannot be reached.
    down: Option<Arc<Offer>>,
    /// Failures in a row.
    failures: u32,
    not_before: Instant,
    /// When it is asked again for its tools: they may be others by then, or it did not say the new ones.
    list_again: Option<Instant>,
    /// Whether it did not say them when it was asked last: then it is left alone until that time, whatever it says.
    list_failed: bool,
}

impl Server {
    pub(super) fn new(name: &str, config: McpServerConfig, parts: OutsideParts) -> Self {
        let not_before = Instant::from_origin(Duration::ZERO);
        let state = Mutex::new(State { down: None, failures: 0, not_before, list_again: None, list_failed: false });
        let (failed_openings, older) = (AtomicU64::new(0), AtomicBool::new(false));
        let current = StdMutex::default();
        Self { name: name.to_owned(), prefix: prefix(name), config, parts, current, state, failed_openings, older }
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// What it offers now.
    pub(super) async fn offer(self: &Arc<Self>) -> Arc<Offer> {
        match self.reach().await {
            Ok((_, offer)) | Err(offer) => offer,
        }
    }

    /// Ends its session, when it is reached over HTTP and has one. A program ends with this process anyway.
    pub(super) async fn leave(&self) {
        let current = self.current().take_if(|(connection, _)| connection.is_remote());
        if let Some((connection, _)) = current {
            self.within(LEAVE, connection.leave()).await;
        }
    }

    /// Waits until no caller is opening it.
    #[cfg(test)]
    pub(super) async fn settled(&self) {
        drop(self.state.lock().await);
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Calls one of its tools by the name that it has there.
    pub(super) async fn call(self: &Arc<Self>, tool: &str, arguments: Map<String, Value>) -> Result<Step, ToolError> {
        let mut connection = self.connection(tool).await?;
        let mut asked = self.ask(&connection, tool, arguments.clone()).await;
        // A server that does not know the session has not made the call. Others may still be under way in it.
        if matches!(&asked, Some(Err(failed)) if failed.is_session_lost()) {
            self.retire(&connection);
            connection = self.connection(tool).await?;
            asked = self.ask(&connection, tool, arguments).await;
        }
        let name = &self.name;
        let failed = |why: String| Err(ToolError::Failed(why));
        match asked {
            None => {
                self.look_after(connection);
                failed(format!(
                    "`{tool}` on the MCP server {name} timed out after {} ms (mcp_servers.{name}.timeout_ms); the \
                     call may have taken effect, and a late response is dropped",
                    self.config.timeout_ms
                ))
            }
            Some(Ok(CallToolResponse::Complete(result))) => {
                answer::step(&result, self.config.max_output_bytes, &self.parts.redactor)
            }
            Some(Ok(CallToolResponse::InputRequired(_))) => {
                failed(format!("`{tool}` of the MCP server {name} requires user input, which agents cannot provide"))
            }
            Some(Ok(_)) => failed(format!(
                "unsupported response of the MCP server {name} to `{tool}`. The call may have taken effect"
            )),
            Some(Err(Failed { error: ServiceError::McpError(error), .. })) if is_unreadable(&error) => failed(format!(
                "cannot read the response of the MCP server {name} to `{tool}`: {}. The call may have taken effect",
                quote(&self.parts.redactor, &error.message, LONGEST_QUOTE)
            )),
            Some(Err(Failed { error: ServiceError::McpError(error), .. })) => failed(quote(
                &self.parts.redactor,
                &format!("the MCP server {name} rejected `{tool}`: {} (code {})", error.message, error.code.0),
                LONGEST_QUOTE,
            )),
            Some(Err(Failed { error: ServiceError::UnexpectedResponse, .. })) => failed(format!(
                "the response of the MCP server {name} to `{tool}` is not a tool result. The call may have taken \
                 effect"
            )),
            Some(Err(error)) => failed(self.broke(&connection, tool, error).await),
        }
    }

    /// An open connection for a call. Whether its list of tools is another one by now does not matter here.
    async fn connection(self: &Arc<Self>, tool: &str) -> Result<Arc<Connection>, ToolError> {
        let reached = match self.open_now() {
            Some(current) => Ok(current),
            None => self.reach().await,
        };
        reached.map(|(connection, _)| connection).map_err(|down| {
            let why = down.unavailable.clone().unwrap_or_default();
            ToolError::Failed(format!("`{tool}` was not called: {why}"))
        })
    }

    /// Asks for a call; nothing when there is no answer in time.
    async fn ask(
        &self,
        connection: &Connection,
        tool: &str,
        arguments: Map<String, Value>,
    ) -> Option<Result<CallToolResponse, Failed>> {
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        self.within(Duration::from_millis(self.config.timeout_ms), connection.call(params)).await
    }

    /// The connection, when there is one that is open.
    fn open_now(&self) -> Option<Current> {
        self.current().clone().filter(|(connection, _)| connection.is_open())
    }

    fn current(&self) -> std::sync::MutexGuard<'_, Option<Current>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets go of a connection without ending it: it ends with the last call that is under way there.
    fn retire(&self, connection: &Arc<Connection>) {
        self.current().take_if(|(current, _)| Arc::ptr_eq(current, connection));
    }

    /// What is said of a call that broke off. Over HTTP others may be under way that have nothing to do with it: only a
    /// server that does not answer any more is let go of.
    async fn broke(&self, connection: &Connection, tool: &str, failed: Failed) -> String {
        let not_done = failed.is_session_lost();
        let (why, done) = match (failed.error, failed.stream_error) {
            (ServiceError::TransportSend(error), _) => {
                let not_done = not_done || http::Error::find(&error).is_some_and(http::Error::is_not_done);
                (connection::plain(&error.error.to_string(), &self.parts.redactor), !not_done)
            }
            (_, Some(stream_error)) => (stream_error, true),
            (_, None) => (connection.why().await, true),
        };
        let why = self.config.without_query(&why);
        let answers = connection.is_remote()
            && connection.is_open()
            && self.within(PING, connection.answers()).await.unwrap_or_default();
        if !answers {
            connection.end(&format!("a call failed: {why}"));
        }
        let name = &self.name;
        match (done, answers) {
            (false, _) => format!("`{tool}` was not called: the MCP server {name} did not accept the request: {why}"),
            (true, true) => format!(
                "the MCP server {name} failed during `{tool}`: {why}. The call may have taken effect; other calls \
                 are not affected"
            ),
            (true, false) => format!(
                "the MCP server {name} failed during `{tool}`: {why}. The call may have taken effect; the server is \
                 restarted at the next call"
            ),
        }
    }

    /// An open connection and what it offers; or what is offered without one. It takes as long as a start may, at most.
    async fn reach(self: &Arc<Self>) -> Reached {
        // In a task of its own, so that one who does not wait any longer does not break it off for the others.
        let server = self.clone();
        let mut opening = tokio::spawn(async move { server.open().await });
        let limit = Duration::from_millis(self.config.start_timeout_ms);
        let is_there = self.open_now().is_some_and(|(connection, _)| !connection.has_changed());
        let mut opened = None;
        if is_there {
            opened = self.within(limit.min(NEWER_LIST), &mut opening).await;
            if let Some(current) = self.open_now().filter(|_| opened.is_none()) {
                return Ok(current);
            }
        }
        if opened.is_none() {
            opened = self.within(limit, opening).await;
        }
        match opened {
            Some(Ok(reached)) => reached,
            Some(Err(_)) => Err(self.unavailable("internal error while connecting; see the server log")),
            // Its new list of tools may be what takes so long.
            None => self.open_now().ok_or_else(|| self.unavailable(&self.too_slow())),
        }
    }

    async fn open(self: &Arc<Self>) -> Reached {
        let failed_before = self.failed_openings.load(Ordering::SeqCst);
        let mut state = self.state.lock().await;
        let current = self.current().clone();
        if let Some((connection, offer)) = current {
            if connection.is_open() {
                let now = self.parts.clock.now();
                let is_due = state.list_again.take_if(|at| *at <= now).is_some();
                let is_wanted = is_due || (!state.list_failed && connection.take_changed());
                if !is_wanted {
                    return Ok((connection, offer));
                }
                match self.listed(&connection).await {
                    Ok(listed) => return self.settle(&mut state, Ok((connection, listed))),
                    // Calls may still be under way in it.
                    Err(failed) if failed.is_session_lost => {
                        self.retire(&connection);
                        let opened = self.opened().await;
                        return self.settle(&mut state, opened);
                    }
                    Err(failed) if connection.is_open() => {
                        let why = self.config.without_query(&failed.why);
                        tracing::warn!(server = %self.name, %why, "cannot list the new tools of an MCP server");
                        state.list_again = Some(self.parts.clock.now().after(LONGEST_PAUSE));
                        state.list_failed = true;
                        return Ok((connection, offer));
                    }
                    Err(_) => {}
                }
            }
            self.retire(&connection);
            self.note_death(&mut state, &connection).await;
        }
        // All who waited for the same opening share its failure, instead of trying one after the other.
        if self.failed_openings.load(Ordering::SeqCst) != failed_before
            && let Some(down) = &state.down
        {
            return Err(down.clone());
        }
        let wait = state.not_before.since(self.parts.clock.now());
        if wait > WORTH_WAITING
            && let Some(down) = &state.down
        {
            return Err(down.clone());
        }
        self.parts.clock.sleep_until(state.not_before).await;
        let opened = self.opened().await;
        self.settle(&mut state, opened)
    }

    /// Opens a connection and asks for the tools.
    async fn opened(&self) -> Result<(Arc<Connection>, offer::List), String> {
        let limit = Duration::from_millis(self.config.start_timeout_ms);
        let work = async {
            let connection = Arc::new(connection::open(&self.config, &self.parts, &self.older).await?);
            let listed = connection.list().await.map_err(|failed| failed.why)?;
            Ok((connection, listed))
        };
        self.within(limit, work).await.unwrap_or_else(|| Err(self.too_slow()))
    }

    /// Asks for the tools again.
    async fn listed(&self, connection: &Connection) -> Result<offer::List, NoList> {
        let limit = Duration::from_millis(self.config.start_timeout_ms);
        self.within(limit, connection.list()).await.unwrap_or_else(|| Err(NoList::of(self.too_slow())))
    }

    /// What is offered when it cannot be reached.
    fn unavailable(&self, why: &str) -> Arc<Offer> {
        let why = format!("the MCP server {} is not available: {}", self.name, self.config.without_query(why));
        Arc::new(Offer { unavailable: Some(why), ..Offer::default() })
    }

    fn too_slow(&self) -> String {
        let (name, limit) = (&self.name, self.config.start_timeout_ms);
        format!("timed out after {limit} ms listing its tools (mcp_servers.{name}.start_timeout_ms)")
    }

    fn settle(self: &Arc<Self>, state: &mut State, opened: Result<(Arc<Connection>, offer::List), String>) -> Reached {
        match opened {
            Ok((connection, listed)) => {
                let again = listed.good_for.map(|time| self.parts.clock.now().after(time));
                let mut offer = Arc::new(offer::offer(self, &self.prefix, &self.config, listed));
                let before = self.current().clone().filter(|(current, _)| Arc::ptr_eq(current, &connection));
                match before.filter(|(_, before)| offer::is_same(before, &offer)) {
                    Some((_, before)) => offer = before,
                    None => self.note_offer(&offer),
                }
                *self.current() = Some((connection.clone(), offer.clone()));
                (state.down, state.list_again, state.list_failed) = (None, again, false);
                Ok((connection, offer))
            }
            Err(why) => {
                self.fail(state);
                self.failed_openings.fetch_add(1, Ordering::SeqCst);
                let down = self.unavailable(&why);
                tracing::warn!(server = %self.name, "{}", down.unavailable.as_deref().unwrap_or_default());
                state.down = Some(down.clone());
                Err(down)
            }
        }
    }

    /// Logs what is new.
    fn note_offer(&self, offer: &Offer) {
        tracing::info!(server = %self.name, tools = offer.tools.len(), "connected to MCP server");
        for remark in offer.remarks.iter().take(MOST_LOGGED) {
            tracing::warn!(server = %self.name, "{}", remark.text);
        }
        if offer.remarks.len() > MOST_LOGGED {
            tracing::warn!(server = %self.name, more = offer.remarks.len() - MOST_LOGGED, "more warnings of this MCP server are not logged");
        }
    }

    /// The server ended a connection: one that lasted only shortly counts as failed.
    async fn note_death(&self, state: &mut State, connection: &Connection) {
        let why = self.config.without_query(&connection.why().await);
        tracing::warn!(server = %self.name, %why, "MCP server exited; restarting it");
        if self.parts.clock.now().since(connection.since) < LIVED {
            self.fail(state);
            let why = format!("the MCP server {} keeps exiting: {why}", self.name);
            state.down = Some(Arc::new(Offer { unavailable: Some(why), ..Offer::default() }));
        } else {
            state.failures = 0;
        }
    }

    fn fail(&self, state: &mut State) {
        let pause = FIRST_PAUSE * 2_u32.saturating_pow(state.failures.min(6));
        state.failures = state.failures.saturating_add(1);
        state.not_before = self.parts.clock.now().after(pause.min(LONGEST_PAUSE));
    }

    /// Finds out in the background whether a server that was late still answers anything; if not, it is ended, so that the
    /// next call finds a new one.
    fn look_after(&self, connection: Arc<Connection>) {
        let clock = self.parts.clock.clone();
        tokio::spawn(async move {
            let late = clock.sleep_until(clock.now().after(PING));
            let answers = tokio::select! {
                answers = connection.answers() => answers,
                () = late => false,
            };
            if !answers {
                connection.end("it did not respond to a ping after a call timed out and was stopped");
            }
        });
    }

    /// What `work` comes to, unless it takes longer than `limit`.
    async fn within<T>(&self, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
        let clock = &self.parts.clock;
        tokio::select! {
            done = work => Some(done),
            () = clock.sleep_awake_until(clock.awake().after(limit)) => None,
        }
    }
}
