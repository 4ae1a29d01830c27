//! The feed: sends commits, and turns as they are written, to the subscribers of a run.
//!
//! Nothing waits for a subscriber. One that cannot keep up is dropped: it reads the journal and subscribes again.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use drawloom_contract::{
    ids::{RunId, RunKey},
    record::{Body, Record},
    redact::Redacted,
    runs::{Delta, Item},
    view::RunView,
};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot, watch};

/// Items that a subscriber may be behind.
pub(crate) const BACKLOG: usize = 256;

/// Bytes of text that a subscriber may be behind; one item may have more.
const BACKLOG_BYTES: usize = 128 * 1024;

enum Subscriber {
    Outcome(oneshot::Sender<Arc<RunView>>),
    Events(Queue),
}

/// Items on their way to a subscriber, with the bytes that they hold.
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
    /// False when the subscriber does not keep up.
    fn send(&self, item: Item, bytes: usize) -> bool {
        let queued = self.queued.fetch_add(bytes, Ordering::Relaxed);
        (queued == 0 || queued + bytes <= BACKLOG_BYTES) && self.sender.try_send((item, bytes)).is_ok()
    }
}

/// The subscribers of each run, and those of each tree.
#[derive(Default)]
pub(crate) struct Feed {
    subscribers: Mutex<HashMap<RunKey, Vec<Subscriber>>>,
    trees: Mutex<HashMap<RunId, watch::Sender<u64>>>,
}

/// Says that something was committed in a tree. Dropping it unsubscribes.
pub(crate) struct TreeSignal {
    receiver: watch::Receiver<u64>,
    feed: Arc<Feed>,
    root: RunId,
}

impl TreeSignal {
    /// Returns after a commit since the last call, or since the subscription. False when there will be no more.
    pub(crate) async fn changed(&mut self) -> bool {
        self.receiver.changed().await.is_ok()
    }
}

impl Drop for TreeSignal {
    fn drop(&mut self) {
        let mut trees = self.feed.trees();
        // This one is still counted.
        if trees.get(&self.root).is_some_and(|sender| sender.receiver_count() <= 1) {
            trees.remove(&self.root);
        }
    }
}

/// The receiving end of a subscription. Dropping it unsubscribes.
pub(crate) struct Subscription<R> {
    receiver: Option<R>,
    feed: Arc<Feed>,
    key: RunKey,
}

impl Subscription<oneshot::Receiver<Arc<RunView>>> {
    /// The row at the run's end; `None` when the run was never accepted.
    pub(crate) async fn ended(&mut self) -> Option<Arc<RunView>> {
        self.receiver.as_mut()?.await.ok()
    }
}

impl Subscription<Items> {
    /// The next item; `None` when the subscriber was too slow.
    pub(crate) async fn next(&mut self) -> Option<Item> {
        let Items { receiver, queued } = self.receiver.as_mut()?;
        let (item, bytes) = receiver.recv().await?;
        queued.fetch_sub(bytes, Ordering::Relaxed);
        Some(item)
    }
}

impl<R> Drop for Subscription<R> {
    fn drop(&mut self) {
        self.receiver = None;
        self.feed.sweep(&self.key);
    }
}

impl Feed {
    /// Subscribes to the run's end.
    pub(crate) fn outcome(self: &Arc<Self>, key: &RunKey) -> Subscription<oneshot::Receiver<Arc<RunView>>> {
        let (sender, receiver) = oneshot::channel();
        self.add(key, Subscriber::Outcome(sender));
        Subscription { receiver: Some(receiver), feed: self.clone(), key: key.clone() }
    }

    /// Subscribes to everything from now on. When it ends without `Item::Ended`, the subscriber was too slow: read the journal.
    pub(crate) fn events(self: &Arc<Self>, key: &RunKey) -> Subscription<Items> {
        let (sender, receiver) = mpsc::channel(BACKLOG);
        let queued = Arc::<AtomicUsize>::default();
        self.add(key, Subscriber::Events(Queue { sender, queued: queued.clone() }));
        Subscription { receiver: Some(Items { receiver, queued }), feed: self.clone(), key: key.clone() }
    }

    /// Subscribes to commits of all runs of a tree.
    pub(crate) fn tree(self: &Arc<Self>, root: RunId) -> TreeSignal {
        let receiver = self.trees().entry(root).or_insert_with(|| watch::channel(0).0).subscribe();
        TreeSignal { receiver, feed: self.clone(), root }
    }

    fn trees(&self) -> MutexGuard<'_, HashMap<RunId, watch::Sender<u64>>> {
        self.trees.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes subscribers that are gone.
    fn sweep(&self, key: &RunKey) {
        let mut map = self.lock();
        if let Some(subscribers) = map.get_mut(key) {
            subscribers.retain(|subscriber| match subscriber {
                Subscriber::Outcome(sender) => !sender.is_closed(),
                Subscriber::Events(queue) => !queue.sender.is_closed(),
            });
            if subscribers.is_empty() {
                map.remove(key);
            }
        }
    }

    /// Drops the subscribers of a run that was never accepted.
    pub(crate) fn forget(&self, key: &RunKey) {
        self.lock().remove(key);
    }

    /// Drops all subscribers, so that they read the store.
    pub(crate) fn forget_all(&self) {
        self.lock().clear();
        self.trees().clear();
    }

    /// Sends a commit of a run in the tree of `root`.
    pub(crate) fn publish(
        &self,
        key: &RunKey,
        root: RunId,
        records: &[Redacted<Record>],
        ended: Option<&Arc<RunView>>,
    ) {
        if let Some(tree) = self.trees().get(&root) {
            tree.send_modify(|commits| *commits = commits.wrapping_add(1));
        }
        let mut map = self.lock();
        let Some(subscribers) = map.get_mut(key) else { return };
        // One copy for all subscribers, made for the first.
        let mut items: Option<Vec<(Item, usize)>> = None;
        subscribers.retain(|subscriber| match subscriber {
            Subscriber::Outcome(sender) => !sender.is_closed(),
            Subscriber::Events(queue) => {
                let items = items.get_or_insert_with(|| shared(records, ended));
                items.iter().all(|(item, bytes)| queue.send(item.clone(), *bytes))
            }
        });
        if let Some(view) = ended {
            for subscriber in map.remove(key).unwrap_or_default() {
                if let Subscriber::Outcome(sender) = subscriber {
                    // The subscriber may be gone.
                    let _ = sender.send(view.clone());
                }
            }
        } else if subscribers.is_empty() {
            map.remove(key);
        }
    }

    /// Sends a piece of a turn.
    pub(crate) fn show(&self, key: &RunKey, delta: &Delta) {
        let mut map = self.lock();
        if let Some(subscribers) = map.get_mut(key) {
            subscribers.retain(|subscriber| match subscriber {
                Subscriber::Outcome(_) => true,
                Subscriber::Events(queue) => queue.send(Item::Delta(delta.clone()), delta.text.len()),
            });
        }
    }

    fn add(&self, key: &RunKey, subscriber: Subscriber) {
        self.lock().entry(key.clone()).or_default().push(subscriber);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RunKey, Vec<Subscriber>>> {
        self.subscribers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The items of a commit, with the bytes of text in each.
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
