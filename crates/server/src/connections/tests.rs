use super::*;

fn address(last: u8) -> IpAddr {
    [10, 0, 0, last].into()
}

fn caller(name: &str) -> Caller {
    Caller { subject: name.parse().expect("a user"), ..Caller::open(Proof::Principal) }
}

fn connections(open: bool) -> Arc<Connections> {
    let limits = Limits {
        connections: 4,
        reserved: 2,
        connections_per_caller: 2,
        answers: 100,
        answers_per_caller: 60,
        ..Limits::default()
    };
    Connections::new(&limits, open)
}

#[test]
fn there_are_fewer_connections_than_files_that_may_be_open() {
    for (files, connections) in
        [(64, 16), (128, 32), (256, 64), (512, 256), (1_024, 768), (4_096, 3_072), (8_192, 4_096)]
    {
        let limits = Limits::for_open_files(files);
        assert_eq!(limits.connections, connections, "{files} files");
        assert!(limits.reserved < connections && limits.connections_per_caller < connections, "{limits:?}");
    }
    assert_eq!(Limits::for_open_files(u64::MAX), Limits::DEFAULT);
}

fn busy(connections: &Arc<Connections>, last: u8) -> Connection {
    let connection = connections.admit(address(last)).expect("there is room");
    connection.begin(Uri::from_static("/v1/runs"));
    connection.received();
    connection
}

#[test]
fn a_new_connection_takes_the_place_of_the_oldest_idle_one_of_the_largest_peer() {
    let all = connections(true);
    let other = all.admit(address(9)).expect("there is room");
    let busy_one = busy(&all, 1);
    let old = all.admit(address(1)).expect("there is room");
    let young = all.admit(address(1)).expect("there is room");
    let new = all.admit(address(2)).expect("the old one goes");
    assert!(old.closed().is_cancelled(), "the oldest idle one of the peer with three");
    for kept in [&other, &busy_one, &young, &new] {
        assert!(!kept.closed().is_cancelled());
    }
}

#[test]
fn connections_that_answer_are_kept_unless_their_peer_does_not_read() {
    let all = connections(true);
    let kept: Vec<_> = (0..4).map(|_| busy(&all, 1)).collect();
    assert!(all.admit(address(2)).is_none(), "each of them answers");
    kept[2].set_stalled(true);
    assert!(all.admit(address(2)).is_some());
    assert!(kept[2].closed().is_cancelled());
}

#[test]
fn strangers_leave_the_reserved_share_to_callers_with_a_token() {
    let all = connections(false);
    let (one, two) = (all.admit(address(1)).expect("room"), all.admit(address(1)).expect("room"));
    let three = all.admit(address(1)).expect("in place of the first");
    assert!(one.closed().is_cancelled() && !two.closed().is_cancelled());
    three.identify(&caller("ann")).expect("she has none yet");
    let four = all.admit(address(1)).expect("one stranger is left");
    four.identify(&caller("ann")).expect("she may have two");
    assert!(!two.closed().is_cancelled() && !three.closed().is_cancelled());
    assert_eq!(all.lock().strangers, 1);
}

#[test]
fn a_caller_with_all_its_connections_gets_no_more_while_they_answer() {
    let all = connections(false);
    let hers: Vec<_> =
        (0..2).map(|_| busy(&all, 1)).inspect(|one| one.identify(&caller("ann")).expect("two")).collect();
    let third = busy(&all, 1);
    assert_eq!(third.identify(&caller("ann")), Err(TooMany { limit: 2 }));
    third.identify(&caller("bob")).expect("he has none");
    hers[0].end();
    let fourth = busy(&all, 1);
    fourth.identify(&caller("ann")).expect("in place of her idle one");
    assert!(hers[0].closed().is_cancelled());
}

#[test]
fn answers_that_are_not_read_make_room_for_new_ones() {
    let all = connections(false);
    let (slow, other, new) = (busy(&all, 1), busy(&all, 2), all.admit(address(3)));
    assert!(new.is_none(), "two strangers answer, and more may not");
    let (large, small) = (Bytes::from(vec![0; 60]), Bytes::from(vec![0; 50]));
    slow.hold(&large).expect("the first one, however long");
    assert_eq!(other.hold(&small), Err(TooMuch { limit: 100 }), "everybody reads");
    other.hold(&large).expect("what is shared counts once");
    other.release();
    slow.set_stalled(true);
    other.hold(&small).expect("the slow one goes");
    assert!(slow.closed().is_cancelled());
    slow.release();
    other.release();
    assert!(all.lock().all.values().all(|entry| entry.held.is_none()));
}
