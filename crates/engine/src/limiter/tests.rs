use drawloom_contract::ids::{RunId, Tenant};

use super::*;

const NAME: &str = "credential";

fn run(number: u32) -> RunKey {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    RunKey { tenant: Tenant::default_tenant(), run: RunId::from_bytes(bytes) }
}

fn at(millis: u64) -> Instant {
    Instant::from_origin(Duration::from_millis(millis))
}

/// A provider that accepts `most` concurrent calls of 200 ms and throttles the rest, and `runs` runs of one call each.
/// Returns when all were done, throttled calls in the last third of the time, calls in it, and the average in flight there.
fn storm(runs: u32, most: usize, retry_after: Option<Duration>) -> (u64, usize, usize, f64) {
    let limiter = Limiter::default();
    let mut now = 0;
    let mut ready: VecDeque<RunKey> = (0..runs).map(run).collect();
    let mut standby: VecDeque<(oneshot::Receiver<Signal>, RunKey)> = VecDeque::new();
    let mut in_flight: Vec<(u64, RunKey)> = Vec::new();
    let mut resting: Vec<(u64, RunKey)> = Vec::new();
    let mut look: Vec<u64> = Vec::new();
    let (mut done, mut log) = (0, Vec::new());
    let mut levels: Vec<(u64, usize)> = Vec::new();
    while done < runs {
        loop {
            let mut back = Vec::new();
            let called = standby.iter_mut().position(|(signal, run)| match signal.try_recv() {
                Ok(Signal::Start) => true,
                Ok(Signal::Requeue) => {
                    back.push(run.clone());
                    false
                }
                Err(_) => false,
            });
            for run in back {
                limiter.release(NAME, None, false, at(now));
                ready.push_back(run);
            }
            let run = match called.and_then(|place| standby.remove(place)) {
                Some((_, run)) => run,
                None => {
                    let Some(run) = ready.pop_front() else { break };
                    if limiter.acquire(NAME, &run, at(now)) == Decision::Queue {
                        continue;
                    }
                    if let Some((_, called)) = limiter.start_call(NAME, at(now)) {
                        standby.push_back((called, run));
                        continue;
                    }
                    run
                }
            };
            let refused = in_flight.len() >= most;
            log.push((now, refused));
            match refused {
                false => in_flight.push((now + 200, run)),
                true => {
                    let next = limiter.end_call(NAME, CallEnd::Throttled { retry_after }, at(now));
                    match retry_after {
                        Some(wait) => resting.push((now + u64::try_from(wait.as_millis()).expect("short"), run)),
                        None => ready.push_back(run),
                    }
                    look.extend(next.poll_at.map(|time| time.since_origin().as_millis() as u64));
                    ready.extend(next.wake);
                }
            }
        }
        levels.push((now, in_flight.len()));
        let due = in_flight.iter().chain(&resting).map(|(time, _)| *time).chain(look.iter().copied()).min();
        now = due.expect("something comes next");
        look.retain(|time| *time > now);
        ready.extend(limiter.poll(NAME, at(now)).wake);
        ready.extend(resting.extract_if(.., |(time, _)| *time <= now).map(|(_, run)| run));
        for _ in in_flight.extract_if(.., |(time, _)| *time <= now) {
            done += 1;
            let next = limiter.end_call(
                NAME,
                CallEnd::Accepted { took: Duration::from_millis(200), closed_until: None },
                at(now),
            );
            ready.extend(next.wake);
        }
    }
    let third = now * 2 / 3;
    let calls = log.iter().filter(|(time, _)| *time >= third);
    let refused = calls.clone().filter(|(_, refused)| *refused).count();
    let (mut area, mut before) = (0, (third, 0));
    for level in levels.into_iter().filter(|(time, _)| *time >= third).chain([(now, 0)]) {
        area += (level.0 - before.0) * u64::try_from(before.1).expect("few");
        before = level;
    }
    (now, refused, calls.count(), area as f64 / (now - third) as f64)
}

#[test]
fn a_storm_settles_at_the_concurrency_limit_of_the_provider() {
    for retry_after in [None, Some(150), Some(1_000), Some(2_000), Some(3_000)] {
        let retry_after = retry_after.map(Duration::from_millis);
        let (took, refused, calls, level) = storm(200, 5, retry_after);
        let ideal = 200 / 5 * 200;
        assert!(took <= ideal * 5 / 4, "{retry_after:?}: {took} of {ideal}");
        assert!(refused * 10 < calls, "{retry_after:?}: {refused} of {calls} refused");
        assert!((4.0..=7.0).contains(&level), "{retry_after:?}: {level} in flight");
    }
}

#[test]
fn a_provider_without_a_limit_soon_gets_all_calls() {
    let (took, refused, ..) = storm(2_000, 2_000, None);
    assert_eq!(refused, 0);
    assert!(took < 200 * 14, "{took}");
}

