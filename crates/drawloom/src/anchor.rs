//! The steady time: what expires, is kept for a while or is delivered later goes by a clock that is never set.
//!
//! It is the wall clock as it was when the store was first used, moved on by the clock that never jumps. The store keeps how far the
//! two are apart: in the same boot of the machine the next process goes on with that, whatever became of the wall clock; after a boot it
//! begins with the wall clock, but never before the time that was reached.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use drawloom_contract::{
    ids::Tenant,
    journal::StoreError,
    redact::Redactor,
    time::{Awake, Clock, Instant, Timestamp},
    values::{KeyValue, Space, ValueChange, ValueKey},
};
use serde::{Deserialize, Serialize};

/// A smaller difference is none: clocks are also set by small steps.
const SLACK_MS: i64 = 5_000;

/// How often the time that was reached is stored: so much of it a crash and a reboot with a wrong clock can give back.
const EVERY: Duration = Duration::from_secs(5 * 60);

/// The space of values in which it is kept.
pub(crate) const SPACE: &str = "clock";

/// What the store knows of the clocks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Anchor {
    /// The boot of the machine; across boots the distances say nothing.
    boot: u32,
    /// How far the wall clock was from the clock that does not jump, at a server's start.
    distance_ms: i64,
    /// The same for the steady time; absent in what versions before 0.6 wrote.
    #[serde(default)]
    steady_distance_ms: Option<i64>,
    /// The latest steady time.
    #[serde(default)]
    reached_ms: Option<i64>,
}

/// A clock whose steady time is independent of the wall clock.
pub(crate) struct SteadyClock {
    machine: Arc<dyn Clock>,
    distance_ms: i64,
    /// Whether the store knows nothing of this boot yet.
    is_first: bool,
}

fn elapsed(clock: &dyn Clock) -> i64 {
    i64::try_from(clock.mark().at_ms).unwrap_or(i64::MAX)
}

fn key() -> ValueKey {
    ValueKey {
        tenant: Tenant::default_tenant(),
        space: Space::of(SPACE),
        owner: String::new(),
        key: "anchor".to_owned(),
    }
}

async fn load(values: &dyn KeyValue) -> Result<Option<Anchor>, StoreError> {
    let found = values.find_value(&key(), Timestamp::from_millis(0)).await?;
    Ok(found.and_then(|kept| serde_json::from_value(kept.value).ok()))
}

impl SteadyClock {
    /// Goes on where the last process was.
    pub(crate) async fn open(values: &dyn KeyValue, machine: Arc<dyn Clock>) -> Result<Arc<Self>, StoreError> {
        let before = load(values).await?;
        let (wall, elapsed) = (machine.wall().as_millis(), elapsed(&*machine));
        let of_this_boot = before.as_ref().filter(|before| before.boot == machine.boot());
        let distance_ms = match &of_this_boot {
            Some(before) => before.steady_distance_ms.unwrap_or(before.distance_ms),
            None => {
                let reached = before.as_ref().and_then(|before| before.reached_ms);
                reached.map_or(wall, |reached| reached.max(wall)).saturating_sub(elapsed)
            }
        };
        Ok(Arc::new(Self { machine, distance_ms, is_first: of_this_boot.is_none() }))
    }

    /// Whether the store knows nothing of this boot of the machine yet.
    pub(crate) fn is_first(&self) -> bool {
        self.is_first
    }

    /// Stores what the next process goes on with.
    pub(crate) async fn keep(&self, values: &dyn KeyValue) {
        let (boot, elapsed) = (self.boot(), elapsed(&*self.machine));
        let today = Anchor {
            boot,
            distance_ms: self.wall().as_millis().saturating_sub(elapsed),
            steady_distance_ms: Some(self.distance_ms),
            reached_ms: Some(self.steady().as_millis()),
        };
        let value = Redactor::new([""; 0]).clean(serde_json::to_value(&today).expect("an anchor has only text keys"));
        if let Err(error) = values.change(vec![ValueChange::put(key(), value, self.wall(), None)], None).await {
            tracing::warn!(%error, "cannot save the state of the clock; the next start cannot tell whether it was set");
        }
    }

    /// The same now and then, for ever.
    pub(crate) async fn keep_on(self: Arc<Self>, values: Arc<dyn KeyValue>) {
        loop {
            self.sleep_until(self.now().after(EVERY)).await;
            self.keep(&*values).await;
        }
    }

    /// Logs whether the wall clock was set since the last server began, if that was in the same boot of the machine. Called before
    /// [`Self::keep`].
    pub(crate) async fn compare(&self, values: &dyn KeyValue) {
        let Ok(Some(before)) = load(values).await else { return };
        let distance_ms = self.wall().as_millis().saturating_sub(elapsed(&*self.machine));
        let today = Anchor { boot: self.boot(), distance_ms, steady_distance_ms: None, reached_ms: None };
        if let Some(by) = moved(&before, &today) {
            tracing::warn!(by_ms = by, "the wall clock was set since the last server began");
        }
    }
}

#[async_trait]
impl Clock for SteadyClock {
    fn wall(&self) -> Timestamp {
        self.machine.wall()
    }

    fn steady(&self) -> Timestamp {
        Timestamp::from_millis(self.distance_ms.saturating_add(elapsed(&*self.machine)))
    }

