//! What [`Journal`](drawloom_contract::journal::Journal) promises of waits: a run with nothing left to wait for is woken once,
//! in whatever order things happened.

use std::{ops::Range, sync::Arc};

use drawloom_contract::{
    ids::RunKey,
    journal::{Append, Due, Entry, Unfinished},
    log::LogKey,
    record::{Accepted, Body, Status},
    values::{Space, ValueKey},
    wait::{Cause, Wait, WaitChange, Waiting},
};

use super::{
    TestStore,
    records::{
        accepted, admitted, after, at, begin, child, completed, end_wait, failed, key, note, numbers, parked,
        turn_done, wait_for_children, wait_until, waiting,
    },
};

pub const SOURCE: &str = include_str!("waits.rs");

/// Runs every promise about waits against the backend that `$open` makes.
#[macro_export]
macro_rules! waits_suite {
    ($open:expr) => {
        $crate::suite_tests! { $open, waits,
            the_last_child_to_end_wakes_a_parked_parent
            a_parent_that_parks_after_its_children_ended_is_woken_by_its_own_commit
            children_that_ended_before_the_wait_began_are_not_waited_for
            a_child_that_begins_and_ends_in_the_commit_that_waits_for_it_is_counted_once
            a_parent_with_two_waits_is_woken_when_both_are_over
            of_children_that_end_at_the_same_time_exactly_one_wakes_the_parent
            a_run_that_waits_for_a_time_is_not_woken_by_its_commit
            a_run_that_ended_waits_for_nothing_and_is_not_woken
            calls_that_wait_for_logs_values_and_times_are_told_to_a_starting_process
            what_is_unfinished_is_told_apart_for_a_starting_process
        }
    };
}

impl TestStore {
    /// Run 1 with a slot, at record 2.
    async fn parent(&self) {
        self.append(begin(accepted(1), [admitted()])).await;
    }

    /// Starts children of call 2 of run 1, in the commit that parks it on them.
    async fn park_on(&self, children: Range<u64>) -> Vec<RunKey> {
        let count = u32::try_from(children.end - children.start).expect("a few");
        let mut runs: Vec<_> = (0..).zip(children).map(|(index, run)| begin(child(run, 1, 2, index), [])).collect();
        runs.push(after(key(1), 2, [waiting(2, count), parked()]));
        self.wait(runs, [wait_for_children(key(1), 2, count)]).await
    }

    /// Commits runs and waits together; says who was woken.
    async fn wait<const N: usize>(&self, runs: Vec<Append>, waits: [WaitChange; N]) -> Vec<RunKey> {
        let entry = Entry { runs, waits: waits.into(), ..Entry::empty(self.epoch) };
        self.commit(entry).await.expect("a wait").woken
    }

    async fn end(&self, run: u64) -> Vec<RunKey> {
        self.append(after(key(run), 1, [completed()])).await.woken
    }

    async fn unfinished(&self) -> Unfinished {
        self.reader.list_unfinished().await.expect("a readable store")
    }
}

pub async fn the_last_child_to_end_wakes_a_parked_parent(store: &TestStore) {
    store.parent().await;
    assert_eq!(store.park_on(2..5).await, []);
    assert_eq!(store.end(3).await, []);
    assert_eq!(store.append(after(key(2), 1, [failed()])).await.woken, []);
    assert_eq!(store.end(4).await, [key(1)]);
}

pub async fn a_parent_that_parks_after_its_children_ended_is_woken_by_its_own_commit(store: &TestStore) {
    store.parent().await;
    let runs = vec![begin(child(2, 1, 2, 0), []), after(key(1), 2, [waiting(2, 1)])];
    assert_eq!(store.wait(runs, [wait_for_children(key(1), 2, 1)]).await, []);
    assert_eq!(store.end(2).await, [], "the parent still runs, so it is not woken");
    assert_eq!(store.append(after(key(1), 3, [parked()])).await.woken, [key(1)]);
}

pub async fn children_that_ended_before_the_wait_began_are_not_waited_for(store: &TestStore) {
    store.parent().await;
    store.append(begin(child(2, 1, 2, 0), [completed()])).await;
    store.append(begin(child(3, 1, 2, 1), [])).await;
    let runs = vec![after(key(1), 2, [waiting(2, 2), parked()])];
    assert_eq!(store.wait(runs, [wait_for_children(key(1), 2, 2)]).await, []);
    assert_eq!(store.end(3).await, [key(1)]);
}

pub async fn a_child_that_begins_and_ends_in_the_commit_that_waits_for_it_is_counted_once(store: &TestStore) {
    store.parent().await;
    let runs = vec![
        begin(child(2, 1, 2, 0), [completed()]),
        begin(child(3, 1, 2, 1), []),
        after(key(1), 2, [waiting(2, 2), parked()]),
    ];
    assert_eq!(store.wait(runs, [wait_for_children(key(1), 2, 2)]).await, [], "one child is left");
    assert_eq!(store.end(3).await, [key(1)]);
}

