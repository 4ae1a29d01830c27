use proptest::prelude::*;

use super::*;

fn key(number: u8) -> RunKey {
    RunKey { tenant: Tenant::default_tenant(), run: RunId::from_bytes([number; 16]) }
}

fn lane(user: &str, provider: &str) -> Lane {
    Lane { tenant: Tenant::default_tenant(), user: user.parse().expect("a name"), provider: provider.into() }
}

fn ticket(number: u8, lane: Lane, class: Class, depth: u32) -> Ticket {
    Ticket { key: key(number), lane, class, depth, patience: None, gives_up: None }
}

fn gate(global: u32, per_user: Option<u32>, provider: Option<u32>) -> Gate {
    let providers = provider.map(|cap| ("p".to_owned(), cap)).into_iter().collect();
    Gate::new(Caps { global, per_user, providers, queue_depth: 3 })
}

#[test]
fn resumed_go_before_new_deeper_before_shallower_then_first_come_first_served() {
    let mut gate = gate(0, None, None);
    let all = lane("u", "p");
    gate.enqueue(ticket(1, all.clone(), Class::New, 0), false);
    gate.enqueue(ticket(2, all.clone(), Class::New, 2), false);
    gate.enqueue(ticket(3, all.clone(), Class::Resumed, 0), false);
    gate.enqueue(ticket(4, lane("v", "q"), Class::Resumed, 1), false);
    gate.enqueue(ticket(5, all, Class::New, 0), false);
    let places = gate.positions(&[key(1), key(2), key(3), key(4), key(5), key(6)]);
    let places: Vec<_> = [4, 3, 2, 1, 5].map(|number| places[&key(number).run]).into();
    assert_eq!(places, [1, 2, 3, 4, 5]);
    gate.caps.global = 9;
    let order: Vec<_> = std::iter::from_fn(|| gate.grant()).map(|ticket| ticket.key).collect();
    assert_eq!(order, [4, 3, 2, 1, 5].map(key));
}

#[test]
fn a_head_whose_cap_is_full_is_skipped() {
    let mut gate = gate(10, None, Some(1));
    assert_eq!(gate.reserve(&[lane("u", "p")]), Ok(vec![true]));
    gate.enqueue(ticket(1, lane("u", "p"), Class::New, 0), false);
    gate.enqueue(ticket(2, lane("u", "q"), Class::New, 0), false);
    assert_eq!(gate.grant().map(|ticket| ticket.key), Some(key(2)));
    assert_eq!(gate.grant(), None);
    gate.release(&lane("u", "p"));
    assert_eq!(gate.grant().map(|ticket| ticket.key), Some(key(1)));
}

#[test]
fn more_roots_than_may_wait_are_refused_whole() {
    let mut gate = gate(1, None, None);
    let lanes = vec![lane("u", "p"); 4];
    assert_eq!(gate.reserve(&lanes), Ok(vec![true, false, false, false]));
    assert_eq!(gate.reserve(&lanes[..1]), Err(QueueFull { queued: 3, more: 1 }));
    gate.break_promise();
    assert_eq!(gate.reserve(&lanes[..2]), Err(QueueFull { queued: 2, more: 2 }));
    assert_eq!(gate.reserve(&lanes[..1]), Ok(vec![false]));
}

proptest! {
    /// Whatever comes and goes, no cap is ever crossed, nobody is lost, and nobody waits who could go.
    #[test]
    fn caps_hold_and_nobody_is_lost(steps in prop::collection::vec((0u8..4, 0u8..3, 0u8..3, 0u32..3), 1..200)) {
        let mut gate = gate(4, Some(2), Some(3));
        gate.caps.queue_depth = u32::MAX;
        let (mut next, mut queued, mut running) = (0u8, 0usize, Vec::<Lane>::new());
        for (what, user, provider, depth) in steps {
            let at = lane(["a", "b", "c"][usize::from(user)], ["p", "q", "r"][usize::from(provider)]);
            match what {
                0 | 1 if next < 250 => {
                    next += 1;
                    queued += 1;
                    let class = if what == 0 { Class::New } else { Class::Resumed };
                    gate.enqueue(ticket(next, at, class, depth), false);
                }
                2 => if let Some(lane) = running.pop() { gate.release(&lane) },
                3 if next > 0 => {
                    let removed = gate.remove(&key(1 + (user * 83 + depth as u8) % next));
                    queued -= usize::from(removed.is_some());
                }
                _ => {}
            }
            while let Some(ticket) = gate.grant() {
                queued -= 1;
                running.push(ticket.lane);
            }
            prop_assert!(running.len() <= 4);
            for user in ["a", "b", "c"] {
                prop_assert!(running.iter().filter(|lane| lane.user.as_str() == user).count() <= 2);
            }
            prop_assert!(running.iter().filter(|lane| &*lane.provider == "p").count() <= 3);
            prop_assert_eq!(gate.load().queued as usize, queued);
            prop_assert_eq!(gate.load().active as usize, running.len());
            prop_assert!(gate.heads.values().all(|lane| !gate.has_room(lane)));
            prop_assert_eq!(gate.heads.len(), gate.lanes.len());
        }
    }
}

#[test]
fn nobody_gives_up_at_a_held_gate_and_everybodys_patience_counts_from_its_opening() {
    let at = |seconds: i64| Timestamp::from_millis(seconds * 1_000);
    let mut gate = gate(1, None, None);
    let patient = Ticket { patience: Some(Duration::from_secs(20)), ..ticket(1, lane("u", "p"), Class::New, 0) };
    let resumed = ticket(2, lane("u", "p"), Class::Resumed, 0);
    gate.hold();
    for mut ticket in [patient.clone(), resumed] {
        assert_eq!(gate.count_patience(&mut ticket, at(5)), None);
        gate.enqueue(ticket, false);
    }
    assert_eq!(gate.grant(), None);
    assert_eq!(gate.open(at(90)), [(key(1), at(110))], "whoever had a slot before never gives up");
    assert_eq!(gate.grant().map(|ticket| ticket.key), Some(key(2)));
    assert_eq!(gate.remove(&key(1)).and_then(|ticket| ticket.gives_up), Some(at(110)));
    assert_eq!(gate.count_patience(&mut patient.clone(), at(95)), Some(at(115)));
}
