//! Waits: whoever has nothing left to wait for is woken once, whatever came first.

use drawloom_contract::{
    ids::{RunKey, Tenant},
    journal::{Due, Entry, Journal as _, RunReader as _},
    record::{Body, Collect, Status},
    wait::{Cause, Wait, WaitChange},
};

use crate::fixtures::{
    Bench, accepted, admitted, after, at, begin, child, completed, failed, key, note, parked, run_id,
};

fn wait(call: u64, count: u32) -> WaitChange {
    let wait = Wait::on(Cause::Children { count, collect: Collect::Many });
    WaitChange::Call { run: key(1), call, wait, since: at(1) }
}

fn waiting(call: u64, count: u32) -> Body {
    Body::CallWaiting { call, wait: Wait::on(Cause::Children { count, collect: Collect::Many }) }
}

impl Bench {
    /// Run 1 with a slot, at record 2.
    async fn parent(&self) {
        self.append(begin(accepted(1), [admitted()])).await;
    }

    /// Starts children of call 2 of run 1, in the commit that parks it on them.
    async fn park_on(&self, children: std::ops::Range<u64>) -> Vec<RunKey> {
        let count = u32::try_from(children.end - children.start).expect("a few");
        let mut runs: Vec<_> = (0..).zip(children).map(|(index, run)| begin(child(run, 1, 2, index), [])).collect();
        runs.push(after(key(1), 2, [waiting(2, count), parked()]));
        let entry = Entry { runs, waits: vec![wait(2, count)], ..Entry::append(self.epoch, begin(accepted(99), [])) };
        self.commit(entry).await.expect("children and their wait").woken
    }

    async fn end(&self, run: u64) -> Vec<RunKey> {
        self.append(after(key(run), 1, [completed()])).await.woken
    }
}

#[tokio::test]
async fn the_last_child_to_end_wakes_a_parked_parent() {
    let bench = Bench::new();
    bench.parent().await;
    assert_eq!(bench.park_on(2..5).await, []);
    assert_eq!(bench.end(3).await, []);
    assert_eq!(bench.append(after(key(2), 1, [failed()])).await.woken, []);
    assert_eq!(bench.end(4).await, [key(1)]);
}

#[tokio::test]
async fn a_parent_that_parks_after_its_children_ended_is_woken_by_its_own_commit() {
    let bench = Bench::new();
    bench.parent().await;
    let entry = Entry {
        runs: vec![begin(child(2, 1, 2, 0), []), after(key(1), 2, [waiting(2, 1)])],
        waits: vec![wait(2, 1)],
        ..Entry::append(bench.epoch, begin(accepted(99), []))
    };
    assert_eq!(bench.commit(entry).await.expect("a child and its wait").woken, []);
    assert_eq!(bench.end(2).await, [], "the parent still runs, so nobody is woken");
    assert_eq!(bench.append(after(key(1), 3, [parked()])).await.woken, [key(1)]);
}

#[tokio::test]
async fn children_that_ended_before_the_wait_began_are_not_waited_for() {
    let bench = Bench::new();
    bench.parent().await;
    bench.append(begin(child(2, 1, 2, 0), [completed()])).await;
    bench.append(begin(child(3, 1, 2, 1), [])).await;
    let entry =
        Entry { waits: vec![wait(2, 2)], ..Entry::append(bench.epoch, after(key(1), 2, [waiting(2, 2), parked()])) };
    assert_eq!(bench.commit(entry).await.expect("a wait").woken, []);
    assert_eq!(bench.end(3).await, [key(1)]);
}

#[tokio::test]
async fn a_child_that_begins_and_ends_in_the_commit_that_waits_for_it_is_counted_once() {
    let bench = Bench::new();
    bench.parent().await;
    let entry = Entry {
        runs: vec![
            begin(child(2, 1, 2, 0), [completed()]),
            begin(child(3, 1, 2, 1), []),
            after(key(1), 2, [waiting(2, 2), parked()]),
        ],
        waits: vec![wait(2, 2)],
        ..Entry::append(bench.epoch, begin(accepted(99), []))
    };
    assert_eq!(bench.commit(entry).await.expect("a wait").woken, [], "one child is left");
    assert_eq!(bench.end(3).await, [key(1)]);
}

