//! Trials of suspects: runs whose same step was in flight at three unclean ends in a row.
//!
//! Suspects are taken up in small groups beside ordinary work. When the process dies again, the next process splits the
//! group that was on trial, so that the run that causes it is found after few ends. A run is quarantined only when the
//! process died twice while it was the only one on trial. Who is on trial is part of the record that takes a run up,
//! which is on disk before the step is repeated; so nothing else has to survive the process.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use drawloom_contract::{
    ids::RunKey,
    record::{Body, Resumed, Trial},
    runs::Item,
    view::RunView,
};
use futures::future::join_all;

use crate::{Engine, admission::Class, run_task::RunTask, slots::ticket};

/// Unclean ends in a row at the same step that make a run a suspect.
pub(crate) const SUSPECT_AFTER: u32 = 3;

/// Ends of the process while a run was the only one on trial after which it is quarantined.
pub(crate) const ALONE_AT_MOST: u32 = 2;

/// Most runs on trial at once.
const LARGEST_GROUP: usize = 8;

/// How long a group is on trial when its runs have no news. It doubles with every further unclean end, so that also a
/// step that kills the process only after minutes is found.
const TRIAL_TIME: Duration = Duration::from_secs(30);

/// How often the time of a trial is doubled at most.
const MOST_DOUBLINGS: u32 = 5;

/// Records at the end of a suspect's journal in which the one that took it up is found.
const TAIL: u64 = 512;

/// A run that was in flight at the last unclean ends.
#[derive(Debug, Clone)]
pub(crate) struct Suspect {
    pub(crate) view: RunView,
    /// Its trial in the process before, if it was on trial when that ended.
    pub(crate) trial: Option<Trial>,
}

/// The runs that are taken up as suspects by this process, and the trial of each.
#[derive(Default)]
pub(crate) struct Trials(Mutex<HashMap<RunKey, Trial>>);

impl Trials {
    /// The trial that a run is taken up for.
    pub(crate) fn take(&self, key: &RunKey) -> Option<Trial> {
        self.lock().remove(key)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RunKey, Trial>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// What the journal says of a suspect's last trial.
    pub(crate) async fn find_trial(&self, view: &RunView) -> Option<Trial> {
        let (key, after) = (view.key(), view.seq.saturating_sub(TAIL));
        let records = self.read(|| self.parts.reader.read_journal(&key, after, TAIL as usize)).await?;
        let last = records.iter().rev().find_map(|record| match &record.body {
            Body::Resumed(resumed) => Some(resumed.trial),
            _ => None,
        });
        last.flatten()
    }

    /// Takes up the suspects, one group after the other.
    pub(crate) async fn try_suspects(self: Arc<Self>, suspects: Vec<Suspect>) {
        for group in groups(suspects) {
            if self.is_stopping() {
                return;
            }
            self.try_group(group).await;
        }
    }

    /// Takes up a group, and returns when each of its runs has news of its step, has ended, or was on trial for long
    /// enough.
    async fn try_group(self: &Arc<Self>, group: Vec<Suspect>) {
        let size = u32::try_from(group.len()).unwrap_or(u32::MAX);
        let strikes = group.iter().map(|suspect| suspect.view.strikes + 1).max().unwrap_or_default();
        let time = TRIAL_TIME * (1 << strikes.saturating_sub(SUSPECT_AFTER).min(MOST_DOUBLINGS));
        tracing::warn!(suspects = size, strikes, "resuming runs that were at the step where the process crashed");
        let trials = group.into_iter().map(|suspect| {
            let key = suspect.view.key();
            let alone = if size == 1 { suspect.trial.map_or(0, |trial| trial.alone) + 1 } else { 0 };
            self.trials.lock().insert(key.clone(), Trial { group: size, alone });
            self.enqueue(ticket(&suspect.view, Class::Resumed), false);
            async move {
                // Its time counts from here on, and not while it waits for a slot.
                self.taken_up(&key, suspect.view.strikes).await;
                tokio::select! {
                    () = self.news_of(&key) => {}
                    () = self.parts.clock.sleep_until(self.parts.clock.now().after(time)) => {
                        tracing::info!(run = %key.run, "run resumed without another crash");
                        if let Some(control) = self.active().get(&key) {
                            control.pardon();
                        }
                    }
                }
                self.trials.take(&key);
            }
        });
        join_all(trials).await;
    }

    /// Returns when a suspect has its slot and its step is repeated, or it has ended. It had `before` strikes in the process
    /// before.
    async fn taken_up(&self, key: &RunKey, before: u32) {
        self.until(key, |view| view.strikes != before, |body| matches!(body, Body::Resumed(_))).await;
    }

    /// Returns when the step of a suspect that was taken up has an outcome, or the run has ended.
    async fn news_of(&self, key: &RunKey) {
        let is_outcome = |body: &Body| {
            matches!(
                body,
                Body::TurnDone(_)
                    | Body::TurnFailed(_)
                    | Body::CallDone(_)
                    | Body::CallWaiting { .. }
                    | Body::Parked { .. }
            )
        };
        self.until(key, |view| view.strikes == 0, is_outcome).await;
    }

    /// Returns when a run is as wanted, has such a record from now on, or has ended.
    async fn until(&self, key: &RunKey, is_wanted: impl Fn(&RunView) -> bool, tells: impl Fn(&Body) -> bool) {
        loop {
            let mut records = self.feed.events(key);
            let Some(Some(view)) = self.read(|| self.parts.reader.find_run(key)).await else { return };
            if view.status.is_terminal() || is_wanted(&view) {
                return;
            }
            while let Some(item) = records.next().await {
                match item {
                    Item::Record(record) if tells(&record.body) => return,
                    Item::Ended(_) => return,
                    Item::Record(_) | Item::Delta(_) | Item::Activity(_) => {}
                }
            }
            // This listener was too slow: look again.
        }
    }
}

/// The groups in which suspects are tried, in order. Those that were on trial when the process died come first, in two
/// halves; the others follow.
fn groups(suspects: Vec<Suspect>) -> Vec<Vec<Suspect>> {
    let size_of = |suspect: &Suspect| suspect.trial.map(|trial| trial.group);
    let smallest = suspects.iter().filter_map(size_of).min();
    let (first, rest): (Vec<_>, Vec<_>) =
        suspects.into_iter().partition(|suspect| smallest.is_some() && size_of(suspect) == smallest);
    [first, rest]
        .into_iter()
        .flat_map(|all| {
            let size = all.len().div_ceil(2).clamp(1, LARGEST_GROUP);
            all.chunks(size).map(<[Suspect]>::to_vec).collect::<Vec<_>>()
        })
        .collect()
}

impl RunTask {
    /// The trial of the run is over without news: the next unclean end does not speak against it more than against others.
    pub(crate) fn pardon(&mut self) {
        if self.run.trial.is_some() {
            self.push(Body::Resumed(Resumed {
                epoch: self.engine.parts.epoch,
                version: drawloom_contract::VERSION.into(),
                strikes: self.run.view.strikes,
                trial: None,
            }));
        }
    }
}