    fn now(&self) -> Instant {
        self.machine.now()
    }

    fn boot(&self) -> u32 {
        self.machine.boot()
    }

    async fn sleep_until(&self, time: Instant) {
        self.machine.sleep_until(time).await;
    }

    fn awake(&self) -> Awake {
        self.machine.awake()
    }

    async fn sleep_awake_until(&self, time: Awake) {
        self.machine.sleep_awake_until(time).await;
    }
}

/// By how many milliseconds the wall clock was set between two starts; nothing when it was not, or when that is not known.
fn moved(before: &Anchor, today: &Anchor) -> Option<i64> {
    let by = today.distance_ms.saturating_sub(before.distance_ms);
    (before.boot == today.boot && by.abs() > SLACK_MS).then_some(by)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use drawloom_testkit::Memory;

    use super::*;

    const HOUR: i64 = 3_600_000;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;

    /// A machine whose clocks a test sets: the wall clock, the time since its boot, and the boot.
    #[derive(Default)]
    struct Machine(Mutex<(i64, i64, u32)>);

    impl Machine {
        fn set(&self, change: impl Fn(&mut i64)) {
            change(&mut self.0.lock().expect("not poisoned").0);
        }

        fn pass(&self, millis: i64) {
            let mut state = self.0.lock().expect("not poisoned");
            (state.0, state.1) = (state.0 + millis, state.1 + millis);
        }

        fn reboot(&self) {
            let mut state = self.0.lock().expect("not poisoned");
            (state.1, state.2) = (0, state.2 + 1);
        }
    }

    #[async_trait]
    impl Clock for Machine {
        fn wall(&self) -> Timestamp {
            Timestamp::from_millis(self.0.lock().expect("not poisoned").0)
        }

        fn now(&self) -> Instant {
            let since = self.0.lock().expect("not poisoned").1;
            Instant::from_origin(Duration::from_millis(u64::try_from(since).expect("after the boot")))
        }

        fn boot(&self) -> u32 {
            self.0.lock().expect("not poisoned").2
        }

        async fn sleep_until(&self, _: Instant) {}
    }

    async fn start(values: &Memory, machine: &Arc<Machine>) -> Arc<SteadyClock> {
        let clock = SteadyClock::open(values, machine.clone()).await.expect("a store");
        clock.keep(values).await;
        clock
    }

    #[tokio::test]
    async fn the_steady_time_goes_on_evenly_whatever_becomes_of_the_wall_clock() {
        let (values, machine) = (Memory::default(), Arc::<Machine>::default());
        machine.set(|wall| *wall = 50 * YEAR);
        machine.pass(HOUR);
        let clock = start(&values, &machine).await;
        assert_eq!(clock.steady(), clock.wall());
        let begun = clock.steady().as_millis();
        for jump in [YEAR, -YEAR, -DAY, 3 * DAY] {
            machine.set(|wall| *wall += jump);
            machine.pass(HOUR);
            assert_eq!(clock.meant(clock.wall()).as_millis() / 1_000, clock.steady().as_millis() / 1_000, "{jump}");
        }
        assert_eq!(clock.steady().as_millis() - begun, 4 * HOUR);
        // A restart in the middle of a jump, in the same boot.
        machine.set(|wall| *wall += YEAR);
        let clock = start(&values, &machine).await;
        machine.pass(HOUR);
        assert_eq!(clock.steady().as_millis() - begun, 5 * HOUR);
        machine.set(|wall| *wall -= YEAR);
        let clock = start(&values, &machine).await;
        assert_eq!(clock.steady().as_millis() - begun, 5 * HOUR);
    }

    #[tokio::test]
    async fn the_steady_time_never_goes_back_over_a_reboot() {
        let (values, machine) = (Memory::default(), Arc::<Machine>::default());
        machine.set(|wall| *wall = 50 * YEAR);
        let clock = start(&values, &machine).await;
        machine.pass(10 * DAY);
        clock.keep(&values).await;
        let reached = clock.steady();
        machine.reboot();
        machine.set(|wall| *wall -= DAY);
        let clock = start(&values, &machine).await;
        assert_eq!(clock.steady(), reached, "it goes on from the time that was reached");
        machine.pass(HOUR);
        assert_eq!(clock.steady(), reached.after(Duration::from_secs(3_600)));
        // A machine that was off for long has the right time by its wall clock.
        machine.reboot();
        machine.set(|wall| *wall += 30 * DAY);
        let clock = start(&values, &machine).await;
        assert_eq!(clock.steady(), clock.wall());
    }

    #[test]
    fn a_clock_that_was_set_is_noticed_within_one_boot() {
        let at = |boot, distance_ms| Anchor { boot, distance_ms, steady_distance_ms: None, reached_ms: None };
        assert_eq!(moved(&at(1, 1_000), &at(1, 86_401_000)), Some(86_400_000));
        assert_eq!(moved(&at(1, 86_401_000), &at(1, 1_000)), Some(-86_400_000));
        assert_eq!(moved(&at(1, 1_000), &at(1, 5_000)), None, "a small step");
        assert_eq!(moved(&at(1, 1_000), &at(2, 86_401_000)), None, "the machine was started anew");
    }
}
