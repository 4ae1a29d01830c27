//! Removing what ended long ago, once an hour, while a server runs.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use drawloom_contract::{
    ids::RunId,
    retention::{Prune, Retention},
    time::{Clock, Instant, Timestamp},
};

/// How often.
const EVERY: Duration = Duration::from_secs(3_600);

/// How the passes went, for `/metrics`.
#[derive(Debug, Default)]
pub(crate) struct Sweeps {
    done: AtomicU64,
    failed: AtomicU64,
}

/// How many passes went well, and how many did not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SweepCounts {
    /// Passes that went well.
    pub(crate) done: u64,
    /// Passes that did not.
    pub(crate) failed: u64,
}

impl Sweeps {
    pub(crate) fn counts(&self) -> SweepCounts {
        SweepCounts { done: self.done.load(Ordering::Relaxed), failed: self.failed.load(Ordering::Relaxed) }
    }
}

/// Removes what ended longer ago than `max_age`, and values whose time is over, now and then every hour, for ever. `kept` lists roots that
/// stay.
pub(crate) async fn keep(
    retention: Arc<dyn Retention>,
    clock: Arc<dyn Clock>,
    max_age: Option<Duration>,
    sweeps: Arc<Sweeps>,
    kept: impl Fn() -> std::io::Result<BTreeSet<RunId>>,
) {
    let mut today = Today::new(clock.now(), clock.wall());
    loop {
        let now = clock.now();
        let date = today.at(now, clock.wall());
        // Values go by the steady time, which a wrong wall clock does not change.
        match retention.remove_expired(date.min(clock.steady())).await {
            Ok(0) => {}
            Ok(values) => tracing::info!(values, "expired values were removed"),
            Err(error) => tracing::warn!(%error, "expired values could not be removed; it is tried again in an hour"),
        }
        if let Some(max_age) = max_age {
            match kept() {
                Ok(keep) => {
                    let prune = Prune { tenant: None, ended_before: earlier(date, max_age), keep };
                    remove(&*retention, &prune, &sweeps).await;
                }
                Err(error) => not_pruned(&error, &sweeps),
            }
        }
        clock.sleep_until(now.after(EVERY)).await;
    }
}

async fn remove(retention: &dyn Retention, prune: &Prune, sweeps: &Sweeps) {
    match retention.prune(prune).await {
        Ok(pruned) => {
            sweeps.done.fetch_add(1, Ordering::Relaxed);
            if pruned.runs > 0 {
                let (trees, runs, records) = (pruned.trees, pruned.runs, pruned.records);
                let ended_before = prune.ended_before.to_rfc3339();
                tracing::info!(trees, runs, records, %ended_before, "runs were pruned");
            }
        }
        Err(error) => not_pruned(&error, sweeps),
    }
}

fn not_pruned(error: &dyn std::error::Error, sweeps: &Sweeps) {
    sweeps.failed.fetch_add(1, Ordering::Relaxed);
    tracing::warn!(%error, "runs could not be pruned; it is tried again in an hour");
}

/// How long a wall clock that was set must stay as it was set before it is believed. A wrong date would remove everything.
const BELIEVED_AFTER: Duration = Duration::from_secs(24 * 3_600);

/// How far the wall clock may drift from the other clock without counting as set.
const DRIFT: Duration = Duration::from_secs(60);

/// The date, counted from a reading of the wall clock with the clock that never jumps. Runs do not get older because the wall
/// clock was set forward by mistake; one that was wrong at the start and set right later is believed after a day.
struct Today {
    believed: Reading,
    /// The reading that the wall clock has agreed with since.
    latest: Reading,
}

/// What the wall clock said at a moment.
#[derive(Clone, Copy)]
struct Reading {
    at: Instant,
    wall: Timestamp,
}

impl Reading {
    fn now(&self, now: Instant) -> Timestamp {
        self.wall.after(now.since(self.at))
    }
}

impl Today {
    fn new(at: Instant, wall: Timestamp) -> Self {
        let reading = Reading { at, wall };
        Self { believed: reading, latest: reading }
    }

    fn at(&mut self, now: Instant, wall: Timestamp) -> Timestamp {
        let drift = wall.as_millis().abs_diff(self.latest.now(now).as_millis());
        if u128::from(drift) > DRIFT.as_millis() {
            self.latest = Reading { at: now, wall };
        } else if now.since(self.latest.at) >= BELIEVED_AFTER {
            self.believed = self.latest;
        }
        wall.min(self.believed.now(now))
    }
}

