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

fn admission(global: u32, per_user: Option<u32>, provider: Option<u32>) -> Admission {
    let providers = provider.map(|cap| ("p".to_owned(), cap)).into_iter().collect();
    Admission::new(Caps { global, per_tenant: None, per_user, providers, queue_depth: 3 })
}

#[test]
fn resumed_go_before_new_deeper_before_shallower_then_first_come_first_served() {
    let mut admission = admission(0, None, None);
    let all = lane("u", "p");
    admission.enqueue(ticket(1, all.clone(), Class::New, 0), false);
    admission.enqueue(ticket(2, all.clone(), Class::New, 2), false);
    admission.enqueue(ticket(3, all.clone(), Class::Resumed, 0), false);
    admission.enqueue(ticket(4, lane("u", "q"), Class::Resumed, 1), false);
    admission.enqueue(ticket(5, all, Class::New, 0), false);
    let places = admission.positions(&[key(1), key(2), key(3), key(4), key(5), key(6)]);
    let places: Vec<_> = [4, 3, 2, 1, 5].map(|number| places[&key(number).run]).into();
    assert_eq!(places, [1, 2, 3, 4, 5]);
    admission.caps.global = 9;
    let order: Vec<_> = std::iter::from_fn(|| admission.grant()).map(|ticket| ticket.key).collect();
    assert_eq!(order, [4, 3, 2, 1, 5].map(key));
}

#[test]
fn one_tenant_of_several_cannot_hold_all_slots_however_long_its_runs_take() {
    let mut admission = admission(4, None, None);
    admission.caps.per_tenant = Some(3);
    for number in 1..=5 {
        admission.enqueue(ticket(number, lane_of("slow", "u"), Class::New, 0), false);
    }
    assert_eq!(std::iter::from_fn(|| admission.grant()).count(), 3);
    assert_eq!(
        admission.reserve(&[lane_of("slow", "v")]).map_err(|_| ()),
        Ok(vec![false]),
        "not for another user of it either"
    );
    assert_eq!(
        admission.reserve(&[lane_of("quick", "u")]).map_err(|_| ()),
        Ok(vec![true]),
        "the other tenant does not wait"
    );
}

/// The lane of a user of a tenant.
fn lane_of(tenant: &str, user: &str) -> Lane {
    Lane { tenant: tenant.parse().expect("a name"), ..lane(user, "p") }
}

/// Gives back slots one at a time, and says who gets each.
fn successors(admission: &mut Admission, running: &[Lane]) -> Vec<Lane> {
    running
        .iter()
        .map(|ended| {
            admission.release(ended);
            let ticket = admission.grant().expect("a run is queued");
            assert_eq!(admission.grant(), None, "one slot, one grant");
            ticket.lane
        })
        .collect()
}

#[test]
fn the_next_free_slot_goes_to_the_tenant_that_holds_the_fewest() {
    let mut admission = admission(4, None, None);
    let (busy, quiet) = (lane_of("busy", "u"), lane_of("quiet", "u"));
    assert_eq!(admission.reserve(&vec![busy.clone(); 4]), Ok(vec![true; 4]));
    for number in 1..=8 {
        admission.enqueue(ticket(number, busy.clone(), Class::Resumed, 3), false);
    }
    for number in 9..=12 {
        admission.enqueue(ticket(number, quiet.clone(), Class::New, 0), false);
    }
    assert_eq!(admission.positions(&[key(9)]), BTreeMap::from([(key(9).run, 1)]), "the place says who comes next");
    let next = successors(&mut admission, &vec![busy.clone(); 4]);
    assert_eq!(next, [quiet.clone(), quiet, busy.clone(), busy], "until both hold two");
}

