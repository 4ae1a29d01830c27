//! The machine's clock and the machine's chance.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use async_trait::async_trait;

use drawloom_contract::time::{Clock, Entropy, NoEntropy, Timestamp};

/// The longest single sleep: after it the clock is read again, because it may have been set.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the machine's clock")]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    async fn sleep_until(&self, time: Timestamp) {
        loop {
            let left = time.since(self.now());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left.min(LONGEST_SLEEP)).await;
        }
    }
}

/// The operating system's random bytes, fetched some at a time: an id needs few, and each fetch is a system call.
#[derive(Debug, Default)]
pub struct SystemEntropy(Mutex<Vec<u8>>);

/// Bytes fetched at once.
const FETCH: usize = 2048;

impl Entropy for SystemEntropy {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), NoEntropy> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for byte in bytes {
            if held.is_empty() {
                let mut fetched = vec![0; FETCH];
                getrandom::fill(&mut fetched).map_err(|error| NoEntropy { reason: error.to_string() })?;
                *held = fetched;
            }
            // Each byte is given out once.
            *byte = held.pop().expect("just filled");
        }
        Ok(())
    }
}