fn earlier(now: Timestamp, age: Duration) -> Timestamp {
    let millis = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millis(now.as_millis().saturating_sub(millis))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use async_trait::async_trait;
    use drawloom_contract::{ids::RunKey, journal::StoreError, retention::Pruned};
    use tokio::sync::Semaphore;

    use super::*;

    const HOUR: i64 = 3_600_000;

    /// A clock that stands still until a test waits for it.
    struct Jumps {
        began: Timestamp,
        now: Mutex<Instant>,
        set_forward_ms: AtomicU64,
        may_jump: Semaphore,
    }

    #[async_trait]
    impl Clock for Jumps {
        fn wall(&self) -> Timestamp {
            let forward = self.set_forward_ms.load(Ordering::Relaxed);
            self.began.after(self.now().since_origin() + Duration::from_millis(forward))
        }

        fn now(&self) -> Instant {
            *self.now.lock().expect("no panic")
        }

        async fn sleep_until(&self, time: Instant) {
            self.may_jump.acquire().await.expect("it is open").forget();
            *self.now.lock().expect("no panic") = time;
        }
    }

    struct Broom {
        asked: Mutex<Vec<Prune>>,
        expired: Mutex<Vec<Timestamp>>,
        told: Semaphore,
    }

    #[async_trait]
    impl Retention for Broom {
        async fn find_prunable(&self, _: &Prune) -> Result<(Pruned, Vec<RunKey>), StoreError> {
            Ok((Pruned::default(), Vec::new()))
        }

        async fn prune(&self, prune: &Prune) -> Result<Pruned, StoreError> {
            let mut asked = self.asked.lock().expect("no panic");
            asked.push(prune.clone());
            self.told.add_permits(1);
            if asked.len() == 2 { Err(StoreError::Closed) } else { Ok(Pruned { runs: 1, ..Pruned::default() }) }
        }

        async fn remove_trees(&self, _: &[RunKey]) -> Result<Option<Pruned>, StoreError> {
            Ok(None)
        }

        async fn remove_expired(&self, now: Timestamp) -> Result<u64, StoreError> {
            self.expired.lock().expect("no panic").push(now);
            Ok(0)
        }
    }

    /// The cutoffs of `passes` hours with a wall clock that is set `forward` after the first pass, and how many passes failed.
    async fn cutoffs(first: Timestamp, forward: Duration, passes: usize) -> (Vec<i64>, u64) {
        let clock = Arc::new(Jumps {
            began: first,
            now: Mutex::new(Instant::from_origin(Duration::ZERO)),
            set_forward_ms: AtomicU64::new(0),
            may_jump: Semaphore::new(0),
        });
        let broom = Arc::new(Broom { asked: Mutex::default(), expired: Mutex::default(), told: Semaphore::new(0) });
        let sweeps = Arc::<Sweeps>::default();
        let max_age = Duration::from_secs(90 * 86_400);
        let keeping =
            tokio::spawn(keep(broom.clone(), clock.clone(), Some(max_age), sweeps.clone(), || Ok(BTreeSet::new())));
        for _ in 0..passes {
            broom.told.acquire().await.expect("it is open").forget();
            clock.set_forward_ms.store(forward.as_millis() as u64, Ordering::Relaxed);
            clock.may_jump.add_permits(1);
        }
        keeping.abort();
        // Values expire by the same date.
        let earlier = |time: &Timestamp| time.as_millis() - max_age.as_millis() as i64;
        let expired: Vec<i64> = broom.expired.lock().expect("no panic").iter().take(passes).map(earlier).collect();
        assert_eq!(
            expired,
            broom
                .asked
                .lock()
                .expect("no panic")
                .iter()
                .take(passes)
                .map(|prune| prune.ended_before.as_millis())
                .collect::<Vec<_>>()
        );
        let asked = broom.asked.lock().expect("no panic");
        (asked.iter().take(passes).map(|prune| prune.ended_before.as_millis()).collect(), sweeps.counts().failed)
    }

    #[tokio::test]
    async fn it_looks_at_once_and_then_every_hour_also_after_a_failure() {
        let day = 86_400_000;
        // After the first pass the wall clock is a year ahead, which makes nothing older.
        let (cutoffs, failed) = cutoffs(Timestamp::from_millis(100 * day), Duration::from_secs(365 * 86_400), 3).await;
        assert_eq!(cutoffs, [10 * day, 10 * day + HOUR, 10 * day + 2 * HOUR]);
        assert_eq!(failed, 1);
    }

    /// A machine without a battery starts in 1970 and learns the date later.
    #[tokio::test]
    async fn a_wall_clock_that_was_set_right_is_believed_after_a_day() {
        let day = 86_400_000;
        let (cutoffs, _) = cutoffs(Timestamp::from_millis(0), Duration::from_secs(20_000 * 86_400), 30).await;
        // The second pass saw the new date; a day later it holds.
        let expected = |hour: i64| if hour < 25 { hour * HOUR - 90 * day } else { (20_000 - 90) * day + hour * HOUR };
        assert_eq!(cutoffs, (0..30).map(expected).collect::<Vec<_>>());
    }
}
