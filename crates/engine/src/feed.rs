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
const BACKLOG: usize = 256;

enum Listener {
    Outcome(oneshot::Sender<Arc<RunView>>),
    Events(mpsc::Sender<Item>),
}

/// Who listens to which run.
#[derive(Default)]
pub(crate) struct Feed {
    listeners: Mutex<HashMap<RunKey, Vec<Listener>>>,
}

impl Feed {
    /// How the run ends. The sender goes away without a word when the engine does.
    pub(crate) fn outcome(&self, key: &RunKey) -> oneshot::Receiver<Arc<RunView>> {
        let (sender, receiver) = oneshot::channel();
        self.add(key, Listener::Outcome(sender));
        receiver
    }

    /// Everything from now on. When it ends without `Item::Ended`, the listener was too slow: read the journal.
    pub(crate) fn events(&self, key: &RunKey) -> mpsc::Receiver<Item> {
        let (sender, receiver) = mpsc::channel(BACKLOG);
        self.add(key, Listener::Events(sender));
        receiver
    }

    /// Lets go of the listeners of a run that never came to be.
    pub(crate) fn forget(&self, key: &RunKey) {
        self.lock().remove(key);
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
