//! The machine's clock, for servers that must write dates.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use drawloom_contract::time::{Clock, Instant, Timestamp};
use rustix::time::{ClockId, clock_gettime};

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct WallClock;

#[async_trait]
impl Clock for WallClock {
    #[expect(clippy::disallowed_methods, reason = "a server writes dates, and its tests wait for them")]
    fn wall(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    fn now(&self) -> Instant {
        Instant::from_origin(Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default())
    }

    async fn sleep_until(&self, time: Instant) {
        let mut left = time.since(self.now());
        while !left.is_zero() {
            tokio::time::sleep(left.min(Duration::from_secs(60))).await;
            left = time.since(self.now());
        }
    }
}
