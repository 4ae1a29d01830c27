//! What calls do now, for followers of runs and trees. It is not journaled.
//!
//! The newest report of a call replaces the one before. A follower takes what is newest when it reads, so that one that does not read
//! holds nothing, however many reports there are.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use drawloom_contract::{
    activity::{Activity, Progress, RunActivity},
    ids::RunId,
    record::{Accepted, Seq},
    redact::Redactor,
    time::{Clock, Instant},
};
use serde_json::Value;
use tokio::sync::watch;

/// The least time between two activities of one run for the same follower.
const PAUSE: Duration = Duration::from_millis(250);

/// What calls report, by run and by tree: a topic is the id of either.
#[derive(Default)]
pub(crate) struct Activities {
    topics: Mutex<HashMap<RunId, Topic>>,
}

/// The newest report of each call, with its number. `newest` is the largest number.
struct Topic {
    newest: watch::Sender<u64>,
    reports: BTreeMap<(RunId, Seq), (u64, Arc<RunActivity>)>,
}

impl Default for Topic {
    fn default() -> Self {
        Self { newest: watch::Sender::new(0), reports: BTreeMap::new() }
    }
}

impl Activities {
    /// What the runs of a tree do now.
    pub(crate) fn of_tree(&self, root: RunId) -> Vec<Arc<RunActivity>> {
        let topics = self.lock();
        let reports = topics.get(&root).into_iter().flat_map(|topic| topic.reports.values());
        reports.map(|(_, activity)| activity.clone()).collect()
    }

    /// Subscribes to a run or, with the id of its root, to a tree.
    pub(crate) fn watch(self: &Arc<Self>, topic: RunId, clock: Arc<dyn Clock>) -> ActivityWatch {
        let newest = self.lock().entry(topic).or_default().newest.subscribe();
        let not_before = clock.now();
        ActivityWatch { newest, activities: self.clone(), topic, seen: 0, round: 0, not_before, clock }
    }

    fn put(&self, topic: RunId, activity: &Arc<RunActivity>) {
        let mut topics = self.lock();
        let topic = topics.entry(topic).or_default();
        topic.newest.send_modify(|newest| *newest += 1);
        let number = *topic.newest.borrow();
        topic.reports.insert((activity.run, activity.call), (number, activity.clone()));
    }

    /// Removes the report of a call that has ended.
    fn remove(&self, id: RunId, run: RunId, call: Seq) {
        let mut topics = self.lock();
        let Some(topic) = topics.get_mut(&id) else { return };
        topic.reports.remove(&(run, call));
        if topic.reports.is_empty() && topic.newest.receiver_count() == 0 {
            topics.remove(&id);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RunId, Topic>> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where a call reports. Dropping it removes what the call reported.
pub(crate) struct CallProgress {
    activities: Arc<Activities>,
    redactor: Arc<Redactor>,
    run: RunId,
    root: RunId,
    context: Option<Value>,
    call: Seq,
    last: Mutex<Option<Activity>>,
}

impl CallProgress {
    pub(crate) fn new(activities: &Arc<Activities>, redactor: &Arc<Redactor>, accepted: &Accepted, call: Seq) -> Self {
        let Accepted { run, root, parent_context, .. } = accepted;
        Self {
            activities: activities.clone(),
            redactor: redactor.clone(),
            run: *run,
            root: *root,
            context: parent_context.clone(),
            call,
            last: Mutex::default(),
        }
    }

    fn topics(&self) -> impl Iterator<Item = RunId> + use<> {
        [Some(self.root), Some(self.run).filter(|run| *run != self.root)].into_iter().flatten()
    }
}

impl Progress for CallProgress {
    fn report(&self, mut activity: Activity) {
        self.redactor.mask(&mut activity.tool);
        self.redactor.mask(&mut activity.detail);
        let activity = activity.bounded();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref() == Some(&activity) {
            return;
        }
        *last = Some(activity.clone());
        let activity = RunActivity { run: self.run, call: self.call, context: self.context.clone(), activity };
        let activity = Arc::new(activity);
        self.topics().for_each(|topic| self.activities.put(topic, &activity));
    }
}

impl Drop for CallProgress {
    fn drop(&mut self) {
        if self.last.get_mut().unwrap_or_else(PoisonError::into_inner).is_some() {
            self.topics().for_each(|topic| self.activities.remove(topic, self.run, self.call));
        }
    }
}

/// A subscription. It takes reports in rounds, each with at most one of a call, and pauses between rounds.
pub(crate) struct ActivityWatch {
    newest: watch::Receiver<u64>,
    activities: Arc<Activities>,
    topic: RunId,
    /// The largest number that was taken.
    seen: u64,
    /// The largest number of this round.
    round: u64,
    not_before: Instant,
    clock: Arc<dyn Clock>,
}

impl ActivityWatch {
    /// The next activity of a run that is wanted. It can be dropped while it waits.
    pub(crate) async fn next(&mut self, is_wanted: impl Fn(RunId) -> bool) -> Arc<RunActivity> {
        loop {
            if self.seen >= self.round {
                let seen = self.seen;
                if self.newest.wait_for(|newest| *newest > seen).await.is_err() {
                    std::future::pending::<()>().await;
                }
                if self.clock.now() < self.not_before {
                    self.clock.sleep_until(self.not_before).await;
                }
                self.round = *self.newest.borrow();
                self.not_before = self.clock.now().after(PAUSE);
            }
            if let Some(activity) = self.take(&is_wanted) {
                return activity;
            }
        }
    }

    /// The oldest report of this round that was not taken.
    fn take(&mut self, is_wanted: impl Fn(RunId) -> bool) -> Option<Arc<RunActivity>> {
        let topics = self.activities.lock();
        let reports = topics.get(&self.topic).into_iter().flat_map(|topic| topic.reports.values());
        let due = reports.filter(|(number, _)| *number > self.seen && *number <= self.round);
        let next = due.filter(|(_, activity)| is_wanted(activity.run)).min_by_key(|(number, _)| *number);
        self.seen = next.map_or(self.round, |(number, _)| *number);
        next.map(|(_, activity)| activity.clone())
    }
}

impl Drop for ActivityWatch {
    fn drop(&mut self) {
        let mut topics = self.activities.lock();
        // This one is still counted.
        if topics.get(&self.topic).is_some_and(|topic| topic.reports.is_empty() && topic.newest.receiver_count() <= 1) {
            topics.remove(&self.topic);
        }
    }
}

#[cfg(test)]
mod tests;
