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
    /// A call of the run has waited long enough.
    Call,
}

/// Timers in order of time; a run has at most one of each kind.
#[derive(Default)]
pub(crate) struct Timers {
    set: Mutex<Set>,
    changed: Notify,
}

/// The times of one run, by `Due`.
type Times = [Option<Instant>; 4];

#[derive(Default)]
struct Set {
    order: BTreeSet<(Instant, RunKey, Due)>,
    times: HashMap<RunKey, Times>,
    /// What `tick` sleeps for; it is woken only for what comes earlier. Nearly every run has a deadline that is cleared long
    /// before, and none of them wakes it.
    sleeps_until: Option<Instant>,
}

impl Set {
    fn find(&self, key: &RunKey, due: Due) -> Option<Instant> {
        self.times.get(key)?[due as usize]
    }

    fn remove(&mut self, key: &RunKey, due: Due) {
        let Some(times) = self.times.get_mut(key) else { return };
        let Some(at) = times[due as usize].take() else { return };
        let entry = match times.iter().all(Option::is_none) {
            true => self.times.remove_entry(key).map(|(key, _)| key),
            false => None,
        };
        self.order.remove(&(at, entry.unwrap_or_else(|| key.clone()), due));
    }

    fn insert(&mut self, at: Instant, key: &RunKey, due: Due) {
        let times = self.times.entry(key.clone()).or_default();
        let before = times[due as usize].replace(at);
        if let Some(before) = before {
            self.order.remove(&(before, key.clone(), due));
        }
        self.order.insert((at, key.clone(), due));
    }
}

impl Timers {
    /// Sets a timer; it replaces the run's other one of this kind.
    pub(crate) fn set(&self, at: Instant, key: &RunKey, due: Due) {
        let mut set = self.lock();
        set.insert(at, key, due);
        self.tell(&mut set, at);
    }

    /// Sets a timer unless the run has one of this kind that is as early.
    pub(crate) fn set_earlier(&self, at: Instant, key: &RunKey, due: Due) {
        let mut set = self.lock();
        if set.find(key, due).is_none_or(|known| at < known) {
            set.insert(at, key, due);
            self.tell(&mut set, at);
        }
    }

    pub(crate) fn clear(&self, key: &RunKey, due: Due) {
        self.lock().remove(key, due);
    }

    /// How much is left of a timer, if it is set.
    pub(crate) fn left(&self, key: &RunKey, due: Due, now: Instant) -> Option<Duration> {
        self.lock().find(key, due).map(|at| at.since(now))
    }

    fn tell(&self, set: &mut Set, at: Instant) {
        if set.sleeps_until.is_none_or(|until| at < until) {
            set.sleeps_until = Some(at);
            self.changed.notify_one();
        }
    }

    fn take_due(&self, now: Instant) -> Vec<(RunKey, Due)> {
        let mut set = self.lock();
        let mut due = Vec::new();
        while let Some((_, key, what)) = set.order.first().filter(|(time, ..)| *time <= now).cloned() {
            set.remove(&key, what);
            due.push((key, what));
        }
        due
    }

    /// The time to sleep for.
    fn next(&self) -> Option<Instant> {
        let mut set = self.lock();
        set.sleeps_until = set.order.first().map(|(time, ..)| *time);
        set.sleeps_until
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

impl Engine {
    async fn on_timer(self: &Arc<Self>, key: RunKey, due: Due) {
        if self.is_stopping() {
            return;
        }
        match due {
            Due::Wake => self.wake_at_time(key).await,
            Due::QueueTimeout => self.on_queue_timeout(key).await,
            Due::Deadline => self.on_deadline(key).await,
            Due::Call => self.on_call_timer(key),
        }
    }
}
