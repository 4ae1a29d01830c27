//! The session of a host that began with `initialize`: one at a time, opened anew when the server has lost it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::watch;

/// An open session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Open {
    /// What the server calls it; a server without sessions gives no name.
    pub(crate) id: Option<String>,
    /// The protocol version that was agreed on.
    pub(crate) version: Option<String>,
    /// Tells one opening from the next.
    pub(crate) generation: u64,
}

/// The session, as far as it is.
#[derive(Default)]
pub(crate) struct Session {
    state: Mutex<State>,
    changed: watch::Sender<()>,
    /// Held by the one who opens it anew.
    pub(crate) renewing: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    /// The host's `initialize`, to be sent again.
    hello: Option<Bytes>,
    /// The host's `notifications/initialized`, to be sent again.
    initialized: Option<Bytes>,
    /// Whether `initialize` is on its way: what follows waits for it.
    opening: bool,
    /// Whether `notifications/initialized` is on its way: what follows waits for it too.
    greeting: bool,
    open: Option<Open>,
    generation: u64,
}

impl Session {
    /// The host says hello: a session before this one is over.
    pub(crate) fn hello(&self, text: Bytes) {
        let mut state = self.state();
        state.hello = Some(text);
        state.initialized = None;
        state.open = None;
        state.opening = true;
    }

    /// The host says that it has heard the answer.
    pub(crate) fn initialized(&self, text: Bytes) {
        let mut state = self.state();
        state.initialized = Some(text);
        state.greeting = true;
    }

    /// This `initialize` was answered, or never will be: others may go on, unless there was a later one.
    pub(crate) fn answered(&self, hello: &Bytes) {
        let mut state = self.state();
        if state.hello.as_ref() != Some(hello) {
            return;
        }
        state.opening = false;
        drop(state);
        self.changed.send_replace(());
    }

    /// `notifications/initialized` has arrived, or never will: others may go on.
    pub(crate) fn greeted(&self) {
        self.state().greeting = false;
        self.changed.send_replace(());
    }

    /// The server answered this `initialize`. A session that a later one has ended is not taken up.
    pub(crate) fn opened(&self, hello: &Bytes, id: Option<String>, answer: &[u8]) {
        let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
        if answer.get("result").is_none() {
            return;
        }
        let version = answer["result"]["protocolVersion"].as_str().map(str::to_owned);
        let mut state = self.state();
        if state.hello.as_ref() != Some(hello) {
            return;
        }
        state.generation += 1;
        state.open = Some(Open { id, version, generation: state.generation });
        drop(state);
        self.changed.send_replace(());
    }

    /// The session, once nothing of its beginning is on its way any more; nothing, when the host began none.
    pub(crate) async fn settled(&self) -> Option<Open> {
        self.once(|state| !state.opening && !state.greeting).await
    }

    /// The session, once `initialize` is not on its way any more.
    pub(crate) async fn begun(&self) -> Option<Open> {
        self.once(|state| !state.opening).await
    }

    async fn once(&self, ready: impl Fn(&State) -> bool) -> Option<Open> {
        let mut changed = self.changed.subscribe();
        loop {
            changed.mark_unchanged();
            {
                let state = self.state();
                if ready(&state) {
                    return state.open.clone();
                }
            }
            if changed.changed().await.is_err() {
                return None;
            }
        }
    }

    /// The session as it is.
    pub(crate) fn current(&self) -> Option<Open> {
        self.state().open.clone()
    }

    /// Returns when the session may have changed since `seen` was looked at.
    pub(crate) fn watch(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// What opens it anew: the host's own words.
    pub(crate) fn words(&self) -> Option<(Bytes, Option<Bytes>)> {
        let state = self.state();
        Some((state.hello.clone()?, state.initialized.clone()))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
