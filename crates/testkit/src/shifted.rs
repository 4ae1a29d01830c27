//! A clock whose wall time a test can set while the process runs.

use std::{path::PathBuf, sync::Arc};

use async_trait::async_trait;
use drawloom_contract::time::{Awake, Clock, Instant, Timestamp};

/// A clock whose wall time is shifted by as many milliseconds as a file says at that moment; not at all without the file.
/// Its other times are those of the clock inside.
pub struct ShiftedClock {
    /// The clock.
    pub inner: Arc<dyn Clock>,
    /// The file. Replace it by renaming, so that it is never read half-written.
    pub file: PathBuf,
}

#[async_trait]
impl Clock for ShiftedClock {
    fn wall(&self) -> Timestamp {
        let text = std::fs::read_to_string(&self.file).unwrap_or_default();
        let by: i64 = text.trim().parse().unwrap_or(0);
        Timestamp::from_millis(self.inner.wall().as_millis().saturating_add(by))
    }

    fn now(&self) -> Instant {
        self.inner.now()
    }

    fn boot(&self) -> u32 {
        self.inner.boot()
    }

    async fn sleep_until(&self, time: Instant) {
        self.inner.sleep_until(time).await;
    }

    fn awake(&self) -> Awake {
        self.inner.awake()
    }

    async fn sleep_awake_until(&self, time: Awake) {
        self.inner.sleep_awake_until(time).await;
    }
}
