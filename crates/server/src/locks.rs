//! Locks by name, each of which exists while it is used.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Mutex as AsyncMutex, MutexGuard as AsyncMutexGuard};

type Named<K> = HashMap<K, Arc<AsyncMutex<()>>>;

pub(crate) struct Locks<K>(Mutex<Named<K>>);

impl<K> Default for Locks<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K> Locks<K> {
    fn named(&self) -> MutexGuard<'_, Named<K>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash + Clone> Locks<K> {
    /// The lock of a name.
    pub(crate) fn of(&self, name: K) -> Lock<'_, K> {
        let lock = self.named().entry(name.clone()).or_default().clone();
        Lock { locks: self, name, lock: Some(lock) }
    }

    /// The lock of a name, while somebody uses it.
    pub(crate) fn find(&self, name: &K) -> Option<Lock<'_, K>> {
        let lock = self.named().get(name)?.clone();
        Some(Lock { locks: self, name: name.clone(), lock: Some(lock) })
    }
}

/// A lock that somebody uses or waits for.
pub(crate) struct Lock<'a, K: Eq + Hash> {
    locks: &'a Locks<K>,
    name: K,
    lock: Option<Arc<AsyncMutex<()>>>,
}

impl<K: Eq + Hash> Lock<'_, K> {
    /// Returns when it is this one's turn.
    pub(crate) async fn acquire(&self) -> AsyncMutexGuard<'_, ()> {
        self.lock.as_ref().expect("it is taken only when this is dropped").lock().await
    }
}

impl<K: Eq + Hash> Drop for Lock<'_, K> {
    fn drop(&mut self) {
        let mut named = self.locks.named();
        // Let go of before it is counted: the map's own is the last when no other waits.
        self.lock = None;
        if named.get(&self.name).is_some_and(|lock| Arc::strong_count(lock) == 1) {
            named.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_lock_is_shared_by_its_name_and_gone_when_unused() {
        let locks = Locks::default();
        let first = locks.of("a");
        let guard = first.acquire().await;
        let second = locks.find(&"a").expect("it is used");
        assert!(futures::poll!(std::pin::pin!(second.acquire())).is_pending());
        assert!(futures::poll!(std::pin::pin!(locks.of("b").acquire())).is_ready());
        drop(guard);
        drop(first);
        drop(second.acquire().await);
        drop(second);
        assert!(locks.find(&"a").is_none() && locks.named().is_empty());
    }
}
