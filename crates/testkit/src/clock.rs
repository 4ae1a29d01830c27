//! A clock for tests that wait.

use async_trait::async_trait;
use drawloom_contract::time::{Clock, Instant, Timestamp};

/// The time since it was made, by tokio's clock, so that a test can pause it.
#[derive(Debug)]
pub struct TestClock(tokio::time::Instant);

impl Default for TestClock {
    fn default() -> Self {
        Self(tokio::time::Instant::now())
    }
}

#[async_trait]
impl Clock for TestClock {
    fn wall(&self) -> Timestamp {
        Timestamp::from_millis(0).after(self.0.elapsed())
    }

    fn now(&self) -> Instant {
        Instant::from_origin(self.0.elapsed())
    }

    async fn sleep_until(&self, time: Instant) {
        tokio::time::sleep(time.since(self.now())).await;
    }
}
