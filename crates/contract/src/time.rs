//! Time and chance as parameters: nothing else reads the clock, waits or makes random bytes.

use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::failure::{Explain, Failure, FailureKind};

/// Milliseconds since 1970 in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// From milliseconds since 1970.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// As milliseconds since 1970.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// This much later; at the end of time it stays there.
    pub fn after(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX)))
    }

    /// How long from `earlier` to this; nothing if it is not later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// As people and JSON write it: `2026-11-16T09:30:00.125Z`.
    pub fn to_rfc3339(self) -> String {
        jiff::Timestamp::from_millisecond(self.0).map_or_else(|_| self.0.to_string(), |time| format!("{time:.3}"))
    }
}

/// The clock.
#[async_trait]
pub trait Clock: Send + Sync {
    /// The time now. It may step back when the machine's clock is set.
    fn now(&self) -> Timestamp;

    /// Returns at `time`, or at once when that has passed.
    async fn sleep_until(&self, time: Timestamp);
}

/// The source of random bytes.
pub trait Entropy: Send + Sync {
    /// Fills `bytes`, whole, or says why it cannot.
    fn fill(&self, bytes: &mut [u8]) -> Result<(), NoEntropy>;
}

/// The operating system gives no random bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the operating system gives no random bytes: {reason}")]
pub struct NoEntropy {
    /// What it said.
    pub reason: String,
}

impl Explain for NoEntropy {
    fn kind(&self) -> FailureKind {
        FailureKind::Unavailable
    }

    fn code(&self) -> &'static str {
        "no_entropy"
    }

    fn hint(&self) -> Option<String> {
        Some("check that the getrandom system call is allowed, or that /dev/urandom can be read".into())
    }
}

impl From<NoEntropy> for Failure {
    fn from(error: NoEntropy) -> Self {
        Self::of(&error)
    }
}