#[tokio::test]
async fn a_parent_with_two_waits_is_woken_when_both_are_over() {
    let bench = Bench::new();
    bench.append(begin(accepted(1), [admitted(), note("call 3")])).await;
    let entry = Entry {
        runs: vec![
            begin(child(2, 1, 2, 0), []),
            begin(child(3, 1, 3, 0), []),
            after(key(1), 3, [waiting(2, 1), waiting(3, 1), parked()]),
        ],
        waits: vec![wait(2, 1), wait(3, 1)],
        ..Entry::append(bench.epoch, begin(accepted(99), []))
    };
    assert_eq!(bench.commit(entry).await.expect("two waits").woken, []);
    assert_eq!(bench.end(3).await, []);
    assert_eq!(bench.end(2).await, [key(1)]);
}

#[tokio::test]
async fn of_children_that_end_at_the_same_time_exactly_one_wakes_the_parent() {
    let bench = Bench::new();
    bench.parent().await;
    assert_eq!(bench.park_on(2..34).await, []);
    let ends = (2..34).map(|run| {
        let (store, epoch) = (bench.store.clone(), bench.epoch);
        tokio::spawn(async move { store.commit(Entry::append(epoch, after(key(run), 1, [completed()]))).await })
    });
    let mut woken = Vec::new();
    for end in ends.collect::<Vec<_>>() {
        woken.extend(end.await.expect("a commit that ends").expect("a child that ends").woken);
    }
    assert_eq!(woken, [key(1)]);
}

#[tokio::test]
async fn a_run_that_waits_for_a_time_is_not_woken_by_its_commit() {
    let bench = Bench::new();
    bench.parent().await;
    let entry = Entry {
        waits: vec![WaitChange::Run { run: key(1), record: 3, until: at(5_000), since: at(30) }],
        ..Entry::append(bench.epoch, after(key(1), 2, [Body::Parked { wait: Wait::until(at(5_000)) }]))
    };
    assert_eq!(bench.commit(entry).await.expect("a wait").woken, []);
    let unfinished = bench.store.list_unfinished().await.expect("a readable store");
    assert_eq!(unfinished.timers, [Due { run: key(1), due: at(5_000), since: at(30) }]);
    assert_eq!((unfinished.ready, unfinished.parked), (vec![], 1));

    let remove = WaitChange::End { run: key(1), call: 3 };
    let entry = Entry { waits: vec![remove], ..Entry::append(bench.epoch, after(key(1), 3, [admitted()])) };
    bench.commit(entry).await.expect("the time has come");
    let unfinished = bench.store.list_unfinished().await.expect("a readable store");
    assert_eq!((unfinished.timers, unfinished.parked), (vec![], 0));
    assert_eq!(unfinished.runs.len(), 1);
}

#[tokio::test]
async fn a_run_that_ended_waits_for_nothing_and_wakes_nobody_twice() {
    let bench = Bench::new();
    bench.parent().await;
    assert_eq!(bench.park_on(2..4).await, []);
    // Cancelled while it was parked: its children end later.
    bench.append(after(key(1), 4, [failed()])).await;
    assert_eq!(bench.end(2).await, []);
    assert_eq!(bench.end(3).await, []);
    let unfinished = bench.store.list_unfinished().await.expect("a readable store");
    assert_eq!(unfinished, drawloom_contract::journal::Unfinished::default());
}

#[tokio::test]
async fn what_is_unfinished_is_told_apart_for_a_starting_process() {
    let bench = Bench::new();
    bench.parent().await;
    bench.park_on(2..4).await;
    bench.append(begin(accepted(5), [completed()])).await;
    let late = drawloom_contract::record::Accepted { deadline: Some(at(9_000)), ..accepted(6) };
    bench.append(begin(late, [admitted()])).await;
    let entry = Entry {
        runs: vec![begin(child(7, 6, 2, 0), []), after(key(6), 2, [waiting(2, 1), parked()])],
        waits: vec![WaitChange::Call {
            run: key(6),
            call: 2,
            wait: Wait::on(Cause::Children { count: 1, collect: Collect::Many }),
            since: at(1),
        }],
        ..Entry::append(bench.epoch, begin(accepted(99), []))
    };
    bench.commit(entry).await.expect("children and their wait");
    bench.end(7).await;

    let unfinished = bench.store.list_unfinished().await.expect("a readable store");
    let ids = |views: &[drawloom_contract::view::RunView]| views.iter().map(|view| view.run).collect::<Vec<_>>();
    assert_eq!(ids(&unfinished.runs), [run_id(2), run_id(3)]);
    assert_eq!(ids(&unfinished.ready), [run_id(6)]);
    assert_eq!(unfinished.ready[0].status, Status::Waiting);
    assert_eq!(unfinished.deadlines, [Due { run: key(6), due: at(9_000), since: at(20) }]);
    assert_eq!(unfinished.parked, 2);
    assert!(unfinished.runs.iter().all(|view| view.tenant == Tenant::default_tenant() && view.final_text.is_none()));
}
