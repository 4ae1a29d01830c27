//! Passes on the messages of a server that the client needs and counts the rest. A server that sends too much of the
//! rest is disconnected.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use rmcp::{
    RoleClient,
    model::{
        ClientJsonRpcMessage, ClientNotification, ClientRequest, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
        ServerNotification,
    },
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use tokio::sync::watch;

use super::probe::understood;

/// Most bytes of what is no answer, since the last answer.
pub(super) const MOST_NOISE: usize = 16 * 1024 * 1024;

/// What a message counts for whose length is not known, and a request at least: it costs more than its bytes.
const USUAL_LENGTH: usize = 512;

/// Most errors of streams that are kept; each is removed by the request that it belongs to.
const MOST_STREAM_ERRORS: usize = 256;

/// Ids of requests, as texts: servers answer `"1"` to `1`.
type Ids = Mutex<HashSet<String>>;

/// Whether a connection has a session.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Session {
    /// It has none, or its server has been told that it is over.
    #[default]
    None,
    /// It has one.
    Open,
}

/// The state of a connection, shared by its transport and its users.
#[derive(Debug, Default)]
pub(super) struct ConnectionState {
    why: Mutex<Option<String>>,
    /// Why answers broke off, by the request.
    stream_errors: Mutex<HashMap<Option<String>, String>>,
    /// Whether our side ended it.
    by_us: AtomicBool,
    /// Whether the server said that its list of tools has changed.
    changed: AtomicBool,
    /// Whether it did not answer the question of the newer protocol and was asked the older way.
    older: AtomicBool,
    /// Whether nothing is to be written any more, not even what is half written.
    over: watch::Sender<bool>,
    /// Whether there is a session.
    session: watch::Sender<Session>,
    /// Our requests that have no answer yet.
    asked: Ids,
    /// Those of them that are the question of the newer protocol.
    probes: Ids,
    /// Requests of the server whose answer is not sent yet.
    unanswered: Ids,
}

impl ConnectionState {
    /// Keeps the first reason for the end of the connection.
    pub(super) fn end(&self, why: impl Into<String>) {
        lock(&self.why).get_or_insert_with(|| why.into());
    }

    /// The same when our side ends the connection, unless it has ended before.
    pub(super) fn hang_up(&self, why: impl Into<String>) {
        let mut kept = lock(&self.why);
        if kept.is_none() {
            *kept = Some(why.into());
            self.by_us.store(true, Ordering::SeqCst);
        }
    }

    /// Whether our side ended it.
    pub(super) fn is_by_us(&self) -> bool {
        self.by_us.load(Ordering::SeqCst)
    }

    /// Keeps that the server did not answer the question of the newer protocol in time.
    pub(super) fn is_silent(&self) {
        self.older.store(true, Ordering::SeqCst);
    }

    /// Whether it did not.
    pub(super) fn was_silent(&self) -> bool {
        self.older.load(Ordering::SeqCst)
    }

    /// Keeps whether there is a session.
    pub(super) fn session(&self, session: Session) {
        self.session.send_replace(session);
    }

    /// Waits until there is no session.
    pub(super) async fn session_ended(&self) {
        // The sender lives in `self`, so that waiting cannot fail.
        let _ = self.session.subscribe().wait_for(|session| *session == Session::None).await;
    }

    /// Breaks off whatever is still being written.
    pub(super) fn close(&self) {
        self.over.send_replace(true);
    }

    /// Whether it was closed.
    pub(super) fn is_closed(&self) -> bool {
        *self.over.borrow()
    }

    /// Waits until it is closed.
    pub(super) async fn closed(&self) {
        // The sender lives in `self`, so that waiting cannot fail.
        let _ = self.over.subscribe().wait_for(|over| *over).await;
    }

    /// Keeps why the answer to a request broke off. A resumed stream does not know its request.
    pub(super) fn set_stream_error(&self, id: Option<&RequestId>, why: impl Into<String>) {
        let mut stream_errors = lock(&self.stream_errors);
        if stream_errors.len() >= MOST_STREAM_ERRORS {
            stream_errors.clear();
        }
        stream_errors.insert(id.map(RequestId::to_string), why.into());
    }

    /// Why the answer to a request broke off. It is returned once.
    pub(super) fn take_stream_error(&self, id: &RequestId) -> Option<String> {
        let mut stream_errors = lock(&self.stream_errors);
        stream_errors.remove(&Some(id.to_string())).or_else(|| stream_errors.remove(&None))
    }

    /// Why it ended, when that is known.
    pub(super) fn why(&self) -> Option<String> {
        lock(&self.why).clone()
    }

