//! Sessions in memory, with streams that a client can take up again after the server was restarted: the id of each event
//! says of which call it is, and notes say what that call waits for.

use std::{
    collections::{HashMap, hash_map::Entry},
    fmt,
    future::Future,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use drawloom_contract::failure::Failure;
use futures::{Stream, StreamExt as _};
use rmcp::{
    ErrorData,
    model::{
        CallToolResult, ClientJsonRpcMessage, ClientNotification, ClientRequest, GetMeta as _, ProgressNotification,
        ProgressNotificationParam, RequestId, ServerJsonRpcMessage, ServerNotification, ServerResult,
    },
    transport::streamable_http_server::session::{
        RestoreOutcome, ServerSseMessage, SessionId, SessionManager,
        local::{LocalSessionManager, LocalSessionManagerError},
    },
};
use tokio::sync::mpsc;

use crate::mcp::{
    CALL_KEY,
    calls::{Cancel, What, is_timeout},
    cancel, clients,
    endpoint::Shared,
    handler::unreadable,
    notes::{self, Notes},
    sessions::Sessions,
    table::View,
    wait::{Listener, Waiting, stop},
};

/// A session that nobody used for so long is put away; it is taken up again when it is used.
const SESSION_IDLE: Duration = Duration::from_secs(30 * 60);

/// Events of a stream.
type Events = Pin<Box<dyn Stream<Item = ServerSseMessage> + Send + Sync>>;

/// Sessions in memory.
pub(super) struct Manager {
    inner: LocalSessionManager,
    shared: Arc<Shared>,
    sessions: Arc<Sessions>,
    /// This process, so that an event of an earlier one is known.
    boot: String,
    /// Numbers calls.
    serials: AtomicU64,
    /// How many workers of a session were put away and have not ended.
    ending: Mutex<HashMap<SessionId, u32>>,
}

impl Manager {
    pub(super) fn new(shared: Arc<Shared>, sessions: Arc<Sessions>) -> Self {
        let mut inner = LocalSessionManager::default();
        inner.session_config.keep_alive = Some(SESSION_IDLE);
        let boot = shared.app.boot_name();
        Self { inner, shared, sessions, boot, serials: AtomicU64::new(0), ending: Mutex::default() }
    }

    /// A stream whose events say of which call they are.
    fn marked(&self, stream: impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, mark: String) -> Events {
        Box::pin(stream.map(move |mut event| {
            if let Some(id) = &mut event.event_id {
                id.push_str(&mark);
            }
            event
        }))
    }

    /// The stream of a session that belongs to no call, while somebody reads it.
    fn listened(&self, id: &SessionId, stream: impl Stream<Item = ServerSseMessage> + Send + Sync + 'static) -> Events {
        let here = self.shared.listeners.enter(id);
        self.marked(stream.inspect(move |_| _ = &here), format!("@{}", self.boot))
    }

    /// The rest of a call whose stream is gone: its answer, once there is one.
    async fn taken_up(&self, session: &str, mark: Mark) -> Events {
        let (sender, receiver) = mpsc::channel(16);
        let teller = Teller { sender, mark: mark.to_string(), sent: AtomicU64::new(0) };
        let (shared, session) = (self.shared.clone(), session.to_owned());
        let view = self.owner(&session).await;
        tokio::spawn(async move {
            let answer = tokio::select! {
                () = teller.sender.closed() => return,
                answer = rest_of(&shared, &session, view, &mark, &teller) => answer,
            };
            let message = match answer {
                Ok(mut result) => {
                    // A field of the newer protocol, which has no sessions.
                    result.result_type = None;
                    ServerJsonRpcMessage::response(ServerResult::CallToolResult(result), mark.call)
                }
                Err(error) => ServerJsonRpcMessage::error(error, Some(mark.call)),
            };
            teller.send(message).await;
        });
        Box::pin(futures::stream::unfold(Receiving(receiver), |mut receiving| async move {
            receiving.0.recv().await.map(|event| (event, receiving))
        }))
    }

    /// Whose a session is.
    async fn owner(&self, session: &str) -> Result<Option<View>, Failure> {
        let Some((tenant, subject)) = self.sessions.owner(session).await? else { return Ok(None) };
        Ok(Some(View { caller: self.shared.app.auth.caller(tenant, subject), toolsets: None }))
    }

    /// Closes a session for good, or until it is used again. Its worker will say so once more when it has ended.
    pub(super) async fn put_away(&self, id: &SessionId) {
        if self.inner.has_session(id).await.unwrap_or(false) {
            *self.ending.lock().unwrap_or_else(PoisonError::into_inner).entry(id.clone()).or_default() += 1;
        }
        if let Err(error) = self.inner.close_session(id).await {
            tracing::debug!(%error, "a session could not be closed");
        }
    }
}

/// What the id of an event says of its call: which process took it, its number there, and its id.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Mark {
    pub(super) boot: String,
    pub(super) serial: u64,
    call: RequestId,
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}@{}@", self.boot, self.serial)?;
        // As hexadecimal: it goes into a header when the client comes back.
        serde_json::to_vec(&self.call).unwrap_or_default().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Mark {
    /// The stream's own id of an event, and the mark on it.
    fn split(event: &str) -> Option<(&str, Self)> {
        let mut parts = event.splitn(4, '@');
        let (own, boot) = (parts.next()?, parts.next()?.to_owned());
        let serial = parts.next()?.parse().ok()?;
        let hex = parts.next()?;
        let bytes: Option<Vec<u8>> =
            (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok()).collect();
        Some((own, Self { boot, serial, call: serde_json::from_slice(&bytes?).ok()? }))
    }
}