#[test]
fn a_credential_that_accepts_no_call_is_closed_for_the_retry_time() {
    let limiter = Limiter::default();
    assert_eq!(limiter.acquire(NAME, &run(1), at(0)), Decision::Admit);
    assert!(limiter.start_call(NAME, at(0)).is_none());
    let refused = CallEnd::Throttled { retry_after: Some(Duration::from_secs(3)) };
    assert_eq!(limiter.end_call(NAME, refused, at(0)), Next { wake: vec![], poll_at: Some(at(3_000)) });
    assert_eq!(limiter.acquire(NAME, &run(1), at(2_999)), Decision::Queue);
    assert_eq!(limiter.acquire(NAME, &run(2), at(2_999)), Decision::Queue);
    assert_eq!(limiter.poll(NAME, at(2_999)).wake, []);
    assert_eq!(limiter.acquire(NAME, &run(3), at(2_999)), Decision::Queue);
    // One at a time to begin with, in order, and one on standby.
    assert_eq!(limiter.poll(NAME, at(3_000)).wake, [run(1), run(2)]);
    assert_eq!(limiter.poll(NAME, at(3_000)).wake, []);
    assert_eq!(limiter.acquire(NAME, &run(1), at(3_001)), Decision::Admit);
    assert!(limiter.start_call(NAME, at(3_001)).is_none());
    assert_eq!(limiter.acquire(NAME, &run(2), at(3_001)), Decision::Admit);
    let (_, mut second) = limiter.start_call(NAME, at(3_001)).expect("a ticket");
    let accepted = CallEnd::Accepted { took: Duration::from_millis(99), closed_until: Some(at(4_100)) };
    assert_eq!(limiter.end_call(NAME, accepted, at(3_100)), Next { wake: vec![], poll_at: Some(at(4_100)) });
    // A closed credential has no run on standby.
    assert_eq!(second.try_recv(), Ok(Signal::Requeue));
    limiter.release(NAME, None, false, at(3_100));
    assert_eq!(limiter.acquire(NAME, &run(2), at(3_100)), Decision::Queue);
    assert_eq!(limiter.poll(NAME, at(4_100)).wake, [run(3), run(2)]);
}

#[test]
fn without_a_retry_time_from_the_provider_the_pauses_grow() {
    let limiter = Limiter::default();
    let mut now = 0;
    let mut pauses = Vec::new();
    for _ in 0..8 {
        assert_eq!(limiter.acquire(NAME, &run(1), at(now)), Decision::Admit);
        assert!(limiter.start_call(NAME, at(now)).is_none());
        let next = limiter.end_call(NAME, CallEnd::Throttled { retry_after: None }, at(now));
        let again = next.poll_at.expect("it is closed").since_origin().as_millis() as u64;
        pauses.push((again - now) / 1_000);
        now = again;
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
}

#[test]
fn a_removed_run_frees_its_place() {
    let limiter = Limiter::default();
    for number in 0..FIRST_LIMIT {
        assert_eq!(limiter.acquire(NAME, &run(number), at(0)), Decision::Admit);
        assert!(limiter.start_call(NAME, at(0)).is_none());
    }
    let mut standby = Vec::new();
    for number in 90..92 {
        assert_eq!(limiter.acquire(NAME, &run(number), at(0)), Decision::Admit);
        standby.push(limiter.start_call(NAME, at(0)).expect("a ticket"));
    }
    for number in 100..104 {
        assert_eq!(limiter.acquire(NAME, &run(number), at(0)), Decision::Queue);
    }
    limiter.remove(&run(100), at(0));
    // A released place on standby goes to the next run.
    assert_eq!(limiter.release(NAME, Some(standby[0].0), false, at(0)).wake, [run(101)]);
    assert!(limiter.is_queued(&run(102)) && !limiter.is_queued(&run(100)) && !limiter.is_queued(&run(101)));
    assert_eq!(limiter.remove(&run(101), at(0)).wake, [run(102)]);
    // When a call ends, a run on standby starts.
    assert_eq!(limiter.end_call(NAME, CallEnd::Other, at(0)).wake, [run(103)]);
    assert_eq!(standby[1].1.try_recv(), Ok(Signal::Start));
    assert_eq!(limiter.state(NAME), CredentialState { in_flight: FIRST_LIMIT, limit: None, waiting: 2 });
    // A run that was told to start while it gave up does not count.
    limiter.release(NAME, Some(standby[1].0), true, at(0));
    assert_eq!(limiter.state(NAME).in_flight, FIRST_LIMIT - 1);
}

#[test]
fn a_woken_run_that_does_not_come_does_not_keep_others_from_calling() {
    let limiter = Limiter::default();
    assert_eq!(limiter.acquire(NAME, &run(0), at(0)), Decision::Admit);
    assert!(limiter.start_call(NAME, at(0)).is_none());
    limiter.end_call(NAME, CallEnd::Throttled { retry_after: Some(Duration::from_secs(1)) }, at(0));
    for number in 1..=5 {
        assert_eq!(limiter.acquire(NAME, &run(number), at(10)), Decision::Queue);
    }
    let next = limiter.poll(NAME, at(1_000));
    assert_eq!(next, Next { wake: vec![run(1), run(2)], poll_at: Some(at(1_500)) });
    // They wait for a slot, say. After a while others are woken, and may call at once.
    assert_eq!(limiter.poll(NAME, at(1_500)).wake, [run(3), run(4)]);
    assert_eq!(limiter.acquire(NAME, &run(3), at(1_510)), Decision::Admit);
    assert!(limiter.start_call(NAME, at(1_510)).is_none());
    // A run that comes late is admitted or queued like any other.
    assert_eq!(limiter.acquire(NAME, &run(1), at(1_520)), Decision::Queue);
    assert!(limiter.is_queued(&run(1)));
}