pub async fn a_parent_with_two_waits_is_woken_when_both_are_over(store: &TestStore) {
    store.append(begin(accepted(1), [admitted(), note("call 3")])).await;
    let runs = vec![
        begin(child(2, 1, 2, 0), []),
        begin(child(3, 1, 3, 0), []),
        after(key(1), 3, [waiting(2, 1), waiting(3, 1), parked()]),
    ];
    let waits = [wait_for_children(key(1), 2, 1), wait_for_children(key(1), 3, 1)];
    assert_eq!(store.wait(runs, waits).await, []);
    assert_eq!(store.end(3).await, []);
    assert_eq!(store.end(2).await, [key(1)]);
}

pub async fn of_children_that_end_at_the_same_time_exactly_one_wakes_the_parent(store: &TestStore) {
    store.parent().await;
    assert_eq!(store.park_on(2..34).await, []);
    let ends = (2..34).map(|run| {
        let (journal, epoch) = (Arc::clone(&store.journal), store.epoch);
        tokio::spawn(async move { journal.commit(Entry::append(epoch, after(key(run), 1, [completed()]))).await })
    });
    let mut woken = Vec::new();
    for end in ends.collect::<Vec<_>>() {
        woken.extend(end.await.expect("a commit that ends").expect("a child that ends").woken);
    }
    assert_eq!(woken, [key(1)]);
}

pub async fn a_run_that_waits_for_a_time_is_not_woken_by_its_commit(store: &TestStore) {
    store.parent().await;
    let runs = vec![after(key(1), 2, [Body::Parked { wait: Wait::until(at(5_000)) }])];
    assert_eq!(store.wait(runs, [wait_until(key(1), 3, at(5_000))]).await, []);
    let unfinished = store.unfinished().await;
    assert_eq!(unfinished.timers, [Due { run: key(1), due: at(5_000), since: at(30) }]);
    assert_eq!((unfinished.ready, unfinished.parked), (vec![], 1));

    store.wait(vec![after(key(1), 3, [admitted()])], [end_wait(key(1), 3)]).await;
    let unfinished = store.unfinished().await;
    assert_eq!((unfinished.timers, unfinished.parked), (vec![], 0));
    assert_eq!(unfinished.runs.len(), 1);
}

pub async fn a_run_that_ended_waits_for_nothing_and_is_not_woken(store: &TestStore) {
    store.parent().await;
    assert_eq!(store.park_on(2..4).await, []);
    // Cancelled while it was parked: its children end later.
    store.append(after(key(1), 4, [failed()])).await;
    assert_eq!(store.end(2).await, []);
    assert_eq!(store.end(3).await, []);
    assert_eq!(store.unfinished().await, Unfinished::default());
}

pub async fn calls_that_wait_for_logs_values_and_times_are_told_to_a_starting_process(store: &TestStore) {
    store.append(begin(accepted(1), [admitted(), note("call 2"), note("call 3"), note("call 4")])).await;
    let (tenant, space) = (key(1).tenant, Space::of("suite"));
    let log = LogKey { tenant: tenant.clone(), space: space.clone(), name: "log".into() };
    let value = ValueKey { tenant, space, owner: "ada".into(), key: "a".into() };
    let either = vec![Cause::Log { log, after: 7 }, Cause::Value { key: value, revision: 3 }];
    let waits = [
        (2, Wait { on: either, until: None }),
        (3, Wait { on: vec![Cause::RateLimit], until: Some(at(9_000)) }),
        (4, Wait::until(at(5_000))),
    ];
    let waiting = waits.map(|(call, wait)| Waiting { run: key(1), call, wait, since: at(50) });
    let begin_wait = |Waiting { run, call, wait, since }| WaitChange::Call { run, call, wait, since };
    let woken = store.wait(vec![after(key(1), 5, [parked()])], waiting.clone().map(begin_wait)).await;
    assert_eq!(woken, [], "only children wake a run in a commit");
    for store in [store, &(store.reopen)()] {
        let mut found = store.unfinished().await;
        found.waiting.sort_by_key(|waiting| waiting.call);
        assert_eq!(found.waiting, waiting);
        assert_eq!((found.ready, found.parked), (vec![], 1));
    }
}

pub async fn what_is_unfinished_is_told_apart_for_a_starting_process(store: &TestStore) {
    store.parent().await;
    store.park_on(2..4).await;
    store.append(begin(accepted(5), [completed()])).await;
    let late = Accepted { deadline: Some(at(9_000)), ..accepted(6) };
    store.append(begin(late, [admitted(), turn_done(1, "a text")])).await;
    let runs = vec![begin(child(7, 6, 2, 0), []), after(key(6), 3, [waiting(2, 1), parked()])];
    store.wait(runs, [wait_for_children(key(6), 2, 1)]).await;
    store.end(7).await;

    for store in [store, &(store.reopen)()] {
        let unfinished = store.unfinished().await;
        assert_eq!(numbers(&unfinished.runs), [2, 3]);
        assert_eq!(numbers(&unfinished.ready), [6]);
        assert_eq!(unfinished.ready[0].status, Status::Waiting);
        assert_eq!(unfinished.deadlines, [Due { run: key(6), due: at(9_000), since: at(20) }]);
        assert_eq!(unfinished.parked, 2);
        assert!(unfinished.runs.iter().chain(&unfinished.ready).all(|view| view.final_text.is_none()));
    }
}
