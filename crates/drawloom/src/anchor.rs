//! Whether the wall clock was set while no server ran: the log says so once. What a run's deadline makes of it is in the run's
//! own journal.

use drawloom_contract::{
    ids::Tenant,
    redact::Redactor,
    time::{Clock, Timestamp},
    values::{KeyValue, Space, ValueChange, ValueKey},
};
use serde::{Deserialize, Serialize};

/// A smaller difference is none: clocks are also set by small steps.
const SLACK_MS: i64 = 5_000;

/// How far the wall clock was from the clock that does not jump, at a server's start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Anchor {
    /// The boot of the machine; across boots the distance says nothing.
    boot: u32,
    distance_ms: i64,
}

/// Logs whether the wall clock was set since the last server began, if that was in the same boot of the machine. Keeps what the
/// next start compares with.
pub(crate) async fn compare(values: &dyn KeyValue, clock: &dyn Clock, redactor: &Redactor) {
    let (wall, mark) = (clock.wall(), clock.mark());
    let elapsed = i64::try_from(mark.at_ms).unwrap_or(i64::MAX);
    let today = Anchor { boot: mark.boot, distance_ms: wall.as_millis().saturating_sub(elapsed) };
    let key = ValueKey {
        tenant: Tenant::default_tenant(),
        space: Space::of("clock"),
        owner: String::new(),
        key: "anchor".to_owned(),
    };
    let found = values.find_value(&key, Timestamp::from_millis(0)).await.ok().flatten();
    let before: Option<Anchor> = found.and_then(|kept| serde_json::from_value(kept.value).ok());
    let value = redactor.clean(serde_json::to_value(&today).expect("an anchor has only text keys"));
    if let Err(error) = values.change(vec![ValueChange::put(key, value, wall, None)], None).await {
        tracing::warn!(%error, "cannot save the state of the clock; the next start cannot tell whether it was set");
    }
    if let Some(by) = before.and_then(|before| moved(&before, &today)) {
        tracing::warn!(by_ms = by, "the wall clock was set since the last server began");
    }
}

/// By how many milliseconds the wall clock was set between two starts; nothing when it was not, or when that is not known.
fn moved(before: &Anchor, today: &Anchor) -> Option<i64> {
    let by = today.distance_ms.saturating_sub(before.distance_ms);
    (before.boot == today.boot && by.abs() > SLACK_MS).then_some(by)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_is_noticed_within_one_boot() {
        let at = |boot, distance_ms| Anchor { boot, distance_ms };
        assert_eq!(moved(&at(1, 1_000), &at(1, 86_401_000)), Some(86_400_000));
        assert_eq!(moved(&at(1, 86_401_000), &at(1, 1_000)), Some(-86_400_000));
        assert_eq!(moved(&at(1, 1_000), &at(1, 5_000)), None, "a small step");
        assert_eq!(moved(&at(1, 1_000), &at(2, 86_401_000)), None, "the machine was started anew");
    }
}
