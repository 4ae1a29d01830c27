//! The requests in flight: each is answered once, or withdrawn by the host and then not answered at all.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

use super::frame::{Id, Notification};

/// Requests that the host waits for.
#[derive(Default)]
pub(crate) struct Calls(Mutex<HashMap<Id, oneshot::Sender<Notification>>>);

impl Calls {
    /// Takes a request in; what comes back hears of its withdrawal. Nothing, when a request of this id is in flight.
    pub(crate) fn begin(&self, id: &Id) -> Option<oneshot::Receiver<Notification>> {
        let mut calls = self.lock();
        if calls.contains_key(id) {
            return None;
        }
        let (withdraw, withdrawn) = oneshot::channel();
        calls.insert(id.clone(), withdraw);
        Some(withdrawn)
    }

    /// Whether the request may be answered now; only the first who asks is told yes.
    pub(crate) fn finish(&self, id: &Id) -> bool {
        self.lock().remove(id).is_some()
    }

    /// The host does not want an answer any more. One that came too late is ignored.
    pub(crate) fn withdraw(&self, id: &Id, notification: Notification) {
        match self.lock().remove(id) {
            // Whoever carries the request may just be done with it.
            Some(withdraw) => drop(withdraw.send(notification)),
            None => tracing::debug!(id = id.json(), "a cancel for a request that is not in flight was ignored"),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Id, oneshot::Sender<Notification>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
