//! The machine's clock, for servers that must write dates.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use drawloom_contract::time::{Clock, Timestamp};

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct WallClock;

#[async_trait]
impl Clock for WallClock {
    #[expect(clippy::disallowed_methods, reason = "a server writes dates, and its tests wait for them")]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    async fn sleep_until(&self, time: Timestamp) {
        let mut left = time.since(self.now());
        while !left.is_zero() {
            tokio::time::sleep(left.min(Duration::from_secs(60))).await;
            left = time.since(self.now());
        }
    }
}
