//! Sessions in memory, with streams that a client can take up again after the server was restarted: the id of each event
//! says of which call it is, and notes say what that call waits for.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use async_trait::async_trait;
use drawloom_contract::caller::{Caller, Proof};
use futures::{Stream, StreamExt as _};
use rmcp::{
    ErrorData,
    model::{
        ClientJsonRpcMessage, ProgressNotification, ProgressNotificationParam, RequestId, ServerJsonRpcMessage,
        ServerNotification, ServerResult,
    },
    transport::streamable_http_server::session::{
        RestoreOutcome, ServerSseMessage, SessionId, SessionManager,
        local::{LocalSessionManager, LocalSessionManagerError},
    },
};
use tokio::sync::mpsc;

use crate::mcp::{
    clients,
    endpoint::Shared,
    notes::Notes,
    sessions::Sessions,
    table::View,
    wait::{Listener, Waiting},
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
}

impl Manager {
    pub(super) fn new(shared: Arc<Shared>, sessions: Arc<Sessions>) -> Self {
        let mut inner = LocalSessionManager::default();
        inner.session_config.keep_alive = Some(SESSION_IDLE);
        let boot = shared.app.boot_name();
        Self { inner, shared, sessions, boot }
    }

    /// A stream whose events say of which call they are.
    fn marked(&self, stream: impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, call: &RequestId) -> Events {
        let mark = format!("@{}@{}", self.boot, serde_json::to_string(call).expect("ids are numbers or texts"));
        Box::pin(stream.map(move |mut event| {
            if let Some(id) = &mut event.event_id {
                id.push_str(&mark);
            }
            event
        }))
    }

    /// The rest of a call that an earlier process began: its answer, once there is one.
    async fn taken_up(&self, session: &str, call: RequestId) -> Events {
        let (sender, receiver) = mpsc::channel(16);
        let teller =
            Teller { sender, mark: format!("0/0@before@{}", serde_json::to_string(&call).unwrap_or_default()) };
        let (shared, session) = (self.shared.clone(), session.to_owned());
        let view = self.sessions.owner(&session).await.map(|(tenant, subject)| View {
            caller: Caller { tenant, subject, scopes: Vec::new(), proof: Proof::Principal },
            toolsets: None,
        });
        tokio::spawn(async move {
            let answer = tokio::select! {
                () = teller.sender.closed() => return,
                answer = rest_of(&shared, &session, view, &call, &teller) => answer,
            };
            let message = match answer {
                Ok(result) => ServerJsonRpcMessage::response(ServerResult::CallToolResult(result), call),
                Err(error) => ServerJsonRpcMessage::error(error, Some(call)),
            };
            teller.send(message).await;
        });
        Box::pin(futures::stream::unfold(Receiving(receiver), |mut receiving| async move {
            receiving.0.recv().await.map(|event| (event, receiving))
        }))
    }
}

/// A receiver that streams can hold.
struct Receiving(mpsc::Receiver<ServerSseMessage>);

/// Sends to a stream that was taken up.
struct Teller {
    sender: mpsc::Sender<ServerSseMessage>,
    mark: String,
}

impl Teller {
    async fn send(&self, message: ServerJsonRpcMessage) {
        // Whoever asked may be gone again; they can come back.
        _ = self.sender.send(ServerSseMessage::new(self.mark.clone(), message)).await;
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
    view: Option<View>,
    call: &RequestId,
    teller: &Teller,
) -> Result<rmcp::model::CallToolResult, ErrorData> {
    let lost = || {
        ErrorData::internal_error(
            "the server was restarted while it answered this call; what was started goes on: list_runs shows it",
            None,
        )
    };
    let view = view.ok_or_else(lost)?;
    let note = Notes::new(shared.app.clone()).find(session, call).await.ok_or_else(lost)?;
    for table in &shared.tables {
        if let Some(found) = table.find_task(&shared.app, &view, &note.handle).await {
            let mut pending = found?;
            let patience = clients::patience(note.client.as_deref(), note.token.is_some(), None);
            let mut waiting = Waiting::new(shared.app.clock.now(), patience, note.token, false);
            return waiting.until_answered(&shared.app, &mut *pending, teller).await;
        }
    }
    Err(lost())
}

/// The parts of an event's id: the stream's own, the process, the call.
fn parts_of(event: &str) -> Option<(&str, &str, RequestId)> {
    let (own, rest) = event.split_once('@')?;
    let (boot, call) = rest.split_once('@')?;
    Some((own, boot, serde_json::from_str(call).ok()?))
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

    fn close_session(&self, id: &SessionId) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.inner.close_session(id)
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let call = match &message {
            ClientJsonRpcMessage::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        let stream = self.inner.create_stream(id, message).await?;
        Ok(match call {
            Some(call) => self.marked(stream, &call),
            None => Box::pin(stream),
        })
    }

    fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.inner.accept_message(id, message)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        Ok(Box::pin(self.inner.create_standalone_stream(id).await?) as Events)
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        Ok(match parts_of(&last_event_id) {
            Some((own, boot, call)) if boot == self.boot => {
                self.marked(self.inner.resume(id, own.to_owned()).await?, &call)
            }
            Some((_, _, call)) => self.taken_up(id, call).await,
            // The stream that belongs to no call: an earlier process has nothing to add to it.
            None => match self.inner.resume(id, last_event_id).await {
                Ok(stream) => Box::pin(stream) as Events,
                Err(_) => Box::pin(self.inner.create_standalone_stream(id).await?),
            },
        })
    }

    fn restore_session(
        &self,
        id: SessionId,
    ) -> impl Future<Output = Result<RestoreOutcome<Self::Transport>, Self::Error>> + Send {
        self.inner.restore_session(id)
    }
}
