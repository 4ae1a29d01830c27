//! Time and chance as parameters: nothing else reads the clock, waits or makes random bytes.

use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Milliseconds since 1970 in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    pub const fn as_millis(self) -> i64 {
        self.0
    }

    pub fn after(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX)))
    }

    /// How long from `earlier` to this; nothing if it is not later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// As people and JSON write it: `2026-11-16T09:30:00.125Z`.
    pub fn to_rfc3339(self) -> String {
        let time = jiff::civil::date(1970, 1, 1).at(0, 0, 0, 0).checked_add(jiff::SignedDuration::from_millis(self.0));
        time.map_or_else(|_| self.0.to_string(), |time| format!("{time:.3}Z"))
    }
}

impl Timestamp {
    /// A time with its offset, such as `2026-11-16T09:30:00Z`. The library's instants end some hours before the year 9999 does, so it is
    /// computed from the calendar.
    pub fn from_rfc3339(text: &str) -> Option<Self> {
        if let Ok(time) = text.parse::<jiff::Timestamp>() {
            return Some(Self(time.as_millisecond()));
        }
        let pieces = jiff::fmt::temporal::Pieces::parse(text).ok()?;
        let offset = pieces.to_numeric_offset()?;
        let time = pieces.date().to_datetime(pieces.time()?);
        let since = time.duration_since(jiff::civil::date(1970, 1, 1).at(0, 0, 0, 0));
        let millis = i64::try_from(since.as_millis()).ok()? - i64::from(offset.seconds()) * 1_000;
        Some(Self(millis))
    }
}

macro_rules! moments {
    ($($(#[doc = $doc:literal])* $name:ident;)*) => {$(
        $(#[doc = $doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Duration);

        impl $name {
            /// This long after the clock's origin, which means nothing outside of this process.
            pub const fn from_origin(since: Duration) -> Self {
                Self(since)
            }

            pub const fn since_origin(self) -> Duration {
                self.0
            }

            pub fn after(self, wait: Duration) -> Self {
                Self(self.0.saturating_add(wait))
            }

            pub fn since(self, earlier: Self) -> Duration {
                self.0.saturating_sub(earlier.0)
            }
        }
    )*};
}

moments! {
    /// A moment of this process on the clock that counts the time the machine sleeps and never jumps: for deadlines and waits.
    Instant;
    /// A moment of this process on the clock that stands still while the machine sleeps: for limits on what runs, such as a
    /// model turn or a command.
    Awake;
}

/// A moment of the clock that never jumps, in a form that outlives the process. In the same boot of the machine it says how much
/// time has really passed, whatever became of the wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The boot of the machine; marks of two boots cannot be compared.
    pub boot: u32,
    pub at_ms: u64,
}

/// A smaller difference between two clocks is none: they are also set by small steps.
const SLACK_MS: i64 = 5_000;

/// The clock, which tells three times. Each has its own type, so that none can be used for another: a wait can only be made
/// for a time that does not jump.
#[async_trait]
pub trait Clock: Send + Sync {
    /// The wall clock: for people and for what must survive the process. It jumps when the machine's clock is set.
    fn wall(&self) -> Timestamp;

    /// The time of what is kept for a while: expiry, time to live, delivery. It goes on evenly whatever becomes of the wall clock, also
    /// over restarts, and never goes back. The default is a machine whose clock is never set.
    fn steady(&self) -> Timestamp {
        self.wall()
    }

    /// The steady time of a time that a caller or a file names by today's wall clock.
    fn meant(&self, time: Timestamp) -> Timestamp {
        let apart = self.steady().0.saturating_sub(self.wall().0);
        match apart.abs() < SLACK_MS {
            true => time,
            false => Timestamp(time.0.saturating_add(apart / 1_000 * 1_000)),
        }
    }

    /// The time of deadlines and waits.
    fn now(&self) -> Instant;

    /// Which boot of the machine this is, as a number that hardly comes again. The default is a machine that is never restarted.
    fn boot(&self) -> u32 {
        0
    }

    /// This moment, to be kept.
    fn mark(&self) -> Mark {
        Mark { boot: self.boot(), at_ms: u64::try_from(self.now().0.as_millis()).unwrap_or(u64::MAX) }
    }

    /// How long ago that was; nothing when the machine was started anew since.
    fn since_mark(&self, mark: Mark) -> Option<Duration> {
        let passed = self.now().0.saturating_sub(Duration::from_millis(mark.at_ms));
        (mark.boot == self.boot()).then_some(passed)
    }

    /// Returns at `time`, or at once when that has passed.
    async fn sleep_until(&self, time: Instant);

    /// The time of limits on what runs. The default is a machine that never sleeps.
    fn awake(&self) -> Awake {
        Awake(self.now().0)
    }

    /// Returns at `time`, or at once when that has passed. The default is a machine that never sleeps.
    async fn sleep_awake_until(&self, time: Awake) {
        self.sleep_until(Instant(time.0)).await;
    }
}

/// The source of random bytes.
pub trait Entropy: Send + Sync {
    /// Fills `bytes`, whole, or says why it cannot.
    fn fill(&self, bytes: &mut [u8]) -> Result<(), NoEntropy>;

    /// Whether there are random bytes now. For libraries that fetch their own and panic when there are none: it is asked before they
    /// are called, and when they panicked.
    fn check(&self) -> Result<(), NoEntropy> {
        self.fill(&mut [0])
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot get random bytes from the operating system: {reason}")]
pub struct NoEntropy {
    pub reason: String,
}