#[test]
fn within_a_tenant_slots_are_shared_between_users() {
    let mut admission = admission(4, None, None);
    let (busy, quiet) = (lane_of("t", "busy"), lane_of("t", "quiet"));
    assert_eq!(admission.reserve(&vec![busy.clone(); 4]), Ok(vec![true; 4]));
    for number in 1..=4 {
        admission.enqueue(ticket(number, busy.clone(), Class::Resumed, 3), false);
        admission.enqueue(ticket(number + 4, quiet.clone(), Class::New, 0), false);
    }
    let next = successors(&mut admission, &[busy.clone(), busy.clone()]);
    assert_eq!(next, [quiet.clone(), quiet]);
}

#[test]
fn tenants_that_keep_coming_do_not_pass_one_that_waits() {
    let mut admission = admission(1, None, None);
    let mut running = lane_of("t0", "u");
    assert_eq!(admission.reserve(std::slice::from_ref(&running)), Ok(vec![true]));
    admission.enqueue(ticket(100, lane_of("waits", "u"), Class::New, 0), false);
    let mut served = Vec::new();
    for number in 1..=3 {
        admission.enqueue(ticket(number, lane_of(&format!("t{number}"), "u"), Class::Resumed, 0), false);
        running = successors(&mut admission, &[running]).remove(0);
        served.push(running.tenant.to_string());
    }
    assert_eq!(served, ["waits", "t1", "t2"]);
}

#[test]
fn a_head_whose_cap_is_full_is_skipped() {
    let mut admission = admission(10, None, Some(1));
    assert_eq!(admission.reserve(&[lane("u", "p")]), Ok(vec![true]));
    admission.enqueue(ticket(1, lane("u", "p"), Class::New, 0), false);
    admission.enqueue(ticket(2, lane("u", "q"), Class::New, 0), false);
    assert_eq!(admission.grant().map(|ticket| ticket.key), Some(key(2)));
    assert_eq!(admission.grant(), None);
    admission.release(&lane("u", "p"));
    assert_eq!(admission.grant().map(|ticket| ticket.key), Some(key(1)));
}

#[test]
fn more_roots_than_may_wait_are_refused_whole() {
    let mut admission = admission(1, None, None);
    let lanes = vec![lane("u", "p"); 4];
    assert_eq!(admission.reserve(&lanes), Ok(vec![true, false, false, false]));
    assert_eq!(admission.reserve(&lanes[..1]), Err(QueueFull { queued: 3, more: 1 }));
    admission.break_promise();
    assert_eq!(admission.reserve(&lanes[..2]), Err(QueueFull { queued: 2, more: 2 }));
    assert_eq!(admission.reserve(&lanes[..1]), Ok(vec![false]));
}

proptest! {
    /// Whatever comes and goes, no cap is ever crossed, nobody is lost, and nobody waits who could go.
    #[test]
    fn caps_hold_and_nobody_is_lost(steps in prop::collection::vec((0u8..4, 0u8..3, 0u8..3, 0u32..3), 1..200)) {
        let mut admission = admission(4, Some(2), Some(3));
        admission.caps.queue_depth = u32::MAX;
        let (mut next, mut queued, mut running) = (0u8, 0usize, Vec::<Lane>::new());
        for (what, user, provider, depth) in steps {
            let at = lane(["a", "b", "c"][usize::from(user)], ["p", "q", "r"][usize::from(provider)]);
            match what {
                0 | 1 if next < 250 => {
                    next += 1;
                    queued += 1;
                    let class = if what == 0 { Class::New } else { Class::Resumed };
                    admission.enqueue(ticket(next, at, class, depth), false);
                }
                2 => if let Some(lane) = running.pop() { admission.release(&lane) },
                3 if next > 0 => {
                    let removed = admission.remove(&key(1 + (user * 83 + depth as u8) % next));
                    queued -= usize::from(removed.is_some());
                }
                _ => {}
            }
            while let Some(ticket) = admission.grant() {
                queued -= 1;
                running.push(ticket.lane);
            }
            prop_assert!(running.len() <= 4);
            for user in ["a", "b", "c"] {
                prop_assert!(running.iter().filter(|lane| lane.user.as_str() == user).count() <= 2);
            }
            prop_assert!(running.iter().filter(|lane| &*lane.provider == "p").count() <= 3);
            prop_assert_eq!(admission.load().queued as usize, queued);
            prop_assert_eq!(admission.load().active as usize, running.len());
            prop_assert_eq!(admission.grant(), None);
        }
    }
}

