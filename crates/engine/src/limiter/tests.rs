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

/// A provider that bears `most` calls of 200 ms and refuses the rest at once, and `runs` runs of one call each. Gives
/// when all were done, refusals in the last third of the time, calls in it, and how many were in flight there on average.
fn storm(runs: u32, most: usize, retry_after: Option<Duration>) -> (u64, usize, usize, f64) {
    let limiter = Limiter::default();
    let mut now = 0;
    let mut ready: VecDeque<RunKey> = (0..runs).map(run).collect();
    let mut door: VecDeque<(oneshot::Receiver<Word>, RunKey)> = VecDeque::new();
    let mut in_flight: Vec<(u64, RunKey)> = Vec::new();
    let mut resting: Vec<(u64, RunKey)> = Vec::new();
    let mut look: Vec<u64> = Vec::new();
    let (mut done, mut log) = (0, Vec::new());
    let mut levels: Vec<(u64, usize)> = Vec::new();
    while done < runs {
        loop {
            let mut back = Vec::new();
            let called = door.iter_mut().position(|(word, run)| match word.try_recv() {
                Ok(Word::Call) => true,
                Ok(Word::Back) => {
                    back.push(run.clone());
                    false
                }
                Err(_) => false,
            });
            for run in back {
                limiter.give_up(NAME, None, false, at(now));
                ready.push_back(run);
            }
            let run = match called.and_then(|place| door.remove(place)) {
                Some((_, run)) => run,
                None => {
                    let Some(run) = ready.pop_front() else { break };
                    if limiter.enter(NAME, &run, at(now)) == Entrance::Wait {
                        continue;
                    }
                    if let Some((_, called)) = limiter.call(NAME, at(now)) {
                        door.push_back((called, run));
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
                    let next = limiter.leave(NAME, Ending::Refused { retry_after }, at(now));
                    match retry_after {
                        Some(wait) => resting.push((now + u64::try_from(wait.as_millis()).expect("short"), run)),
                        None => ready.push_back(run),
                    }
                    look.extend(next.look_again.map(|time| time.since_origin().as_millis() as u64));
                    ready.extend(next.wake);
                }
            }
        }
        levels.push((now, in_flight.len()));
        let due = in_flight.iter().chain(&resting).map(|(time, _)| *time).chain(look.iter().copied()).min();
        now = due.expect("something comes next");
        look.retain(|time| *time > now);
        ready.extend(limiter.look(NAME, at(now)).wake);
        ready.extend(resting.extract_if(.., |(time, _)| *time <= now).map(|(_, run)| run));
        for _ in in_flight.extract_if(.., |(time, _)| *time <= now) {
            done += 1;
            let next =
                limiter.leave(NAME, Ending::Borne { took: Duration::from_millis(200), closed_until: None }, at(now));
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
fn a_storm_settles_at_what_the_provider_bears() {
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
fn a_provider_that_bears_everything_is_soon_given_everything() {
    let (took, refused, ..) = storm(2_000, 2_000, None);
    assert_eq!(refused, 0);
    assert!(took < 200 * 14, "{took}");
}

#[test]
fn a_credential_that_bears_nothing_is_left_alone_as_long_as_it_says() {
    let limiter = Limiter::default();
    assert_eq!(limiter.enter(NAME, &run(1), at(0)), Entrance::Go);
    assert!(limiter.call(NAME, at(0)).is_none());
    let refused = Ending::Refused { retry_after: Some(Duration::from_secs(3)) };
    assert_eq!(limiter.leave(NAME, refused, at(0)), Next { wake: vec![], look_again: Some(at(3_000)) });
    assert_eq!(limiter.enter(NAME, &run(1), at(2_999)), Entrance::Wait);
    assert_eq!(limiter.enter(NAME, &run(2), at(2_999)), Entrance::Wait);
    assert_eq!(limiter.look(NAME, at(2_999)).wake, []);
    assert_eq!(limiter.enter(NAME, &run(3), at(2_999)), Entrance::Wait);
    // One at a time to begin with, in order, and one at the door.
    assert_eq!(limiter.look(NAME, at(3_000)).wake, [run(1), run(2)]);
    assert_eq!(limiter.look(NAME, at(3_000)).wake, []);
    assert_eq!(limiter.enter(NAME, &run(1), at(3_001)), Entrance::Go);
    assert!(limiter.call(NAME, at(3_001)).is_none());
    assert_eq!(limiter.enter(NAME, &run(2), at(3_001)), Entrance::Go);
    let (_, mut second) = limiter.call(NAME, at(3_001)).expect("a place at the door");
    let borne = Ending::Borne { took: Duration::from_millis(99), closed_until: Some(at(4_100)) };
    assert_eq!(limiter.leave(NAME, borne, at(3_100)), Next { wake: vec![], look_again: Some(at(4_100)) });
    // Nobody stands at a door that is closed.
    assert_eq!(second.try_recv(), Ok(Word::Back));
    limiter.give_up(NAME, None, false, at(3_100));
    assert_eq!(limiter.enter(NAME, &run(2), at(3_100)), Entrance::Wait);
    assert_eq!(limiter.look(NAME, at(4_100)).wake, [run(3), run(2)]);
}

#[test]
fn without_a_word_from_the_provider_the_pauses_grow() {
    let limiter = Limiter::default();
    let mut now = 0;
    let mut pauses = Vec::new();
    for _ in 0..8 {
        assert_eq!(limiter.enter(NAME, &run(1), at(now)), Entrance::Go);
        assert!(limiter.call(NAME, at(now)).is_none());
        let next = limiter.leave(NAME, Ending::Refused { retry_after: None }, at(now));
        let again = next.look_again.expect("it is closed").since_origin().as_millis() as u64;
        pauses.push((again - now) / 1_000);
        now = again;
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
}

#[test]
fn a_run_that_is_forgotten_makes_room() {
    let limiter = Limiter::default();
    for number in 0..FIRST_LIMIT {
        assert_eq!(limiter.enter(NAME, &run(number), at(0)), Entrance::Go);
        assert!(limiter.call(NAME, at(0)).is_none());
    }
    let mut door = Vec::new();
    for number in 90..92 {
        assert_eq!(limiter.enter(NAME, &run(number), at(0)), Entrance::Go);
        door.push(limiter.call(NAME, at(0)).expect("a place at the door"));
    }
    for number in 100..104 {
        assert_eq!(limiter.enter(NAME, &run(number), at(0)), Entrance::Wait);
    }
    limiter.forget(&run(100), at(0));
    // Whoever leaves the door makes room there.
    assert_eq!(limiter.give_up(NAME, Some(door[0].0), false, at(0)).wake, [run(101)]);
    assert!(limiter.holds(&run(102)) && !limiter.holds(&run(100)) && !limiter.holds(&run(101)));
    assert_eq!(limiter.forget(&run(101), at(0)).wake, [run(102)]);
    // A call that ends is followed by who stands at the door.
    assert_eq!(limiter.leave(NAME, Ending::Other, at(0)).wake, [run(103)]);
    assert_eq!(door[1].1.try_recv(), Ok(Word::Call));
    assert_eq!(limiter.standing(NAME), Standing { in_flight: FIRST_LIMIT, limit: None, waiting: 2 });
    // Who was called in just while leaving counts no more.
    limiter.give_up(NAME, Some(door[1].0), true, at(0));
    assert_eq!(limiter.standing(NAME).in_flight, FIRST_LIMIT - 1);
}

#[test]
fn who_was_woken_and_does_not_come_keeps_nobody_from_calling() {
    let limiter = Limiter::default();
    assert_eq!(limiter.enter(NAME, &run(0), at(0)), Entrance::Go);
    assert!(limiter.call(NAME, at(0)).is_none());
    limiter.leave(NAME, Ending::Refused { retry_after: Some(Duration::from_secs(1)) }, at(0));
    for number in 1..=5 {
        assert_eq!(limiter.enter(NAME, &run(number), at(10)), Entrance::Wait);
    }
    let next = limiter.look(NAME, at(1_000));
    assert_eq!(next, Next { wake: vec![run(1), run(2)], look_again: Some(at(1_500)) });
    // They wait for a slot, say. After a while others are woken, and may call at once.
    assert_eq!(limiter.look(NAME, at(1_500)).wake, [run(3), run(4)]);
    assert_eq!(limiter.enter(NAME, &run(3), at(1_510)), Entrance::Go);
    assert!(limiter.call(NAME, at(1_510)).is_none());
    // Who comes late finds the door or a place in the queue like everybody else.
    assert_eq!(limiter.enter(NAME, &run(1), at(1_520)), Entrance::Wait);
    assert!(limiter.holds(&run(1)));
}
