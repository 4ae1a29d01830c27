//! Lets through what a client must see of a server's messages, and keeps count of the rest: whoever only makes noise is
//! hung up on.

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

/// Most troubles that are kept; who asked takes his away.
const MOST_TROUBLES: usize = 256;

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

/// What is known of a connection from outside of it.
#[derive(Debug, Default)]
pub(super) struct Fate {
    why: Mutex<Option<String>>,
    /// Why answers broke off, by the request.
    troubles: Mutex<HashMap<Option<String>, String>>,
    /// Whether it was we who ended it.
    by_us: AtomicBool,
    /// Whether the server said that its list of tools is another one now.
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
    owed: Ids,
}

impl Fate {
    /// Keeps the first reason for the end of the connection.
    pub(super) fn end(&self, why: impl Into<String>) {
        lock(&self.why).get_or_insert_with(|| why.into());
    }

    /// The same, when it is we who end the connection, unless it has ended before.
    pub(super) fn hang_up(&self, why: impl Into<String>) {
        let mut kept = lock(&self.why);
        if kept.is_none() {
            *kept = Some(why.into());
            self.by_us.store(true, Ordering::SeqCst);
        }
    }

    /// Whether it was we who ended it.
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

    /// Keeps why the answer to a request broke off; or an answer that was taken up again, of which nobody knows to what.
    pub(super) fn trouble(&self, id: Option<&RequestId>, why: impl Into<String>) {
        let mut troubles = lock(&self.troubles);
        if troubles.len() >= MOST_TROUBLES {
            troubles.clear();
        }
        troubles.insert(id.map(RequestId::to_string), why.into());
    }

    /// Why the answer to a request broke off. It is said once.
    pub(super) fn take_trouble(&self, id: &RequestId) -> Option<String> {
        let mut troubles = lock(&self.troubles);
        troubles.remove(&Some(id.to_string())).or_else(|| troubles.remove(&None))
    }

    /// Why it ended, when that is known.
    pub(super) fn why(&self) -> Option<String> {
        lock(&self.why).clone()
    }

    /// Keeps what is about to be sent: who asks waits for an answer, unless he takes it back.
    pub(super) fn sends(&self, item: &ClientJsonRpcMessage) {
        match item {
            JsonRpcMessage::Request(request) => {
                lock(&self.asked).insert(request.id.to_string());
                if let ClientRequest::DiscoverRequest(_) = request.request {
                    lock(&self.probes).insert(request.id.to_string());
                }
            }
            JsonRpcMessage::Notification(notice) => {
                if let ClientNotification::CancelledNotification(taken_back) = &notice.notification
                    && let Some(id) = &taken_back.params.request_id
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

    /// Keeps a request of the server that must be answered; says how many there are.
    pub(super) fn owes(&self, id: &RequestId) -> usize {
        let mut owed = lock(&self.owed);
        owed.insert(id.to_string());
        owed.len()
    }

    /// Keeps that an answer was sent, or never will be.
    pub(super) fn paid(&self, id: &RequestId) {
        lock(&self.owed).remove(&id.to_string());
    }

    /// Whether a request of the server still has no answer.
    pub(super) fn is_owed(&self, id: &str) -> bool {
        lock(&self.owed).contains(id)
    }

    /// Keeps what a notice says that anybody needs.
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

/// What becomes of a message.
#[derive(Debug)]
pub(super) enum Verdict {
    /// The client must see it.
    Pass(Box<ServerJsonRpcMessage>),
    /// Nobody needs it.
    Drop,
    /// There was too much that nobody needs; the fate says so.
    HangUp,
}

/// Counts noise.
#[derive(Debug)]
pub(super) struct Sieve {
    pub(super) fate: Arc<Fate>,
    noise: usize,
}

impl Sieve {
    pub(super) fn new(fate: Arc<Fate>) -> Self {
        Self { fate, noise: 0 }
    }

    /// Judges a message of `length` bytes.
    pub(super) fn judge(&mut self, message: ServerJsonRpcMessage, length: usize) -> Verdict {
        match &message {
            JsonRpcMessage::Response(response) => self.answer(response.id.clone(), message, length),
            JsonRpcMessage::Error(error) => match error.id.clone() {
                Some(id) => self.answer(id, message, length),
                None => self.request(message, length),
            },
            JsonRpcMessage::Request(_) => self.request(message, length),
            JsonRpcMessage::Notification(notice) => {
                self.fate.notice(&notice.notification);
                self.garbage(length)
            }
        }
    }

    /// Only what somebody waits for is no noise.
    fn answer(&mut self, id: RequestId, message: ServerJsonRpcMessage, length: usize) -> Verdict {
        match self.fate.is_asked(&id) {
            true => {
                self.noise = 0;
                let is_probe = lock(&self.fate.probes).remove(&id.to_string());
                Verdict::Pass(Box::new(if is_probe { understood(message) } else { message }))
            }
            false => self.garbage(length.max(USUAL_LENGTH)),
        }
    }

    fn request(&mut self, message: ServerJsonRpcMessage, length: usize) -> Verdict {
        match self.bears(length.max(USUAL_LENGTH)) {
            true => Verdict::Pass(Box::new(message)),
            false => Verdict::HangUp,
        }
    }

    /// Judges `length` bytes that are no message at all.
    pub(super) fn garbage(&mut self, length: usize) -> Verdict {
        if self.bears(length) { Verdict::Drop } else { Verdict::HangUp }
    }

    fn bears(&mut self, length: usize) -> bool {
        self.noise = self.noise.saturating_add(length);
        if self.noise > MOST_NOISE {
            self.fate.hang_up(format!("it sent more than {MOST_NOISE} bytes that answer nothing, and was hung up on"));
        }
        self.noise <= MOST_NOISE
    }
}

/// A transport behind a sieve.
pub(super) struct Sieved<T> {
    pub(super) inner: T,
    pub(super) sieve: Sieve,
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Sieved<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.sieve.fate.sends(&item);
        let asked = asks(&item);
        let (fate, sent) = (self.sieve.fate.clone(), self.inner.send(item));
        async move {
            let sent = sent.await;
            if let (Err(_), Some(id)) = (&sent, asked) {
                fate.not_sent(&id);
            }
            sent
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            match self.sieve.judge(self.inner.receive().await?, USUAL_LENGTH) {
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
    fn a_trouble_is_told_to_whoever_asked_and_only_once() {
        let (fate, one, two) = (Fate::default(), RequestId::Number(1), RequestId::Number(2));
        fate.trouble(Some(&one), "first");
        assert_eq!(fate.take_trouble(&two), None);
        assert_eq!(fate.take_trouble(&one).as_deref(), Some("first"));
        assert_eq!(fate.take_trouble(&one), None);
        assert_eq!(fate.why(), None);
    }
}
