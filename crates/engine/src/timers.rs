//! Timers: what has to happen to runs that no task holds, and when.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use drawloom_contract::{ids::RunKey, time::Timestamp};
use tokio::sync::Notify;

use crate::Engine;

/// What happens at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Due {
    /// A parked run has waited long enough.
    Wake,
    /// A queued run gives up.
    QueueTimeout,
    /// A run's time is up.
    Deadline,
}

/// Timers in order of time.
#[derive(Default)]
pub(crate) struct Timers {
    set: Mutex<BTreeSet<(Timestamp, RunKey, Due)>>,
    changed: Notify,
}

impl Timers {
    pub(crate) fn set(&self, at: Timestamp, key: &RunKey, due: Due) {
        let first = {
            let mut set = self.lock();
            set.insert((at, key.clone(), due));
            set.first().is_some_and(|(time, first, _)| *time == at && first == key)
        };
        if first {
            self.changed.notify_one();
        }
    }

    pub(crate) fn clear(&self, at: Timestamp, key: &RunKey, due: Due) {
        self.lock().remove(&(at, key.clone(), due));
    }

    fn take_due(&self, now: Timestamp) -> Vec<(RunKey, Due)> {
        let mut set = self.lock();
        let mut due = Vec::new();
        while set.first().is_some_and(|(time, ..)| *time <= now) {
            due.extend(set.pop_first().map(|(_, key, what)| (key, what)));
        }
        due
    }

    fn next(&self) -> Option<Timestamp> {
        self.lock().first().map(|(time, ..)| *time)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<(Timestamp, RunKey, Due)>> {
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