/// A receiver that streams can hold.
struct Receiving(mpsc::Receiver<ServerSseMessage>);

/// Sends to a stream that was taken up.
struct Teller {
    sender: mpsc::Sender<ServerSseMessage>,
    mark: String,
    sent: AtomicU64,
}

impl Teller {
    async fn send(&self, message: ServerJsonRpcMessage) {
        // No stream of this process has such an id: whoever comes back with it takes the call up anew.
        let id = format!("again-{}{}", self.sent.fetch_add(1, Ordering::Relaxed), self.mark);
        // Whoever asked may be gone again; they can come back.
        _ = self.sender.send(ServerSseMessage::new(id, message)).await;
    }
}

#[async_trait]
impl Listener for Teller {
    async fn tell(&self, notice: ProgressNotificationParam) {
        let notice = ProgressNotification::new(notice);
        self.send(ServerJsonRpcMessage::notification(ServerNotification::ProgressNotification(notice))).await;
    }
}

/// Waits for what the call waited for.
async fn rest_of(
    shared: &Shared,
    session: &str,
    view: Result<Option<View>, Failure>,
    mark: &Mark,
    teller: &Teller,
) -> Result<CallToolResult, ErrorData> {
    let lost = || {
        ErrorData::internal_error("the response of this call is lost; what it started continues: see list_runs", None)
    };
    let view = view.map_err(unreadable)?.ok_or_else(lost)?;
    let (notes, name) = (Notes::new(shared.app.clone()), notes::of_session(session, &mark.call));
    let note = notes.find(&name).await.map_err(unreadable)?;
    // A later call of the session may have had the same id.
    let serial = Some((mark.boot.clone(), mark.serial));
    let note = note.filter(|note| note.serial == serial).ok_or_else(lost)?;
    let cancel = Arc::new(Cancel::default());
    let _open = shared.in_sessions.enter((session.to_owned(), mark.call.clone()), &cancel);
    for table in &shared.tables {
        if let Some(found) = table.find_task(&shared.app, &view, &note.handle, note.terms.clone()).await {
            let mut pending = found?;
            let patience = clients::patience(note.client.as_deref(), note.token.is_some(), None);
            let ago = shared.app.clock.steady().since(note.began);
            let mut waiting = Waiting::taken_up(ago, shared.app.clock.now(), patience, note.token.clone());
            let answered = tokio::select! {
                biased;
                reason = cancel.said() => Err(reason),
                answered = waiting.until_answered(&shared.app, &mut *pending, teller) => Ok(answered),
            };
            let answered = match answered {
                Ok(answered) => answered,
                Err(reason) => stop(&mut *pending, reason).await,
            };
            notes.answered(&name, &note).await;
            return answered.map(|mut result| {
                clients::lead_with_text(note.client.as_deref(), &mut result);
                result
            });
        }
    }
    Err(lost())
}