proptest! {
    /// While tenants and their users always have runs waiting, each tenant holds its share of the slots, give or take
    /// one; within a tenant the user with the fewest slots is served; and every user is served.
    #[test]
    fn tenants_and_users_hold_equal_shares(
        tenants in 1usize..5,
        users in 1usize..4,
        slots in 1u32..13,
        ends in prop::collection::vec(any::<prop::sample::Index>(), 200..300),
    ) {
        let mut admission = admission(slots, None, None);
        let who: Vec<Lane> = (0..tenants * users)
            .map(|number| lane_of(&format!("t{}", number % tenants), &format!("u{}", number / tenants)))
            .collect();
        let (mut next, mut grants) = (0u128, vec![0usize; who.len()]);
        let mut enqueue = |admission: &mut Admission, lane: &Lane| {
            next += 1;
            let key = RunKey { tenant: lane.tenant.clone(), run: RunId::from_bytes(next.to_be_bytes()) };
            admission.enqueue(Ticket { key, ..ticket(0, lane.clone(), Class::New, 0) }, false);
        };
        for lane in who.iter().flat_map(|lane| [lane, lane]) {
            enqueue(&mut admission, lane);
        }
        let of_tenant = |running: &[Lane], name: &str| running.iter().filter(|lane| lane.tenant.as_str() == name).count();
        let mut running: Vec<Lane> = Vec::new();
        for end in ends {
            while let Some(ticket) = admission.grant() {
                let of_user = |user: &Lane| running.iter().filter(|lane| *lane == user).count();
                let mut users = who.iter().filter(|lane| lane.tenant == ticket.lane.tenant);
                prop_assert!(users.all(|other| of_user(other) >= of_user(&ticket.lane)));
                grants[who.iter().position(|lane| *lane == ticket.lane).expect("one of them")] += 1;
                enqueue(&mut admission, &ticket.lane);
                running.push(ticket.lane);
            }
            prop_assert_eq!(running.len(), slots as usize);
            let held: Vec<usize> = (0..tenants).map(|number| of_tenant(&running, &format!("t{number}"))).collect();
            prop_assert!(held.iter().max().unwrap_or(&0) - held.iter().min().unwrap_or(&0) <= 1, "{:?}", held);
            let ended = running.swap_remove(end.index(running.len()));
            admission.release(&ended);
        }
        // 200 slots became free for at most 12 users.
        prop_assert!(grants.iter().all(|count| *count > 0), "{:?}", grants);
    }
}

#[test]
fn nobody_gives_up_at_a_held_gate_and_everybodys_patience_counts_from_its_opening() {
    let at = |seconds: u64| Instant::from_origin(Duration::from_secs(seconds));
    let mut admission = admission(1, None, None);
    let patient = Ticket { patience: Some(Duration::from_secs(20)), ..ticket(1, lane("u", "p"), Class::New, 0) };
    let resumed = ticket(2, lane("u", "p"), Class::Resumed, 0);
    admission.hold();
    for mut ticket in [patient.clone(), resumed] {
        assert_eq!(admission.count_patience(&mut ticket, at(5)), None);
        admission.enqueue(ticket, false);
    }
    assert_eq!(admission.grant(), None);
    assert_eq!(admission.open(at(90)), [(key(1), at(110))], "whoever had a slot before never gives up");
    assert_eq!(admission.grant().map(|ticket| ticket.key), Some(key(2)));
    assert_eq!(admission.remove(&key(1)).and_then(|ticket| ticket.gives_up), Some(at(110)));
    assert_eq!(admission.count_patience(&mut patient.clone(), at(95)), Some(at(115)));
}
