//! The rules of cursors, times and waits. Pure: records and the time come in, decisions go out.

use std::time::Duration;

use drawloom_contract::{
    channel::AwaitMode,
    failure::{Explain, FailureKind},
    time::Timestamp,
};
use serde_json::Value;

/// Longest wait of a call of a run: 24 hours. A waiting run holds no slot.
pub const MOST_WAIT_MS: u64 = 86_400_000;

/// Longest wait of a request over REST, MCP and the command line.
pub const LONG_POLL_MS: u64 = 60_000;

/// Longest time that a message can be deferred: 366 days.
pub const MOST_DEFERRED_MS: u64 = 366 * 86_400_000;

/// Why something is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the cursor {} is before the committed cursor {}", show_cursor(*.asked), show_cursor(*.committed))]
    Regression { asked: u64, committed: u64 },
    #[error("the cursor {} is after the newest message {}", show_cursor(*.asked), show_cursor(*.head))]
    BeyondHead { asked: u64, head: u64 },
    #[error("invalid cursor {0:?}")]
    BadCursor(String),
    #[error("invalid lease {0:?}")]
    BadLease(String),
    #[error("ttl must be 1 to {most} seconds, not {asked}")]
    BadTtl { asked: u64, most: u64 },
    #[error("deliver_at {0:?} is not a time")]
    BadTime(String),
    #[error("deliver_at and deliver_after_ms cannot be combined")]
    TwoTimes,
    #[error("a message can be deferred by at most 366 days")]
    TooLate,
    #[error("n must be 1 to {most}, the number of channels, not {asked}")]
    BadCount { asked: u32, most: usize },
    #[error("n is missing: the mode at_least requires it")]
    NoCount,
    #[error("n cannot be used with this mode")]
    UselessCount,
}

impl Explain for Refusal {
    fn kind(&self) -> FailureKind {
        match self {
            Self::Regression { .. } => FailureKind::Conflict,
            _ => FailureKind::Invalid,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Regression { .. } => "channel_cursor_regression",
            Self::BeyondHead { .. } | Self::BadCursor(_) => "channel_cursor_invalid",
            Self::BadLease(_) => "channel_lease_invalid",
            Self::BadTtl { .. } => "bad_ttl",
            Self::BadTime(_) | Self::TwoTimes | Self::TooLate => "bad_time",
            Self::BadCount { .. } | Self::NoCount | Self::UselessCount => "wrong_fields",
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Regression { .. } => Some("read older messages with peek and from_cursor".into()),
            Self::BeyondHead { .. } | Self::BadCursor(_) => {
                Some("pass a cursor from an answer, such as next_cursor".into())
            }
            Self::BadLease(_) => Some("pass the lease of a message that a group subscribe returned".into()),
            Self::BadTime(_) => Some("example: 2026-11-16T09:30:00Z".into()),
            Self::TwoTimes | Self::UselessCount => Some("remove one of them".into()),
            _ => None,
        }
    }
}

/// A cursor as it goes over the wire: everything up to it was read.
pub fn show_cursor(sequence: u64) -> String {
    format!("cur_{sequence}")
}

pub fn read_cursor(text: &str) -> Result<u64, Refusal> {
    let digits = text.strip_prefix("cur_").unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.parse().ok().filter(|_| is_number);
    number.ok_or_else(|| Refusal::BadCursor(text.chars().take(80).collect()))
}

/// After which sequence a subscribe reads. A reader may skip messages, but not go back: others may have read them.
pub fn start(committed: u64, asked: Option<u64>, head: u64) -> Result<u64, Refusal> {
    match asked {
        None => Ok(committed),
        Some(asked) => moved(committed, asked, head),
    }
}

/// Refuses a cursor after the newest message: a reader would never get the messages in between.
pub fn within(asked: u64, head: u64) -> Result<(), Refusal> {
    match asked > head {
        true => Err(Refusal::BeyondHead { asked, head }),
        false => Ok(()),
    }
}

/// The cursor after an acknowledgement.
pub fn moved(committed: u64, asked: u64, head: u64) -> Result<u64, Refusal> {
    if asked < committed {
        return Err(Refusal::Regression { asked, committed });
    }
    within(asked, head.max(committed)).map(|()| asked)
}

/// How many messages between a cursor and the oldest kept one were dropped, purged or expired before they were read.
pub fn missed(after: u64, first: u64) -> u64 {
    first.saturating_sub(1).saturating_sub(after)
}

/// When a message that is visible at `now` expires.
pub fn expiry(ttl: Option<u64>, usual: Option<u64>, most: u64, now: Timestamp) -> Result<Option<Timestamp>, Refusal> {
    if let Some(asked) = ttl
        && !(1..=most).contains(&asked)
    {
        return Err(Refusal::BadTtl { asked, most });
    }
    Ok(ttl.or(usual).map(|seconds| now.after(Duration::from_secs(seconds))))
}

/// When a message becomes visible, if that is later than now.
pub fn due(at: Option<Timestamp>, after_ms: Option<u64>, now: Timestamp) -> Result<Option<Timestamp>, Refusal> {
    let due = match (at, after_ms) {
        (Some(_), Some(_)) => return Err(Refusal::TwoTimes),
        (None, None) => return Ok(None),
        (Some(at), None) => at,
        (None, Some(wait)) => now.after(Duration::from_millis(wait)),
    };
    if due.since(now) > Duration::from_millis(MOST_DEFERRED_MS) {
        return Err(Refusal::TooLate);
    }
    Ok(Some(due).filter(|due| *due > now))
}

