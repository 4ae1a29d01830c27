//! Jumps of the wall clock: found by comparing it with the clock that does not jump.

use std::sync::atomic::{AtomicI64, Ordering};

use drawloom_contract::time::{Instant, Timestamp};

/// A difference that is not called a jump, in milliseconds: clocks are also set by small steps, and reading two clocks
/// takes time.
const SLACK: i64 = 5_000;

/// What stands for "never looked".
const NEVER: i64 = i64::MIN;

/// The distance between the two clocks when they were last compared.
pub(crate) struct Jumps(AtomicI64);

impl Default for Jumps {
    fn default() -> Self {
        Self(AtomicI64::new(NEVER))
    }
}

impl Jumps {
    /// By how many milliseconds the wall clock jumped since the last look; nothing when it did not. Each jump is told once.
    pub(crate) fn look(&self, wall: Timestamp, now: Instant) -> Option<i64> {
        let elapsed = i64::try_from(now.since_origin().as_millis()).unwrap_or(i64::MAX);
        let distance = wall.as_millis().saturating_sub(elapsed);
        let before = self.0.load(Ordering::Relaxed);
        let by = distance.saturating_sub(before);
        if before != NEVER && by.abs() <= SLACK {
            return None;
        }
        let is_mine = self.0.compare_exchange(before, distance, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        (is_mine && before != NEVER).then_some(by)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_jump_is_told_once_and_slow_drift_is_not_one() {
        let jumps = Jumps::default();
        let look = |wall: i64, now: u64| {
            jumps.look(Timestamp::from_millis(wall), Instant::from_origin(Duration::from_millis(now)))
        };
        assert_eq!(look(1_000_000, 0), None, "the first look");
        assert_eq!(look(1_060_000, 60_000), None);
        assert_eq!(look(1_064_000, 60_000), None, "a small step");
        assert_eq!(look(87_464_000, 60_000), Some(86_404_000));
        assert_eq!(look(87_474_000, 70_000), None, "the same jump");
        assert_eq!(look(1_080_000, 80_000), Some(-86_404_000));
    }
}
