//! Feeds: what the writer tells of values and logs that changed, in the order of commits.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use drawloom_contract::{
    journal::Committed,
    log::{LogChange, Tail},
    values::{Present, Range, Seen, Space, Within},
};
use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use tokio::sync::{
    Notify,
    mpsc::{self, error::TrySendError},
};

use crate::prepare::Work;

/// Changes that wait for a slow subscriber. One that falls further behind is told of a gap. They are names and numbers: values are
/// read when a subscriber takes the change.
const QUEUE: usize = 1_024;

/// The same for what one owner has, which callers follow: there may be thousands of such subscribers.
const QUEUE_OF_OWNER: usize = 64;

/// Those who want to know what changes.
#[derive(Default)]
pub(crate) struct Feeds {
    values: Subscribers<Range, Seen>,
    logs: Subscribers<Space, Tail>,
}

impl Feeds {
    pub(crate) fn watch(&self, range: Range) -> BoxStream<'static, Seen> {
        let queue = match &range.within {
            Within::Space | Within::Tenant(_) => QUEUE,
            Within::Owner { .. } => QUEUE_OF_OWNER,
        };
        self.values.add(range, Seen::Gap, queue)
    }

    pub(crate) fn tail(&self, space: Space) -> BoxStream<'static, Tail> {
        self.logs.add(space, Tail::Gap, QUEUE)
    }

    /// Tells of an entry that is on disk.
    pub(crate) fn tell(&self, work: &Work, committed: &Committed) {
        for (changed, revision) in work.values.iter().zip(&committed.revisions).filter(|(_, of)| **of > 0) {
            let change = &changed.change;
            self.values.send(
                |range| range.contains(&change.key),
                || Seen::Is {
                    key: change.key.clone(),
                    revision: *revision,
                    present: change.to.as_ref().map(|new| Present { expires_at: new.expires_at }),
                },
            );
        }
        for ((change, _), changed) in work.logs.iter().zip(&committed.logs).filter(|(_, of)| of.added > 0) {
            if let LogChange::Append { log, .. } = change {
                let grew = || Tail::Grew { log: log.clone(), head: changed.head };
                self.logs.send(|space| *space == log.space, grew);
            }
        }
    }
}

struct Subscribers<K, T>(Mutex<Vec<Subscriber<K, T>>>);

struct Subscriber<K, T> {
    wants: K,
    sender: mpsc::Sender<T>,
    missed: Arc<Missed>,
}

/// Whether a subscriber fell behind.
#[derive(Default)]
struct Missed {
    flag: AtomicBool,
    changed: Notify,
}

impl<K, T> Default for Subscribers<K, T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K, T: Clone + Send + Sync + 'static> Subscribers<K, T> {
    /// What is sent from now on. `gap` stands for what was left out.
    fn add(&self, wants: K, gap: T, queue: usize) -> BoxStream<'static, T> {
        let (sender, receiver) = mpsc::channel(queue);
        let missed = Arc::<Missed>::default();
        let subscriber = Subscriber { wants, sender, missed: missed.clone() };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(subscriber);
        stream::unfold((receiver, missed, gap), |(mut receiver, missed, gap)| async move {
            let next = loop {
                if missed.flag.swap(false, Ordering::SeqCst) {
                    // A subscriber reads again after a gap, and must not be told of older changes then.
                    while receiver.try_recv().is_ok() {}
                    break Some(gap.clone());
                }
                tokio::select! {
                    () = missed.changed.notified() => {}
                    next = receiver.recv() => break next,
                }
            };
            next.map(|next| (next, (receiver, missed, gap)))
        })
        .boxed()
    }

    /// Sends to those who want it. It never waits: the writer calls it.
    fn send(&self, is_wanted: impl Fn(&K) -> bool, make: impl Fn() -> T) {
        let mut subscribers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        subscribers.retain(|subscriber| {
            if !is_wanted(&subscriber.wants) {
                return !subscriber.sender.is_closed();
            }
            match subscriber.sender.try_send(make()) {
                Ok(()) => true,
                Err(TrySendError::Full(_)) => {
                    subscriber.missed.flag.store(true, Ordering::SeqCst);
                    subscriber.missed.changed.notify_one();
                    true
                }
                Err(TrySendError::Closed(_)) => false,
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_slow_subscriber_is_told_of_a_gap_and_then_of_what_follows() {
        let feed = Subscribers::<(), u32>::default();
        let mut slow = feed.add((), u32::MAX, QUEUE);
        for number in 0..QUEUE as u32 + 10 {
            feed.send(|()| true, || number);
        }
        assert_eq!(slow.next().await, Some(u32::MAX), "the gap comes first, also for one that never catches up");
        feed.send(|()| true, || 7);
        assert_eq!(slow.next().await, Some(7));
        drop(slow);
        feed.send(|()| true, || 8);
        assert!(feed.0.lock().expect("no panic").is_empty());
    }
}
