//! What the engine counts, for `/metrics`.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use drawloom_contract::{choice::ModelName, money::Cost, record::Status, usage::Usage};

/// Upper bounds of the buckets that durations are counted in, in milliseconds.
pub const BUCKETS_MS: [u64; 12] = [5, 20, 50, 100, 250, 500, 1_000, 2_500, 10_000, 30_000, 120_000, 600_000];

/// How often something took how long.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Durations {
    /// How many took at most as long as each of `BUCKETS_MS`, and no longer than the one before.
    pub buckets: [u64; BUCKETS_MS.len()],
    /// How many in all.
    pub count: u64,
    /// How long all together.
    pub sum: Duration,
}

impl Durations {
    fn note(&mut self, took: Duration) {
        let millis = took.as_millis();
        if let Some(bucket) = BUCKETS_MS.iter().position(|bound| millis <= u128::from(*bound)) {
            self.buckets[bucket] += 1;
        }
        self.count += 1;
        self.sum = self.sum.saturating_add(took);
    }
}

/// Calls of one model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelCalls {
    /// Calls by what they came to: `ok`, or the code of the failure.
    pub outcomes: BTreeMap<&'static str, u64>,
    /// Tokens of those that were answered.
    pub usage: Usage,
    /// What those cost, as far as the model has a price.
    pub cost: Cost,
    /// How long they took.
    pub took: Durations,
}

/// All that the engine has counted since it began.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Runs that were accepted.
    pub accepted: u64,
    /// Runs that ended, by status.
    pub ended: BTreeMap<&'static str, u64>,
    /// How long runs took from accept to their end.
    pub run_took: Durations,
    /// How long runs waited for their first slot.
    pub queued: Durations,
    /// Calls by model.
    pub models: BTreeMap<ModelName, ModelCalls>,
    /// Turns that were tried again.
    pub retries: u64,
    /// Changes to another model.
    pub fallbacks: u64,
    /// Runs that were parked, by what for: `children`, `log`, `value`, `time`, `rate_limit`, `budget`.
    pub parked: BTreeMap<&'static str, u64>,
    /// Tool calls, by tool and whether they failed.
    pub tools: BTreeMap<(String, bool), u64>,
}

/// The counters.
#[derive(Default)]
pub(crate) struct Meters {
    counts: Mutex<Counts>,
}

impl Meters {
    pub(crate) fn counts(&self) -> Counts {
        self.lock().clone()
    }

    pub(crate) fn accepted(&self) {
        self.lock().accepted += 1;
    }

    pub(crate) fn admitted(&self, waited: Duration) {
        self.lock().queued.note(waited);
    }

    pub(crate) fn ended(&self, status: Status, took: Duration) {
        let mut counts = self.lock();
        *counts.ended.entry(status.as_str()).or_default() += 1;
        counts.run_took.note(took);
    }

    pub(crate) fn called(&self, model: &ModelName, outcome: &'static str, took: Duration) {
        let mut counts = self.lock();
        let calls = entry(&mut counts.models, model);
        *calls.outcomes.entry(outcome).or_default() += 1;
        calls.took.note(took);
    }

    pub(crate) fn spent(&self, model: &ModelName, usage: Usage, cost: Option<Cost>) {
        let mut counts = self.lock();
        let calls = entry(&mut counts.models, model);
        calls.usage += usage;
        calls.cost += cost.unwrap_or_default();
    }

    pub(crate) fn retried(&self) {
        self.lock().retries += 1;
    }

    pub(crate) fn fell_back(&self) {
        self.lock().fallbacks += 1;
    }

    pub(crate) fn parked(&self, on: &'static str) {
        *self.lock().parked.entry(on).or_default() += 1;
    }

    pub(crate) fn tool(&self, name: &str, failed: bool) {
        *self.lock().tools.entry((name.to_owned(), failed)).or_default() += 1;
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn entry<'a>(models: &'a mut BTreeMap<ModelName, ModelCalls>, model: &ModelName) -> &'a mut ModelCalls {
    if !models.contains_key(model) {
        models.insert(model.clone(), ModelCalls::default());
    }
    models.get_mut(model).expect("it was just put there")
}