    /// Keeps what is about to be sent: a request waits for an answer until it is cancelled.
    pub(super) fn sends(&self, item: &ClientJsonRpcMessage) {
        match item {
            JsonRpcMessage::Request(request) => {
                lock(&self.asked).insert(request.id.to_string());
                if let ClientRequest::DiscoverRequest(_) = request.request {
                    lock(&self.probes).insert(request.id.to_string());
                }
            }
            JsonRpcMessage::Notification(notice) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notice.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.is_asked(id);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
    }

    /// Keeps that a request of ours was not sent.
    pub(super) fn not_sent(&self, id: &RequestId) {
        self.is_asked(id);
    }

    /// Whether a request of ours waits for an answer; it does no longer.
    fn is_asked(&self, id: &RequestId) -> bool {
        lock(&self.asked).remove(&id.to_string())
    }

    /// Keeps a request of the server that must be answered; returns how many there are.
    pub(super) fn add_unanswered(&self, id: &RequestId) -> usize {
        let mut unanswered = lock(&self.unanswered);
        unanswered.insert(id.to_string());
        unanswered.len()
    }

    /// Keeps that an answer was sent, or never will be.
    pub(super) fn mark_answered(&self, id: &RequestId) {
        lock(&self.unanswered).remove(&id.to_string());
    }

    /// Whether a request of the server still has no answer.
    pub(super) fn is_unanswered(&self, id: &str) -> bool {
        lock(&self.unanswered).contains(id)
    }

    /// Keeps whether a notice says that the list of tools has changed.
    pub(super) fn notice(&self, notice: &ServerNotification) {
        if let ServerNotification::ToolListChangedNotification(_) = notice {
            self.changed.store(true, Ordering::SeqCst);
        }
    }

    /// Whether it has, without taking note.
    pub(super) fn has_changed(&self) -> bool {
        self.changed.load(Ordering::SeqCst)
    }

    /// Whether the list of tools has changed since this was last asked.
    pub(super) fn take_changed(&self) -> bool {
        self.changed.swap(false, Ordering::SeqCst)
    }
}

/// The id of the request of the server's that a message of ours answers.
pub(super) fn answered(item: &ClientJsonRpcMessage) -> Option<RequestId> {
    match item {
        JsonRpcMessage::Response(response) => Some(response.id.clone()),
        JsonRpcMessage::Error(error) => error.id.clone(),
        JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
    }
}

/// The id of a request of ours.
fn asks(item: &ClientJsonRpcMessage) -> Option<RequestId> {
    match item {
        JsonRpcMessage::Request(request) => Some(request.id.clone()),
        _ => None,
    }
}

fn lock<T>(kept: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What to do with a message.
#[derive(Debug)]
pub(super) enum Verdict {
    /// The client must see it.
    Pass(Box<ServerJsonRpcMessage>),
    /// The client does not need it.
    Drop,
    /// There were too many that the client does not need.
    HangUp,
}

/// Sorts messages and counts the bytes that answer no request.
#[derive(Debug)]
pub(super) struct Filter {
    pub(super) state: Arc<ConnectionState>,
    noise: usize,
}

impl Filter {
    pub(super) fn new(state: Arc<ConnectionState>) -> Self {
        Self { state, noise: 0 }
    }

    /// Sorts a message of `length` bytes.
    pub(super) fn judge(&mut self, message: ServerJsonRpcMessage, length: usize) -> Verdict {
        match &message {
            JsonRpcMessage::Response(response) => self.answer(response.id.clone(), message, length),
            JsonRpcMessage::Error(error) => match error.id.clone() {
                Some(id) => self.answer(id, message, length),
                None => self.request(message, length),
            },
            JsonRpcMessage::Request(_) => self.request(message, length),
            JsonRpcMessage::Notification(notice) => {
                self.state.notice(&notice.notification);
                self.garbage(length)
            }
        }
    }

    /// An answer that no request waits for is noise.
    fn answer(&mut self, id: RequestId, message: ServerJsonRpcMessage, length: usize) -> Verdict {
        match self.state.is_asked(&id) {
            true => {
                self.noise = 0;
                let is_probe = lock(&self.state.probes).remove(&id.to_string());
                Verdict::Pass(Box::new(if is_probe { understood(message) } else { message }))
            }
            false => self.garbage(length.max(USUAL_LENGTH)),
        }
    }

    fn request(&mut self, message: ServerJsonRpcMessage, length: usize) -> Verdict {
        match self.count_noise(length.max(USUAL_LENGTH)) {
            true => Verdict::Pass(Box::new(message)),
            false => Verdict::HangUp,
        }
    }

    /// Counts `length` bytes that are not a message.
    pub(super) fn garbage(&mut self, length: usize) -> Verdict {
        if self.count_noise(length) { Verdict::Drop } else { Verdict::HangUp }
    }

    fn count_noise(&mut self, length: usize) -> bool {
        self.noise = self.noise.saturating_add(length);
        if self.noise > MOST_NOISE {
            self.state.hang_up(format!("connection closed: it sent more than {MOST_NOISE} unsolicited bytes"));
        }
        self.noise <= MOST_NOISE
    }
}

/// A transport with a filter.
pub(super) struct Filtered<T> {
    pub(super) inner: T,
    pub(super) filter: Filter,
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Filtered<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.filter.state.sends(&item);
        let asked = asks(&item);
        let (state, sent) = (self.filter.state.clone(), self.inner.send(item));
        async move {
            let sent = sent.await;
            if let (Err(_), Some(id)) = (&sent, asked) {
                state.not_sent(&id);
            }
            sent
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            match self.filter.judge(self.inner.receive().await?, USUAL_LENGTH) {
                Verdict::Pass(message) => return Some(*message),
                Verdict::Drop => {}
                Verdict::HangUp => return None,
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_a_stream_is_returned_to_its_request_and_only_once() {
        let (state, one, two) = (ConnectionState::default(), RequestId::Number(1), RequestId::Number(2));
        state.set_stream_error(Some(&one), "first");
        assert_eq!(state.take_stream_error(&two), None);
        assert_eq!(state.take_stream_error(&one).as_deref(), Some("first"));
        assert_eq!(state.take_stream_error(&one), None);
        assert_eq!(state.why(), None);
    }
}
