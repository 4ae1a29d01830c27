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
    let hits = search("hit", &text, &ticking(100)).expect("hits");
    assert_eq!(hits, Hits { lines: (0..20).collect(), cut: true });
    let hits = search("hit", &text, &ticking(1)).expect("hits");
    assert_eq!(hits, Hits { lines: (0..50).collect(), cut: false });
}

#[test]
fn of_a_line_only_its_beginning_is_searched() {
    let filler = "ü".repeat(LINE / 2 - 1);
    let text = format!("{filler}:)\n{filler}  :)\n:)");
    let hits = search(r":\)", &text, &ticking(0)).expect("hits");
    assert_eq!(hits, Hits { lines: vec![0, 2], cut: true });
    // The cut falls inside of a character.
    assert!(search("x", &format!("y{}", "ü".repeat(LINE)), &ticking(0)).expect("no hits").cut);
}

#[test]
fn patterns_that_people_write_fit_and_giants_do_not() {
    for pattern in [r"\w+\s+\w+", r"^\s*fn \w+\(", r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}", r"\bTODO\b|\w+@\w+\.\w+"] {
        search(pattern, "text", &ticking(0)).expect(pattern);
    }
    for (pattern, wanted) in [(r"\w{100}", "too large"), ("(?:a{100}){100}", "too large"), ("(", "is not a regular")] {
        let failure = search(pattern, "text", &ticking(0)).expect_err(pattern);
        assert_eq!((failure.kind, failure.code), (FailureKind::Invalid, "bad_pattern"));
        assert!(failure.message.contains(wanted) && failure.hint.is_some(), "{failure:?}");
    }
}
