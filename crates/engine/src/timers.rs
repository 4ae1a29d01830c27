//! Timers: what has to happen to runs at which time, whether or not a task holds them.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use drawloom_contract::{ids::RunKey, time::Instant};
use tokio::sync::Notify;

use crate::Engine;

/// What happens at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Due {
    /// A parked run has waited long enough.
    Wake,
    /// A queued run gives up.
    QueueTimeout,
    /// A run's time is up.
    Deadline,
}

/// Timers in order of time; a run has at most one of each kind.
#[derive(Default)]
pub(crate) struct Timers {
    set: Mutex<Set>,
    changed: Notify,
}

#[derive(Default)]
struct Set {
    order: BTreeSet<(Instant, RunKey, Due)>,
    times: HashMap<(RunKey, Due), Instant>,
}

impl Set {
    fn remove(&mut self, key: &RunKey, due: Due) {
        let name = (key.clone(), due);
        if let Some(at) = self.times.remove(&name) {
            self.order.remove(&(at, name.0, due));
        }
    }

    fn insert(&mut self, at: Instant, key: &RunKey, due: Due) {
        self.remove(key, due);
        self.times.insert((key.clone(), due), at);
        self.order.insert((at, key.clone(), due));
    }
}

impl Timers {
    /// Sets a timer; it replaces the run's other one of this kind.
    pub(crate) fn set(&self, at: Instant, key: &RunKey, due: Due) {
        let mut set = self.lock();
        set.insert(at, key, due);
        self.tell(&set, key);
    }

    /// Sets a timer unless the run has one of this kind that is as early.
    pub(crate) fn set_earlier(&self, at: Instant, key: &RunKey, due: Due) {
        let mut set = self.lock();
        if set.times.get(&(key.clone(), due)).is_none_or(|known| at < *known) {
            set.insert(at, key, due);
            self.tell(&set, key);
        }
    }

    pub(crate) fn clear(&self, key: &RunKey, due: Due) {
        self.lock().remove(key, due);
    }

    /// How much is left of a timer, if it is set.
    pub(crate) fn left(&self, key: &RunKey, due: Due, now: Instant) -> Option<Duration> {
        self.lock().times.get(&(key.clone(), due)).map(|at| at.since(now))
    }

    fn tell(&self, set: &Set, key: &RunKey) {
        if set.order.first().is_some_and(|(_, first, _)| first == key) {
            self.changed.notify_one();
        }
    }

    fn take_due(&self, now: Instant) -> Vec<(RunKey, Due)> {
        let mut set = self.lock();
        let mut due = Vec::new();
        while set.order.first().is_some_and(|(time, ..)| *time <= now)
            && let Some((_, key, what)) = set.order.pop_first()
        {
            set.times.remove(&(key.clone(), what));
            due.push((key, what));
        }
        due
    }

    fn next(&self) -> Option<Instant> {
        self.lock().order.first().map(|(time, ..)| *time)
    }

    fn lock(&self) -> MutexGuard<'_, Set> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Fires timers until the engine is gone.
pub(crate) async fn tick(engine: Weak<Engine>) {
    loop {
        let Some(strong) = engine.upgrade() else { return };
        let (timers, clock) = (strong.timers.clone(), strong.parts.clock.clone());
        for (key, due) in timers.take_due(clock.now()) {
            let engine: Arc<Engine> = strong.clone();
            tokio::spawn(async move { engine.on_timer(key, due).await });
        }
        drop(strong);
        let next = timers.next();
        tokio::select! {
            () = timers.changed.notified() => {}
            () = async {
                match next {
                    Some(time) => clock.sleep_until(time).await,
                    None => std::future::pending().await,
                }
            } => {}
        }
    }
}
