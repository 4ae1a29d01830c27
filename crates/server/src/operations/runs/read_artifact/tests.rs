use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use drawloom_contract::time::{Instant, Timestamp};

use super::*;

/// Every look at it takes so many milliseconds.
struct Ticking(AtomicU64, u64);

#[async_trait]
impl Clock for Ticking {
    fn wall(&self) -> Timestamp {
        Timestamp::from_millis(0)
    }

    fn now(&self) -> Instant {
        Instant::from_origin(Duration::from_millis(self.0.fetch_add(self.1, Ordering::Relaxed)))
    }

    async fn sleep_until(&self, _: Instant) {}
}

fn ticking(millis: u64) -> Ticking {
    Ticking(AtomicU64::new(0), millis)
}

#[test]
fn a_search_stops_when_its_time_is_up() {
    let text = "hit\n".repeat(50);
    let run = drawloom_contract::ids::RunId::from_bytes([7; 16]);
    let ask = runs::ReadArtifact { grep: Some("hit".into()), ..runs::ReadArtifact::new(run) };
    let found = |millis| read(&ask, &text, &ticking(millis)).map(|part| (part.matches, part.truncated));
    assert_eq!(found(100), Ok((Some(20), true)));
    assert_eq!(found(1), Ok((Some(50), false)));
}

#[test]
fn what_cannot_be_read_or_searched_is_a_typed_failure() {
    let run = drawloom_contract::ids::RunId::from_bytes([7; 16]);
    let beyond = runs::ReadArtifact { from_line: Some(9), ..runs::ReadArtifact::new(run) };
    let giant = runs::ReadArtifact { grep: Some(r"\w{100}".into()), ..runs::ReadArtifact::new(run) };
    let broken = runs::ReadArtifact { grep: Some("(".into()), ..runs::ReadArtifact::new(run) };
    let cases = [
        (beyond, "bad_range", "line 9 is out of range"),
        (giant, "bad_pattern", "too large"),
        (broken, "bad_pattern", "invalid"),
    ];
    for (ask, code, wanted) in cases {
        let failure = read(&ask, "one\ntwo\n", &ticking(0)).expect_err(wanted);
        assert_eq!((failure.kind, failure.code), (FailureKind::Invalid, code));
        assert!(failure.message.contains(wanted), "{failure:?}");
    }
}