/// How many channels must have a message for an `await` to be satisfied.
pub fn needed(mode: AwaitMode, n: Option<u32>, channels: usize) -> Result<usize, Refusal> {
    match (mode, n) {
        (AwaitMode::AtLeast, None) => Err(Refusal::NoCount),
        (AwaitMode::Any | AwaitMode::All, Some(_)) => Err(Refusal::UselessCount),
        (AwaitMode::Any, None) => Ok(1.min(channels)),
        (AwaitMode::All, None) => Ok(channels),
        (AwaitMode::AtLeast, Some(n)) if n >= 1 && n as usize <= channels => Ok(n as usize),
        (AwaitMode::AtLeast, Some(asked)) => Err(Refusal::BadCount { asked, most: channels }),
    }
}

/// How long a caller waits in the end, and a warning when that is less than was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectiveWait {
    pub ms: u64,
    pub warning: Option<String>,
}

pub fn clip(asked: Option<u64>, cap: u64) -> EffectiveWait {
    let asked = asked.unwrap_or(0);
    let warning = (asked > cap).then(|| {
        format!(
            "wait_ms {asked} is above the limit of {cap}; this call waits at most {cap} ms: call again to wait longer"
        )
    });
    EffectiveWait { ms: asked.min(cap), warning }
}

/// A message's body as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Envelope {
    pub value: Value,
    pub expires_at: Option<Timestamp>,
    pub by: Value,
}

impl Envelope {
    pub fn stored(self) -> Value {
        let mut body = serde_json::Map::new();
        body.insert("value".into(), self.value);
        body.insert("by".into(), self.by);
        if let Some(time) = self.expires_at {
            body.insert("expires_at".into(), time.as_millis().into());
        }
        body.into()
    }

    pub fn read(mut body: Value) -> Self {
        let expires_at = body["expires_at"].as_i64().map(Timestamp::from_millis);
        Self { value: body["value"].take(), expires_at, by: body["by"].take() }
    }

    /// Whether it can be read at `now`.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|time| time > now)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn cursors_are_read_as_they_are_shown() {
        for number in [0, 1, 17, u64::MAX] {
            assert_eq!(read_cursor(&show_cursor(number)), Ok(number));
        }
        for text in ["", "cur_", "cur_-1", "cur_+1", "cur_1x", "x", "18446744073709551616"] {
            assert!(read_cursor(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_cursor_never_goes_back_and_never_passes_the_head(committed in 0..50u64, asked in 0..60u64, more in 0..20u64) {
            let head = committed + more;
            match moved(committed, asked, head) {
                Ok(next) => prop_assert!(next == asked && next >= committed && next <= head),
                Err(Refusal::Regression { .. }) => prop_assert!(asked < committed),
                Err(Refusal::BeyondHead { .. }) => prop_assert!(asked > head),
                Err(other) => prop_assert!(false, "{other}"),
            }
        }

        #[test]
        fn a_clipped_wait_says_so_and_another_does_not(asked in 0..200_000u64) {
            let wait = clip(Some(asked), LONG_POLL_MS);
            prop_assert_eq!(wait.ms, asked.min(LONG_POLL_MS));
            prop_assert_eq!(wait.warning.is_some(), asked > LONG_POLL_MS);
        }
    }

    #[test]
    fn a_message_lives_until_exactly_its_time() {
        let expires_at = expiry(Some(2), Some(9), 100, at(1_000)).expect("a ttl");
        assert_eq!(expires_at, Some(at(3_000)));
        let envelope = Envelope { value: json!(1), expires_at, by: json!({}) };
        assert!(envelope.is_live(at(2_999)) && !envelope.is_live(at(3_000)));
        assert_eq!(Envelope::read(envelope.clone().stored()), envelope);
        assert_eq!(expiry(None, Some(9), 100, at(0)), Ok(Some(at(9_000))));
        assert_eq!(expiry(None, None, 100, at(0)), Ok(None));
        assert_eq!(expiry(Some(0), None, 100, at(0)), Err(Refusal::BadTtl { asked: 0, most: 100 }));
        assert_eq!(expiry(Some(101), None, 100, at(0)), Err(Refusal::BadTtl { asked: 101, most: 100 }));
    }

    #[test]
    fn only_a_later_time_defers() {
        assert_eq!(due(None, None, at(5)), Ok(None));
        assert_eq!(due(Some(at(5)), None, at(5)), Ok(None));
        assert_eq!(due(Some(at(6)), None, at(5)), Ok(Some(at(6))));
        assert_eq!(due(None, Some(0), at(5)), Ok(None));
        assert_eq!(due(None, Some(7), at(5)), Ok(Some(at(12))));
        assert_eq!(due(Some(at(6)), Some(1), at(5)), Err(Refusal::TwoTimes));
        assert_eq!(due(None, Some(MOST_DEFERRED_MS + 1), at(5)), Err(Refusal::TooLate));
    }

    #[test]
    fn an_await_needs_any_all_or_so_many() {
        assert_eq!(needed(AwaitMode::Any, None, 3), Ok(1));
        assert_eq!(needed(AwaitMode::All, None, 3), Ok(3));
        assert_eq!(needed(AwaitMode::AtLeast, Some(2), 3), Ok(2));
        assert_eq!(needed(AwaitMode::AtLeast, Some(4), 3), Err(Refusal::BadCount { asked: 4, most: 3 }));
        assert_eq!(needed(AwaitMode::AtLeast, Some(0), 3), Err(Refusal::BadCount { asked: 0, most: 3 }));
        assert_eq!(needed(AwaitMode::AtLeast, None, 3), Err(Refusal::NoCount));
        assert_eq!(needed(AwaitMode::Any, Some(1), 3), Err(Refusal::UselessCount));
    }
}