/// Whoever reads the answer to a request.
struct Reader(Arc<Cancel>);

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// What a request asks for: its key, when it has one, because how long its sender waits changes.
fn what_is_asked(request: &ClientRequest) -> What {
    struct Into(DefaultHasher);
    impl io::Write for Into {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.write(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut number = Into(DefaultHasher::new());
    let key = request.get_meta().get(CALL_KEY);
    match key {
        Some(key) => key.hash(&mut number.0),
        None => serde_json::to_writer(&mut number, request).expect("requests have only text keys"),
    }
    What { number: number.0.finish(), is_keyed: key.is_some() }
}

/// Whether an event is the answer to a request, after which its stream has nothing more.
fn is_answer(event: &ServerSseMessage) -> bool {
    let message = event.message.as_deref();
    message.is_some_and(|message| matches!(message, ServerJsonRpcMessage::Response(_) | ServerJsonRpcMessage::Error(_)))
}

fn refused_as_second(id: &RequestId) -> Events {
    let message = "another request with this id is in flight in this session; use an id once";
    let error = ErrorData::invalid_request(message, None);
    let refusal = ServerJsonRpcMessage::error(error, Some(id.clone()));
    Box::pin(futures::stream::once(std::future::ready(ServerSseMessage::from_message(refusal))))
}

impl SessionManager for Manager {
    type Error = LocalSessionManagerError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    fn create_session(&self) -> impl Future<Output = Result<(SessionId, Self::Transport), Self::Error>> + Send {
        self.inner.create_session()
    }

    fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<ServerJsonRpcMessage, Self::Error>> + Send {
        self.inner.initialize_session(id, message)
    }

    fn has_session(&self, id: &SessionId) -> impl Future<Output = Result<bool, Self::Error>> + Send {
        self.inner.has_session(id)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        // A worker that was put away says it too late: by now the session may be open again.
        let late = match self.ending.lock().unwrap_or_else(PoisonError::into_inner).entry(id.clone()) {
            Entry::Vacant(_) => false,
            Entry::Occupied(mut left) => {
                *left.get_mut() -= 1;
                if *left.get() == 0 {
                    left.remove();
                }
                true
            }
        };
        if late {
            return Ok(());
        }
        self.shared.open.remove(id);
        self.inner.close_session(id).await
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let mut message = message;
        let mark = match &message {
            ClientJsonRpcMessage::Request(request) => {
                let serial = self.serials.fetch_add(1, Ordering::Relaxed);
                let mark = Mark { boot: self.boot.clone(), serial, call: request.id.clone() };
                // From here on a cancel finds it, however soon it comes. Two requests that are not the same would get each
                // other's answers.
                let (call, cancel) =
                    ((id.to_string(), request.id.clone()), Cancel::of(what_is_asked(&request.request)));
                let Some(entered) = self.shared.in_sessions.enter_alone(call, &cancel) else {
                    return Ok(refused_as_second(&request.id));
                };
                Some((mark, Arc::new(entered)))
            }
            _ => None,
        };
        if let Some((mark, entered)) = &mark {
            message.insert_extension(mark.clone());
            message.insert_extension(entered.clone());
        }
        let stream = self.inner.create_stream(id, message).await?;
        Ok(match mark {
            Some((mark, entered)) => {
                let reader = Reader(entered.cancel().clone());
                // Until its answer passes here the id is taken: answers find their stream by it, and that of another request
                // would get this one's.
                let mut held = Some(entered);
                let watched = stream.inspect(move |event| {
                    _ = &reader;
                    if is_answer(event) {
                        drop(held.take());
                    }
                });
                self.marked(watched, mark.to_string())
            }
            None => Box::pin(stream),
        })
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), Self::Error> {
        // Here and not where notifications are handled, which is in no order: of two cancels the first counts.
        if let ClientJsonRpcMessage::Notification(notification) = &message
            && let ClientNotification::CancelledNotification(cancelled) = &notification.notification
            && let Some(call) = &cancelled.params.request_id
        {
            let reason = &cancelled.params.reason;
            let is_here = self.shared.in_sessions.cancel(&(id.to_string(), call.clone()), reason.clone());
            if !is_here && !is_timeout(reason.as_deref()) {
                match self.owner(id).await {
                    Ok(Some(view)) => cancel::of_session(&self.shared, &view, id, call).await,
                    Ok(None) => {}
                    Err(error) => {
                        tracing::error!(%error, "a cancel could not be carried out: its session is unreadable")
                    }
                }
            }
        }
        self.inner.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let stream = self.inner.create_standalone_stream(id).await?;
        Ok(self.listened(id, stream))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        if let Some((own, mark)) = Mark::split(&last_event_id) {
            return Ok(match mark.boot == self.boot {
                true => match self.inner.resume(id, own.to_owned()).await {
                    Ok(stream) => {
                        let reader = self.shared.in_sessions.find(&(id.to_string(), mark.call.clone()));
                        let reader = reader.map(|call| {
                            call.come_back();
                            Reader(call)
                        });
                        self.marked(stream.inspect(move |_| _ = &reader), mark.to_string())
                    }
                    // It was answered, and nobody was there.
                    Err(_) => self.taken_up(id, mark).await,
                },
                false => self.taken_up(id, mark).await,
            });
        }
        // The stream that belongs to no call. What an earlier process said on it says nothing of what this one has said.
        let own = last_event_id.split_once('@').filter(|(_, boot)| *boot == self.boot).map(|(own, _)| own.to_owned());
        if let Some(own) = own
            && let Ok(stream) = self.inner.resume(id, own).await
        {
            return Ok(self.listened(id, stream));
        }
        let stream = self.inner.create_standalone_stream(id).await?;
        Ok(self.listened(id, stream))
    }

    fn restore_session(
        &self,
        id: SessionId,
    ) -> impl Future<Output = Result<RestoreOutcome<Self::Transport>, Self::Error>> + Send {
        self.inner.restore_session(id)
    }
}
