//! Wakes requests that wait for messages: one tail for all of them. Runs wait in the engine.
//!
//! A waiting request registers, looks, then waits. What came before is seen by the look, what comes after wakes it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use drawloom_contract::{
    ids::Tenant,
    log::Tail,
    streams,
    values::{Range, Seen, WatchFrom, Within},
};
use futures::{
    StreamExt as _,
    future::select_all,
    stream::{self, BoxStream},
};
use tokio::sync::{broadcast::error::RecvError, watch};

use super::{
    ChannelParts, Channels, Place,
    place::{CHANNELS, GROUP},
};

/// The places that requests wait for, by tenant and name.
#[derive(Default)]
pub(super) struct Hub(Mutex<State>);

#[derive(Default)]
struct State {
    places: HashMap<(Tenant, String), watch::Sender<u64>>,
    is_following: bool,
}

/// A registered wait for one or more places.
pub struct Listener {
    channels: Arc<Channels>,
    waiting: Vec<((Tenant, String), watch::Receiver<u64>)>,
}

impl Hub {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self, tenant: &Tenant, name: &str) {
        let state = self.lock();
        if let Some(sender) = state.places.get(&(tenant.clone(), name.to_owned())) {
            sender.send_modify(|count| *count += 1);
        }
    }

    /// The channels of a tenant changed: one that is waited for may be gone, or be the dead-letter channel of one that is.
    fn tenant_changed(&self, tenant: &Tenant) {
        let state = self.lock();
        let places = state.places.iter().filter(|((of, _), _)| of == tenant);
        places.for_each(|(_, sender)| sender.send_modify(|count| *count += 1));
    }

    #[cfg(test)]
    pub(super) fn places(&self) -> usize {
        self.lock().places.len()
    }

    fn all_changed(&self) {
        self.lock().places.values().for_each(|sender| sender.send_modify(|count| *count += 1));
    }
}

impl Channels {
    /// Registers a wait. Everything that happens from here on wakes it, also before [`Listener::changed`] is called. A change of the
    /// tenant's channels wakes it too: the reader loads its channel again at each look.
    pub fn listen<'a>(self: &Arc<Self>, places: impl IntoIterator<Item = &'a Place>) -> Listener {
        let mut waiting = Vec::new();
        let mut state = self.hub.lock();
        for place in places {
            let key = (place.tenant().clone(), place.name());
            let sender = state.places.entry(key.clone()).or_insert_with(|| watch::channel(0).0);
            waiting.push((key, sender.subscribe()));
        }
        if !std::mem::replace(&mut state.is_following, true) {
            // All are subscribed under the lock, so that no other listener looks before they are.
            let tail = self.followed(|parts| parts.logs.tail(&CHANNELS), || Tail::Gap);
            let range = Range { space: CHANNELS, within: Within::Space };
            let watch = self.followed(move |parts| parts.values.watch(&range, WatchFrom::Now), || Seen::Gap);
            let defined =
                stream::unfold(self.parts.layers.channel_changes(), async |mut changes| match changes.recv().await {
                    Ok(tenant) => Some((Told::Channels(tenant), changes)),
                    Err(RecvError::Lagged(_)) => Some((Told::Missed, changes)),
                    Err(RecvError::Closed) => None,
                });
            let told =
                stream::select_all([tail.map(Told::Log).boxed(), watch.map(Told::Value).boxed(), defined.boxed()]);
            tokio::spawn(follow(Arc::downgrade(self), told));
        }
        drop(state);
        Listener { channels: self.clone(), waiting }
    }

    /// A stream of the store, from this call on, that goes on for as long as there are channels.
    fn followed<T: Send + 'static>(
        self: &Arc<Self>,
        open: impl Fn(&ChannelParts) -> BoxStream<'static, T> + Send + 'static,
        gap: fn() -> T,
    ) -> BoxStream<'static, T> {
        let (first, channels) = (open(&self.parts), Arc::downgrade(self));
        let again = move || channels.upgrade().map(|channels| open(&channels.parts));
        streams::reopened(first, again, gap, self.parts.clock.clone())
    }
}

enum Told {
    Log(Tail),
    Value(Seen),
    /// The channels of the tenant changed.
    Channels(Tenant),
    /// Changes of channels were missed.
    Missed,
}

async fn follow(channels: Weak<Channels>, mut told: impl stream::Stream<Item = Told> + Unpin) {
    while let Some(told) = told.next().await {
        let Some(channels) = channels.upgrade() else { return };
        match told {
            Told::Log(Tail::Grew { log, .. }) => channels.hub.changed(&log.tenant, &log.name),
            Told::Value(Seen::Is { key, .. }) if key.key.starts_with(GROUP) => {
                channels.hub.changed(&key.tenant, &key.owner);
            }
            Told::Value(Seen::Is { .. } | Seen::CaughtUp) => {}
            Told::Channels(tenant) => channels.hub.tenant_changed(&tenant),
            Told::Missed | Told::Log(Tail::Gap) | Told::Value(Seen::Gap) => channels.hub.all_changed(),
        }
    }
}

impl Listener {
    /// Returns when one of the places may have changed since the last return, or since it was registered.
    pub async fn changed(&mut self) {
        let changes = self.waiting.iter_mut().map(|(_, receiver)| Box::pin(receiver.changed()));
        let (changed, ..) = select_all(changes).await;
        if changed.is_err() {
            // The sender lives as long as a receiver: this cannot happen, and must not spin.
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut state = self.channels.hub.lock();
        for (key, receiver) in self.waiting.drain(..) {
            drop(receiver);
            if state.places.get(&key).is_some_and(|sender| sender.receiver_count() == 0) {
                state.places.remove(&key);
            }
        }
    }
}
