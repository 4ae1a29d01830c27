//! The feed: tells whoever listens what was committed, and shows them a turn as it is written.
//!
//! Nothing waits for a listener. One that cannot keep up is let go: it reads the journal and comes back.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use drawloom_contract::{
    ids::RunKey,
    record::Record,
    redact::Redacted,
    runs::{Delta, Item},
    view::RunView,
};
use tokio::sync::{mpsc, oneshot};

/// Items that a listener may be behind.
pub(crate) const BACKLOG: usize = 256;

enum Listener {
    Outcome(oneshot::Sender<Arc<RunView>>),
    Events(mpsc::Sender<Item>),
}

/// Who listens to which run.
#[derive(Default)]
pub(crate) struct Feed {
    listeners: Mutex<HashMap<RunKey, Vec<Listener>>>,
}

/// What a listener hears. Dropping it ends the listening.
pub(crate) struct Ear<R> {
    receiver: Option<R>,
    feed: Arc<Feed>,
    key: RunKey,
}

impl Ear<oneshot::Receiver<Arc<RunView>>> {
    /// The row at the run's end; nothing when the run never came to be.
    pub(crate) async fn ended(&mut self) -> Option<Arc<RunView>> {
        self.receiver.as_mut()?.await.ok()
    }
}

impl Ear<mpsc::Receiver<Item>> {
    /// The next item; nothing when the listener was too slow.
    pub(crate) async fn next(&mut self) -> Option<Item> {
        self.receiver.as_mut()?.recv().await
    }
}

impl<R> Drop for Ear<R> {
    fn drop(&mut self) {
        self.receiver = None;
        self.feed.sweep(&self.key);
    }
}

impl Feed {
    /// How the run ends.
    pub(crate) fn outcome(self: &Arc<Self>, key: &RunKey) -> Ear<oneshot::Receiver<Arc<RunView>>> {
        let (sender, receiver) = oneshot::channel();
        self.add(key, Listener::Outcome(sender));
        Ear { receiver: Some(receiver), feed: self.clone(), key: key.clone() }
    }

    /// Everything from now on. When it ends without `Item::Ended`, the listener was too slow: read the journal.
    pub(crate) fn events(self: &Arc<Self>, key: &RunKey) -> Ear<mpsc::Receiver<Item>> {
        let (sender, receiver) = mpsc::channel(BACKLOG);
        self.add(key, Listener::Events(sender));
        Ear { receiver: Some(receiver), feed: self.clone(), key: key.clone() }
    }

    /// Forgets listeners that are gone.
    fn sweep(&self, key: &RunKey) {
        let mut map = self.lock();
        if let Some(listeners) = map.get_mut(key) {
            listeners.retain(|listener| match listener {
                Listener::Outcome(sender) => !sender.is_closed(),
                Listener::Events(sender) => !sender.is_closed(),
            });
            if listeners.is_empty() {
                map.remove(key);
            }
        }
    }

    /// Lets go of the listeners of a run that never came to be.
    pub(crate) fn forget(&self, key: &RunKey) {
        self.lock().remove(key);
    }

    /// Lets go of all listeners, so that they look at the store.
    pub(crate) fn forget_all(&self) {
        self.lock().clear();
    }

    /// Tells of a commit.
    pub(crate) fn publish(&self, key: &RunKey, records: &[Redacted<Record>], ended: Option<&Arc<RunView>>) {
        let mut map = self.lock();
        let Some(listeners) = map.get_mut(key) else { return };
        listeners.retain(|listener| match listener {
            Listener::Outcome(sender) => !sender.is_closed(),
            Listener::Events(sender) => {
                records.iter().all(|record| sender.try_send(Item::Record(Arc::new((**record).clone()))).is_ok())
                    && ended.is_none_or(|view| sender.try_send(Item::Ended(view.clone())).is_ok())
            }
        });
        if let Some(view) = ended {
            for listener in map.remove(key).unwrap_or_default() {
                if let Listener::Outcome(sender) = listener {
                    // Whoever asked may have gone in the meantime.
                    let _ = sender.send(view.clone());
                }
            }
        } else if listeners.is_empty() {
            map.remove(key);
        }
    }

    /// Shows a piece of a turn.
    pub(crate) fn show(&self, key: &RunKey, delta: &Delta) {
        let mut map = self.lock();
        if let Some(listeners) = map.get_mut(key) {
            listeners.retain(|listener| match listener {
                Listener::Outcome(_) => true,
                Listener::Events(sender) => sender.try_send(Item::Delta(delta.clone())).is_ok(),
            });
        }
    }

    fn add(&self, key: &RunKey, listener: Listener) {
        self.lock().entry(key.clone()).or_default().push(listener);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RunKey, Vec<Listener>>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
