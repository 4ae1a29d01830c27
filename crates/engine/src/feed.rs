//! The feed: tells whoever listens what was committed, and shows them a turn as it is written.
//!
//! Nothing waits for a listener. One that cannot keep up is let go: it reads the journal and comes back.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use drawloom_contract::{
    ids::RunKey,
    record::{Body, Record},
    redact::Redacted,
    runs::{Delta, Item},
    view::RunView,
};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

/// Items that a listener may be behind.
pub(crate) const BACKLOG: usize = 256;

/// Bytes of text that a listener may be behind; one item may have more.
const BACKLOG_BYTES: usize = 1024 * 1024;

enum Listener {
    Outcome(oneshot::Sender<Arc<RunView>>),
    Events(Queue),
}

/// Items on their way to a listener, with the bytes that they hold.
struct Queue {
    sender: mpsc::Sender<(Item, usize)>,
    queued: Arc<AtomicUsize>,
}

/// The other end of a queue.
pub(crate) struct Items {
    receiver: mpsc::Receiver<(Item, usize)>,
    queued: Arc<AtomicUsize>,
}

impl Queue {
    /// Whether the listener keeps up.
    fn send(&self, item: Item, bytes: usize) -> bool {
        let queued = self.queued.fetch_add(bytes, Ordering::Relaxed);
        (queued == 0 || queued + bytes <= BACKLOG_BYTES) && self.sender.try_send((item, bytes)).is_ok()
    }
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

impl Ear<Items> {
    /// The next item; nothing when the listener was too slow.
    pub(crate) async fn next(&mut self) -> Option<Item> {
        let Items { receiver, queued } = self.receiver.as_mut()?;
        let (item, bytes) = receiver.recv().await?;
        queued.fetch_sub(bytes, Ordering::Relaxed);
        Some(item)
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
    pub(crate) fn events(self: &Arc<Self>, key: &RunKey) -> Ear<Items> {
        let (sender, receiver) = mpsc::channel(BACKLOG);
        let queued = Arc::<AtomicUsize>::default();
        self.add(key, Listener::Events(Queue { sender, queued: queued.clone() }));
        Ear { receiver: Some(Items { receiver, queued }), feed: self.clone(), key: key.clone() }
    }

    /// Forgets listeners that are gone.
    fn sweep(&self, key: &RunKey) {
        let mut map = self.lock();
        if let Some(listeners) = map.get_mut(key) {
            listeners.retain(|listener| match listener {
                Listener::Outcome(sender) => !sender.is_closed(),
                Listener::Events(queue) => !queue.sender.is_closed(),
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
        // One copy for all listeners, made for the first.
        let mut items: Option<Vec<(Item, usize)>> = None;
        listeners.retain(|listener| match listener {
            Listener::Outcome(sender) => !sender.is_closed(),
            Listener::Events(queue) => {
                let items = items.get_or_insert_with(|| shared(records, ended));
                items.iter().all(|(item, bytes)| queue.send(item.clone(), *bytes))
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
                Listener::Events(queue) => queue.send(Item::Delta(delta.clone()), delta.text.len()),
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

/// What a commit tells listeners, with the bytes of text in it.
fn shared(records: &[Redacted<Record>], ended: Option<&Arc<RunView>>) -> Vec<(Item, usize)> {
    let records = records.iter().map(|record| (Item::Record(Arc::new((**record).clone())), text_bytes(&record.body)));
    let ended = ended.map(|view| (Item::Ended(view.clone()), view.final_text.as_ref().map_or(0, String::len)));
    records.chain(ended).collect()
}

/// About how many bytes of text a record has: of the bodies that can have much of it.
fn text_bytes(body: &Body) -> usize {
    match body {
        Body::TurnDone(done) => {
            let inputs: usize = done.calls.iter().map(|call| value_bytes(&call.input)).sum();
            done.text.len() + done.thinking.len() + inputs
        }
        Body::CallStarted(started) => value_bytes(&started.tool_use.input),
        Body::CallDone(done) => done.text.len(),
        _ => 0,
    }
}

fn value_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(value_bytes).sum(),
        Value::Object(map) => map.iter().map(|(key, value)| key.len() + value_bytes(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
    }
}
