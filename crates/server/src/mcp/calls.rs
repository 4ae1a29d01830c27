//! Calls in flight, so that whoever asked can cancel one by its name.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio_util::sync::CancellationToken;

/// An explicit cancel of one call, which may come or not.
#[derive(Default)]
pub(super) struct Cancel {
    token: CancellationToken,
    reason: OnceLock<Option<String>>,
    /// What is asked.
    what: What,
    /// How many read the answer: whoever asks, and whoever comes back for it.
    readers: AtomicUsize,
}

/// What a request asks for, to know one that is sent once more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct What {
    /// A number that is the same for the same.
    pub(super) number: u64,
    /// Whether it is done once however often it is sent.
    pub(super) is_keyed: bool,
}

impl Cancel {
    /// The cancel of a request that asks for `what`.
    pub(super) fn of(what: What) -> Arc<Self> {
        Arc::new(Self { what, readers: AtomicUsize::new(1), ..Self::default() })
    }

    /// Somebody has come back for the answer.
    pub(super) fn come_back(&self) {
        self.readers.fetch_add(1, Ordering::Relaxed);
    }

    /// Whoever read it is gone.
    pub(super) fn leave(&self) {
        self.readers.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether a request for `what` can be this one, sent once more: of two that wait, only one would be answered.
    fn is_sent_again_by(&self, what: What) -> bool {
        self.what == what && (what.is_keyed || self.readers.load(Ordering::Relaxed) == 0)
    }

    /// Says that the call is not wanted any more. The first word counts.
    pub(super) fn say(&self, reason: Option<String>) {
        _ = self.reason.set(reason);
        self.token.cancel();
    }

    /// Returns with the reason once it was said.
    pub(super) async fn said(&self) -> Option<String> {
        self.token.cancelled().await;
        self.reason.get().cloned().flatten()
    }
}

/// Whether a reason says that the client's time ran out, and not that somebody wants the work to stop: clients send
/// `notifications/cancelled` for both. Codex has one reason for both ("MCP response future dropped"): then nothing is lost.
pub(super) fn is_timeout(reason: Option<&str>) -> bool {
    reason.is_some_and(|reason| {
        let reason = reason.to_ascii_lowercase();
        ["timed out", "timeout", "deadline exceeded", "deadline has elapsed", "future dropped"]
            .iter()
            .any(|word| reason.contains(word))
    })
}

/// Calls in flight, by name.
pub(super) struct Calls<K> {
    open: Mutex<HashMap<K, Arc<Cancel>>>,
}

impl<K> Default for Calls<K> {
    fn default() -> Self {
        Self { open: Mutex::default() }
    }
}

impl<K: Eq + Hash + Clone> Calls<K> {
    /// Notes a call until the guard goes.
    pub(super) fn enter(self: &Arc<Self>, key: K, cancel: &Arc<Cancel>) -> Entered<K> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), cancel.clone());
        Entered { calls: self.clone(), key, cancel: cancel.clone() }
    }

    /// The same, unless another call has the name. The same call, sent once more, takes its own place.
    pub(super) fn enter_alone(self: &Arc<Self>, key: K, cancel: &Arc<Cancel>) -> Option<Entered<K>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.get(&key).is_some_and(|known| !known.is_sent_again_by(cancel.what)) {
            return None;
        }
        open.insert(key.clone(), cancel.clone());
        Some(Entered { calls: self.clone(), key, cancel: cancel.clone() })
    }

    /// The call of a name, while it is in flight.
    pub(super) fn find(&self, key: &K) -> Option<Arc<Cancel>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// Cancels a call that is in flight; says whether it was. One that was answered before is left alone.
    pub(super) fn cancel(&self, key: &K, reason: Option<String>) -> bool {
        let Some(cancel) = self.find(key) else { return false };
        cancel.say(reason);
        true
    }
}

/// A call that is noted.
pub(super) struct Entered<K: Eq + Hash + Clone> {
    calls: Arc<Calls<K>>,
    key: K,
    cancel: Arc<Cancel>,
}

impl<K: Eq + Hash + Clone> Entered<K> {
    /// The cancel that may come.
    pub(super) fn cancel(&self) -> &Arc<Cancel> {
        &self.cancel
    }
}

impl<K: Eq + Hash + Clone> Drop for Entered<K> {
    fn drop(&mut self) {
        let mut open = self.calls.open.lock().unwrap_or_else(PoisonError::into_inner);
        // A second request under the same name took the place over.
        if open.get(&self.key).is_some_and(|known| Arc::ptr_eq(known, &self.cancel)) {
            open.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clients_timeout_is_no_cancel() {
        for reason in [
            "MCP error -32001: Request timed out",
            "request timeout",
            "Tool call timed out after 3s",
            "SdkError: Request timed out",
            "MCP response future dropped",
            "context deadline exceeded",
            "deadline has elapsed",
        ] {
            assert!(is_timeout(Some(reason)), "{reason}");
        }
        for reason in [
            "before the deadline",
            "context canceled",
            "user pressed escape",
            "AbortError: This operation was aborted",
            "",
        ] {
            assert!(!is_timeout(Some(reason)), "{reason}");
        }
        assert!(!is_timeout(None));
    }

    #[test]
    fn a_call_that_ended_is_not_cancelled_and_a_second_one_of_the_name_stays() {
        let calls: Arc<Calls<u32>> = Arc::default();
        let (first, second) = (Arc::new(Cancel::default()), Arc::new(Cancel::default()));
        let one = calls.enter(7, &first);
        let two = calls.enter(7, &second);
        drop(one);
        assert!(calls.cancel(&7, Some("why".into())));
        assert!(second.token.is_cancelled() && !first.token.is_cancelled());
        drop(two);
        assert!(!calls.cancel(&7, None));
    }

    #[test]
    fn a_name_is_shared_only_by_a_call_and_itself_sent_once_more() {
        let calls: Arc<Calls<u32>> = Arc::default();
        let of = |number, is_keyed| Cancel::of(What { number, is_keyed });
        let cancel = of(1, false);
        let one = calls.enter_alone(7, &cancel).expect("the lock is free");
        assert!(calls.enter_alone(7, &of(1, false)).is_none(), "somebody waits for the first");
        cancel.leave();
        calls.find(&7).expect("in flight").come_back();
        assert!(calls.enter_alone(7, &of(1, false)).is_none(), "somebody came back for it");
        cancel.leave();
        assert!(calls.enter_alone(7, &of(2, false)).is_none(), "another question");
        let again = calls.enter_alone(7, &of(1, false)).expect("the same once more");
        drop(one);
        assert!(calls.enter_alone(7, &of(1, false)).is_none(), "somebody waits for the second");
        drop(again);
        let keyed = calls.enter_alone(7, &of(3, true)).expect("the lock is free");
        let again = calls.enter_alone(7, &of(3, true)).expect("the same once more");
        drop(keyed);
        assert!(calls.enter_alone(7, &of(4, true)).is_none());
        drop(again);
    }
}
