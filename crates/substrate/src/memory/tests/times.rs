//! Memory goes by the steady time.

use super::*;

/// A wall clock that is set, beside a time that goes on evenly.
#[derive(Default)]
struct TwoClocks {
    wall: AtomicI64,
    steady: AtomicI64,
}

#[async_trait]
impl Clock for TwoClocks {
    fn wall(&self) -> Timestamp {
        Timestamp::from_millis(self.wall.load(Ordering::SeqCst))
    }

    fn steady(&self) -> Timestamp {
        Timestamp::from_millis(self.steady.load(Ordering::SeqCst))
    }

    fn now(&self) -> Instant {
        Instant::from_origin(std::time::Duration::ZERO)
    }

    async fn sleep_until(&self, _: Instant) {}
}

#[tokio::test]
async fn values_go_by_the_steady_time_however_the_wall_clock_is_set() {
    const DAY: i64 = 86_400_000;
    let clock = Arc::<TwoClocks>::default();
    let parts = MemoryParts {
        config: MemoryConfig::default(),
        values: Arc::new(FakeValues::default()),
        search: Arc::new(Mirror),
        clock: clock.clone(),
        redactor: Arc::new(Redactor::new([SECRET])),
    };
    let (memory, here, caller) = (Memory::new(parts), place(ann()), caller());
    let by = by(&caller, None);
    let short = Ask { change: Change::Set(json!(1)), if_revision: None, ttl_seconds: Some(60) };
    memory.change(&here, "k", &short, &by).await.expect("it is set");
    for jump in [365 * DAY, -366 * DAY, 2 * DAY] {
        clock.wall.fetch_add(jump, Ordering::SeqCst);
        assert!(memory.get(&here, "k").await.expect("a store").is_some(), "the clock was set by {jump}");
    }
    clock.steady.fetch_add(60_000, Ordering::SeqCst);
    clock.wall.fetch_add(-30 * DAY, Ordering::SeqCst);
    assert!(memory.get(&here, "k").await.expect("a store").is_none(), "what has expired does not come back");
    let all = ListAsked { limit: 10, ..ListAsked::default() };
    assert!(memory.list(&here, &all).await.expect("a store").entries.is_empty());
    // A time that an import names is one of today's wall clock.
    let expires_at = Some(Timestamp::from_millis(clock.wall().as_millis() + 10_000));
    let entry = NewEntry { key: "named".into(), value: json!(1), expires_at };
    memory.import(&here, vec![entry], &by).await.expect("it is in the future");
    assert!(memory.get(&here, "named").await.expect("a store").is_some());
    clock.steady.fetch_add(11_000, Ordering::SeqCst);
    assert!(memory.get(&here, "named").await.expect("a store").is_none());
}
