//! Removing what ended long ago, once an hour, while a server runs.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use drawloom_contract::{
    retention::{Prune, Retention},
    time::{Clock, Timestamp},
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

/// Removes what ended longer ago than `max_age`, now and then every hour, for ever.
pub(crate) async fn keep(retention: Arc<dyn Retention>, clock: Arc<dyn Clock>, max_age: Duration, sweeps: Arc<Sweeps>) {
    let (began, began_wall) = (clock.now(), clock.wall());
    loop {
        let now = clock.now();
        // A wall clock that was set forward makes nothing older.
        let ended_before = earlier(clock.wall().min(began_wall.after(now.since(began))), max_age);
        match retention.prune(&Prune { tenant: None, ended_before }).await {
            Ok(pruned) => {
                sweeps.done.fetch_add(1, Ordering::Relaxed);
                if pruned.runs > 0 {
                    let (trees, runs, records) = (pruned.trees, pruned.runs, pruned.records);
                    tracing::info!(trees, runs, records, ended_before = %ended_before.to_rfc3339(), "runs were pruned");
                }
            }
            Err(error) => {
                sweeps.failed.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(%error, "runs could not be pruned; it is tried again in an hour");
            }
        }
        clock.sleep_until(now.after(EVERY)).await;
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
    use drawloom_contract::{journal::StoreError, retention::Pruned, time::Instant};
    use tokio::sync::Semaphore;

    use super::*;

    /// A clock that stands still until somebody waits for it.
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
        told: Semaphore,
    }

    #[async_trait]
    impl Retention for Broom {
        async fn find_prunable(&self, _: &Prune) -> Result<Pruned, StoreError> {
            Ok(Pruned::default())
        }

        async fn prune(&self, prune: &Prune) -> Result<Pruned, StoreError> {
            let mut asked = self.asked.lock().expect("no panic");
            asked.push(prune.clone());
            self.told.add_permits(1);
            if asked.len() == 2 { Err(StoreError::Closed) } else { Ok(Pruned { runs: 1, ..Pruned::default() }) }
        }
    }

    #[tokio::test]
    async fn it_looks_at_once_and_then_every_hour_also_after_a_failure() {
        let day = 86_400_000;
        let clock = Arc::new(Jumps {
            began: Timestamp::from_millis(100 * day),
            now: Mutex::new(Instant::from_origin(Duration::ZERO)),
            set_forward_ms: AtomicU64::new(0),
            may_jump: Semaphore::new(0),
        });
        let broom = Arc::new(Broom { asked: Mutex::default(), told: Semaphore::new(0) });
        let sweeps = Arc::<Sweeps>::default();
        let max_age = Duration::from_secs(90 * 86_400);
        let keeping = tokio::spawn(keep(broom.clone(), clock.clone(), max_age, sweeps.clone()));
        for _ in 0..3 {
            broom.told.acquire().await.expect("it is open").forget();
            // From here on the wall clock is a year ahead, which makes nothing older.
            clock.set_forward_ms.store(365 * 86_400_000, Ordering::Relaxed);
            clock.may_jump.add_permits(1);
        }
        keeping.abort();
        let cutoffs: Vec<i64> =
            broom.asked.lock().expect("no panic").iter().map(|prune| prune.ended_before.as_millis()).collect();
        assert_eq!(cutoffs[..3], [10 * day, 10 * day + 3_600_000, 10 * day + 7_200_000]);
        assert_eq!(sweeps.counts().failed, 1);
    }
}
