//! What [`Journal`](drawloom_contract::journal::Journal) promises.

use std::sync::Arc;

use drawloom_contract::{
    caller::Visible,
    ids::{Digest, RunKey, Tenant},
    journal::{Append, CommitError, Entry, NewBatch, StoreError},
    once::{Answered, HandleId, Made, Once, RequestKey},
    record::{Accepted, Body, Record, Retry, Status},
    values::ChangeError,
    wait::WaitChange,
};
use futures::FutureExt as _;
use serde_json::json;

use super::{
    TestStore,
    records::{
        accepted, admitted, after, at, batch_id, begin, child, completed, failed, fold, key, member, note, parked,
        record, run_id, session_id, tenant, turn_done, turn_started, usage, wait_for_children, waiting,
    },
};

pub const SOURCE: &str = include_str!("journal.rs");

/// Runs every promise of the journal against the backend that `$open` makes.
#[macro_export]
macro_rules! journal_suite {
    ($open:expr) => {
        $crate::suite_tests! { $open, journal,
            what_is_committed_is_read_back_whole
            a_run_that_begins_and_ends_in_one_entry_has_its_whole_row
            what_was_acknowledged_is_there_for_the_next_process
            entries_are_applied_in_the_order_they_came
            a_writer_that_is_behind_is_told_where_the_run_is_and_changes_nothing
            of_two_writers_with_one_expectation_one_wins
            nothing_follows_the_end_of_a_run
            a_malformed_entry_is_refused_and_leaves_no_trace
            an_entry_of_many_runs_is_written_whole_or_not_at_all
            an_entry_that_fails_does_not_disturb_its_neighbours
            an_entry_whose_future_is_dropped_is_written_whole_or_not_at_all
            a_child_of_a_call_and_index_is_started_once
            a_run_is_retried_once_and_in_its_place_only_while_the_call_waits
            an_agent_id_belongs_to_one_live_run
            one_tenant_cannot_write_to_a_run_of_another
            the_same_request_is_one_run_and_another_body_a_conflict
            a_key_belongs_to_its_tenant_subject_and_operation
            of_many_concurrent_requests_with_one_key_one_makes_the_run
            a_refused_request_leaves_no_key
            a_key_is_known_to_the_next_process
            a_repeated_batch_is_answered_with_its_id
            a_session_is_joined_when_it_exists_and_none_of_its_runs_is_unfinished
            two_runs_of_one_entry_cannot_join_the_same_session
            a_session_belongs_to_one_tenant
            a_process_that_lost_ownership_can_write_nothing
        }
    };
}

pub async fn what_is_committed_is_read_back_whole(store: &TestStore) {
    let first = Accepted {
        deadline: Some(at(60_000)),
        parent_context: Some(json!({ "trace": [1, 2.5, "x"] })),
        metadata: Some(json!({ "topic": "looms" })),
        warnings: vec!["narrowed".into()],
        ..accepted(1)
    };
    let bodies = [
        Body::Accepted(Box::new(first.clone())),
        admitted(),
        turn_started(1),
        turn_done(1, "four \u{1f9f5} threads"),
        usage(1, 7),
        note("noted"),
        completed(),
    ];
    let expected: Vec<Record> = (1..).zip(bodies.clone()).map(|(seq, body)| record(seq, body)).collect();
    store.append(begin(first, bodies[1..3].to_vec())).await;
    assert_eq!(store.view(&key(1)).await, fold(&expected[..3]));
    store.append(after(key(1), 3, bodies[3..5].to_vec())).await;
    assert_eq!(store.view(&key(1)).await, fold(&expected[..5]));
    let committed = store.append(after(key(1), 5, bodies[5..].to_vec())).await;

    assert_eq!(store.records(&key(1)).await, expected);
    assert_eq!(store.view(&key(1)).await, fold(&expected));
    assert_eq!(store.view(&key(1)).await.final_text.as_deref(), Some("four \u{1f9f5} threads"));
    assert_eq!((committed.position, committed.woken), (7, vec![]));
}

pub async fn a_run_that_begins_and_ends_in_one_entry_has_its_whole_row(store: &TestStore) {
    let bodies = [admitted(), turn_started(1), turn_done(1, "done"), usage(1, 3), failed()];
    store.append(begin(accepted(1), bodies)).await;
    let view = store.view(&key(1)).await;
    assert_eq!(view, fold(&store.records(&key(1)).await));
    assert_eq!((view.status, view.seq, view.started_at), (Status::Failed, 6, Some(at(20))));
    assert_eq!(view.error.map(|error| error.code), Some("model_refused".into()));
}

pub async fn what_was_acknowledged_is_there_for_the_next_process(store: &TestStore) {
    store.append(begin(accepted(1), [admitted()])).await;
    store.append(after(key(1), 2, [turn_done(1, "said")])).await;
    let (view, records) = (store.view(&key(1)).await, store.records(&key(1)).await);
    let next = (store.reopen)();
    assert_eq!((next.view(&key(1)).await, next.records(&key(1)).await), (view, records));
    assert!(next.epoch > store.epoch, "{} follows {}", next.epoch, store.epoch);
    next.append(after(key(1), 3, [completed()])).await;
}

pub async fn entries_are_applied_in_the_order_they_came(store: &TestStore) {
    store.append(begin(accepted(1), [])).await;
    // Each entry is right only after the one before it. They are all handed over before the first is answered.
    let commits = (1..=24).map(|seq| store.try_append(after(key(1), seq, [note(&seq.to_string())])));
    let mut positions = Vec::new();
    for outcome in futures::future::join_all(commits).await {
        positions.push(outcome.expect("it came after the one before it").position);
    }
    assert!(positions.is_sorted(), "{positions:?}");
    assert_eq!(store.view(&key(1)).await.seq, 25);
}

pub async fn a_writer_that_is_behind_is_told_where_the_run_is_and_changes_nothing(store: &TestStore) {
    store.append(begin(accepted(1), [admitted()])).await;
    for expected in [1, 3] {
        let late = store.try_append(after(key(1), expected, [note("late")])).await;
        assert_eq!(late, Err(CommitError::Conflict { run: run_id(1), expected, found: 2 }));
    }
    let again = store.try_append(begin(accepted(1), [])).await;
    assert_eq!(again, Err(CommitError::Conflict { run: run_id(1), expected: 0, found: 2 }));
    let absent = store.try_append(after(key(9), 4, [note("lost")])).await;
    assert_eq!(absent, Err(CommitError::Conflict { run: run_id(9), expected: 4, found: 0 }));
    assert_eq!(store.records(&key(1)).await.len(), 2);
    assert_eq!(store.view(&key(1)).await.seq, 2);
}

pub async fn of_two_writers_with_one_expectation_one_wins(store: &TestStore) {
    store.append(begin(accepted(1), [])).await;
    let commits = (0..16).map(|number| {
        let (journal, epoch) = (Arc::clone(&store.journal), store.epoch);
        tokio::spawn(async move {
            journal.commit(Entry::append(epoch, after(key(1), 1, [note(&number.to_string())]))).await
        })
    });
    let mut won = 0;
    for commit in commits.collect::<Vec<_>>() {
        match commit.await.expect("a commit that ends") {
            Ok(_) => won += 1,
            Err(error) => assert_eq!(error, CommitError::Conflict { run: run_id(1), expected: 1, found: 2 }),
        }
    }
    assert_eq!((won, store.records(&key(1)).await.len()), (1, 2));
}

pub async fn nothing_follows_the_end_of_a_run(store: &TestStore) {
    store.append(begin(accepted(1), [completed()])).await;
    let ended = store.view(&key(1)).await;
    let more = store.try_append(after(key(1), 2, [note("late")])).await;
    assert!(
        matches!(&more, Err(CommitError::Store(StoreError::Failed { detail, .. })) if detail.contains("has ended")),
        "{more:?}"
    );
    assert_eq!(store.view(&key(1)).await, ended);
    assert_eq!(store.records(&key(1)).await.len(), 2);
}

pub async fn a_malformed_entry_is_refused_and_leaves_no_trace(store: &TestStore) {
    let mut gap = begin(accepted(1), [admitted(), note("x")]);
    gap.records.remove(1);
    let empty = after(key(1), 0, []);
    let no_beginning = after(key(1), 0, [admitted()]);
    let two_beginnings = begin(accepted(1), [Body::Accepted(Box::new(accepted(1)))]);
    let foreign = Append { key: key(2), ..begin(accepted(1), []) };
    let after_the_end = begin(accepted(1), [completed(), note("x")]);
    for append in [gap, empty, no_beginning, two_beginnings, foreign, after_the_end] {
        let refused = store.try_append(append).await;
        assert!(matches!(refused, Err(CommitError::Store(StoreError::Failed { .. }))), "{refused:?}");
    }
    for run in [key(1), key(2)] {
        assert_eq!(store.reader.find_run(&run).await, Ok(None));
        assert_eq!(store.records(&run).await, []);
    }
}

pub async fn an_entry_of_many_runs_is_written_whole_or_not_at_all(store: &TestStore) {
    store.append(begin(accepted(1), [admitted()])).await;
    let entry = |expected| Entry {
        runs: vec![begin(child(2, 1, 2, 0), []), begin(child(3, 1, 2, 1), []), after(key(1), expected, [note("x")])],
        waits: vec![wait_for_children(key(1), 2, 2)],
        ..Entry::empty(store.epoch)
    };
    let refused = store.commit(entry(7)).await;
    assert_eq!(refused, Err(CommitError::Conflict { run: run_id(1), expected: 7, found: 2 }));
    assert_eq!(store.reader.find_run(&key(2)).await, Ok(None));
    assert_eq!(store.records(&key(3)).await, []);
    store.append(after(key(1), 2, [parked()])).await;
    let ready = store.reader.list_unfinished().await.expect("a readable store").ready;
    assert_eq!(ready, [store.view(&key(1)).await], "no wait was left behind");
    store.append(after(key(1), 3, [admitted()])).await;
    store.commit(entry(4)).await.expect("the same entry, with the right expectation");
    assert_eq!(store.view(&key(1)).await.seq, 5);
    assert_eq!(store.view(&key(3)).await.parent.map(|parent| parent.index), Some(1));
}

pub async fn an_entry_that_fails_does_not_disturb_its_neighbours(store: &TestStore) {
    store.append(begin(accepted(1), [])).await;
    let entry = |number: u64| match number % 3 {
        0 => Entry::append(store.epoch, begin(accepted(number), [admitted()])),
        // Its second run is behind.
        1 => Entry {
            runs: vec![begin(accepted(number), []), after(key(1), 9, [note("x")])],
            ..Entry::empty(store.epoch)
        },
        _ => Entry::append(
            store.epoch,
            begin(Accepted { agent_id: accepted(1).agent_id, ..accepted(number) }, [note("x")]),
        ),
    };
    let commits = (10..70).map(|number| {
        let (journal, entry) = (Arc::clone(&store.journal), entry(number));
        (number, tokio::spawn(async move { journal.commit(entry).await }))
    });
    for (number, commit) in commits.collect::<Vec<_>>() {
        let outcome = commit.await.expect("a commit that ends");
        let found = store.reader.find_run(&key(number)).await.expect("a readable store");
        match number % 3 {
            0 => assert_eq!(
                (outcome.map(|committed| committed.woken), found.map(|view| view.seq)),
                (Ok(vec![]), Some(2))
            ),
            1 => {
                assert_eq!(outcome, Err(CommitError::Conflict { run: run_id(1), expected: 9, found: 1 }));
                assert_eq!(found, None);
            }
            _ => {
                let agent_id = accepted(1).agent_id;
                assert_eq!(outcome, Err(CommitError::AgentIdInUse { agent_id, run: run_id(1) }));
                assert_eq!((found, store.records(&key(number)).await), (None, vec![]));
            }
        }
    }
}

pub async fn an_entry_whose_future_is_dropped_is_written_whole_or_not_at_all(store: &TestStore) {
    for number in (1..40).step_by(2) {
        let entry = Entry {
            runs: vec![begin(accepted(number), [admitted()]), begin(accepted(number + 1), [admitted()])],
            ..Entry::empty(store.epoch)
        };
        // Polled once and dropped.
        drop(store.journal.commit(entry).now_or_never());
    }
    // It comes after all of them.
    store.append(begin(accepted(99), [])).await;
    for number in (1..40).step_by(2) {
        let (one, other) = (store.records(&key(number)).await, store.records(&key(number + 1)).await);
        assert!(matches!((one.len(), other.len()), (0, 0) | (2, 2)), "run {number}: {} and {}", one.len(), other.len());
    }
}

pub async fn a_run_is_retried_once_and_in_its_place_only_while_the_call_waits(store: &TestStore) {
    let retry =
        |number, of, attempt| Accepted { retry: Some(Retry { of: run_id(of), attempt }), ..child(number, 1, 2, 0) };
    let again = |accepted: Accepted| Entry {
        runs: vec![begin(accepted, [])],
        waits: vec![WaitChange::OneMore { run: key(1), call: 2 }],
        ..Entry::empty(store.epoch)
    };
    let children = vec![begin(child(2, 1, 2, 0), []), begin(child(3, 1, 2, 1), [])];
    let mut runs = vec![begin(accepted(1), [admitted(), waiting(2, 2), parked()])];
    runs.extend(children);
    let waits = vec![wait_for_children(key(1), 2, 2)];
    store.commit(Entry { runs, waits, ..Entry::empty(store.epoch) }).await.expect("a parent and two children");
    let ended = async |number, seq| {
        let entry = Entry::append(store.epoch, after(key(number), seq, [failed()]));
        store.commit(entry).await.expect("an end").woken
    };
    assert_eq!(ended(2, 1).await, []);
    store.commit(again(retry(4, 2, 1))).await.expect("the call waits for the other child");
    let twice = store.commit(again(retry(5, 2, 1))).await;
    assert_eq!(twice, Err(CommitError::AlreadyRetried { run: run_id(2), by: run_id(4) }));
    let retries = store.reader.list_retries(&key(1).tenant, &[run_id(2), run_id(3)]).await;
    assert_eq!(retries, Ok(vec![(run_id(2), run_id(4))]));
    // The parent waits for the retry too, and its children are the newest attempts.
    assert_eq!(ended(3, 1).await, []);
    let newest = store.reader.list_children(&key(1), 2).await.expect("a readable store");
    assert_eq!(newest.iter().map(|view| view.run).collect::<Vec<_>>(), [run_id(4), run_id(3)]);
    assert_eq!(ended(4, 1).await, [key(1)]);
    let late = store.commit(again(retry(6, 4, 2))).await;
    assert_eq!(late, Err(CommitError::NotWaiting { parent: run_id(1), call: 2 }));
    assert_eq!(store.records(&key(6)).await, [], "nothing of it was written");
    let total = store.reader.tree_total(&key(1)).await.expect("a readable store");
    assert_eq!((total.below, total.failed), (3, 2), "the first attempt does not count as failed");
}

pub async fn a_child_of_a_call_and_index_is_started_once(store: &TestStore) {
    store.append(begin(accepted(1), [admitted()])).await;
    store.append(begin(child(2, 1, 2, 0), [])).await;
    let twice = || Err(CommitError::ChildExists { parent: run_id(1), call: 2, index: 0 });
    assert_eq!(store.try_append(begin(child(3, 1, 2, 0), [])).await, twice());
    store.append(after(key(2), 1, [completed()])).await;
    assert_eq!(store.try_append(begin(child(3, 1, 2, 0), [])).await, twice(), "also when it has ended");
    store.append(begin(child(3, 1, 2, 1), [])).await;
    store.append(begin(child(4, 1, 3, 0), [])).await;
}

pub async fn an_agent_id_belongs_to_one_live_run(store: &TestStore) {
    store.append(begin(accepted(1), [admitted()])).await;
    let same = |number| Accepted { agent_id: accepted(1).agent_id, ..accepted(number) };
    let taken = store.try_append(begin(same(2), [])).await;
    assert_eq!(taken, Err(CommitError::AgentIdInUse { agent_id: accepted(1).agent_id, run: run_id(1) }));
    store.append(begin(Accepted { tenant: tenant("theirs"), ..same(3) }, [])).await;
    store.append(after(key(1), 2, [completed()])).await;
    store.append(begin(same(2), [])).await;
}

pub async fn one_tenant_cannot_write_to_a_run_of_another(store: &TestStore) {
    store.append(begin(accepted(1), [note("ours")])).await;
    let there = RunKey { tenant: tenant("theirs"), run: run_id(1) };
    let across = store.try_append(after(there.clone(), 2, [note("x")])).await;
    assert_eq!(across, Err(CommitError::Conflict { run: run_id(1), expected: 2, found: 0 }));
    // The same run id, agent_id and session belong to other things there.
    store.append(begin(Accepted { tenant: tenant("theirs"), ..accepted(1) }, [note("theirs"), note("more")])).await;
    assert_eq!((store.view(&key(1)).await.seq, store.view(&there).await.seq), (2, 3));
}

fn request_key(body: &str) -> RequestKey {
    RequestKey {
        tenant: Tenant::default_tenant(),
        subject: "ada".parse().expect("a valid name"),
        operation: "spawn_run",
        key: Digest::of(b"key"),
        body: Digest::of(body.as_bytes()),
    }
}

/// An entry that makes a run or a batch under a key.
fn keyed(key: RequestKey, handle: HandleId, entry: Entry) -> Entry {
    Entry { once: Some(Once::Request { key, made: Made::Handle(handle) }), ..entry }
}

/// What a repeat of the request that made this run is told.
fn made(number: u64) -> Answered {
    Answered::Handle(HandleId::Run(run_id(number)))
}

impl TestStore {
    fn request(&self, number: u64, body: &str) -> Entry {
        let entry = Entry::append(self.epoch, begin(accepted(number), []));
        keyed(request_key(body), HandleId::Run(run_id(number)), entry)
    }
}

pub async fn the_same_request_is_one_run_and_another_body_a_conflict(store: &TestStore) {
    let asked = request_key("other");
    assert_eq!(store.reader.find_request(&asked).await, Ok(None));
    store.commit(store.request(1, "body")).await.expect("the first of them");
    assert_eq!(store.commit(store.request(2, "body")).await, Err(CommitError::Repeated(made(1))));
    assert_eq!(store.commit(store.request(3, "other")).await, Err(CommitError::Refused(ChangeError::KeyReused)));
    assert_eq!(store.reader.find_run(&key(2)).await, Ok(None));
    assert_eq!(store.reader.find_run(&key(3)).await, Ok(None));
    assert_eq!(store.reader.find_request(&asked).await, Ok(Some((Digest::of(b"body"), made(1)))));
}

pub async fn a_key_belongs_to_its_tenant_subject_and_operation(store: &TestStore) {
    store.commit(store.request(1, "body")).await.expect("the first of them");
    let others = [
        RequestKey { tenant: tenant("theirs"), ..request_key("body") },
        RequestKey { subject: "grace".parse().expect("a valid name"), ..request_key("body") },
        RequestKey { operation: "spawn_batch", ..request_key("body") },
        RequestKey { key: Digest::of(b"another"), ..request_key("body") },
    ];
    for (number, other) in (2..).zip(others) {
        assert_eq!(store.reader.find_request(&other).await, Ok(None));
        let entry = keyed(other.clone(), HandleId::Run(run_id(number)), store.request(number, "body"));
        store.commit(entry).await.expect("another key");
        assert_eq!(store.reader.find_request(&other).await, Ok(Some((other.body, made(number)))));
    }
}

pub async fn of_many_concurrent_requests_with_one_key_one_makes_the_run(store: &TestStore) {
    let commits = (1..=64).map(|number| {
        let (journal, entry) = (Arc::clone(&store.journal), store.request(number, "body"));
        tokio::spawn(async move { (number, journal.commit(entry).await) })
    });
    let (mut first, mut repeated) = (None, Vec::new());
    for commit in commits.collect::<Vec<_>>() {
        match commit.await.expect("a commit that ends") {
            (number, Ok(_)) => assert_eq!(first.replace(run_id(number)), None, "two runs were made"),
            (_, Err(CommitError::Repeated(Answered::Handle(HandleId::Run(run))))) => repeated.push(run),
            (number, other) => panic!("request {number}: {other:?}"),
        }
    }
    assert_eq!(repeated, vec![first.expect("one of them made the run"); 63]);
}

pub async fn a_refused_request_leaves_no_key(store: &TestStore) {
    store.append(begin(accepted(1), [])).await;
    // The run exists, so the request is refused; its key must go with it.
    assert!(matches!(store.commit(store.request(1, "body")).await, Err(CommitError::Conflict { .. })));
    assert_eq!(store.reader.find_request(&request_key("body")).await, Ok(None));
    store.commit(store.request(2, "other")).await.expect("the key is free");
}

pub async fn a_key_is_known_to_the_next_process(store: &TestStore) {
    store.commit(store.request(1, "body")).await.expect("the first of them");
    let next = (store.reopen)();
    assert_eq!(next.commit(next.request(2, "body")).await, Err(CommitError::Repeated(made(1))));
    assert_eq!(next.commit(next.request(2, "other")).await, Err(CommitError::Refused(ChangeError::KeyReused)));
}

pub async fn a_repeated_batch_is_answered_with_its_id(store: &TestStore) {
    let entry = |batch| {
        let user = "ada".parse().expect("a valid name");
        let new = NewBatch { tenant: Tenant::default_tenant(), batch: batch_id(batch), user, size: 2 };
        let runs = vec![begin(member(batch * 10, batch, 0), []), begin(member(batch * 10 + 1, batch, 1), [])];
        let entry = Entry { runs, batch: Some(new), ..Entry::empty(store.epoch) };
        keyed(request_key("batch"), HandleId::Batch(batch_id(batch)), entry)
    };
    store.commit(entry(1)).await.expect("the first of them");
    let repeated = Answered::Handle(HandleId::Batch(batch_id(1)));
    assert_eq!(store.commit(entry(2)).await, Err(CommitError::Repeated(repeated)));
    let visible = Visible::whole(Tenant::default_tenant());
    assert_eq!(store.reader.list_batch(&visible, batch_id(2)).await, Ok(None));
    assert_eq!(store.reader.find_run(&key(20)).await, Ok(None));
}

/// A run that joins the session of run 1.
fn join(number: u64) -> Append {
    let accepted = Accepted { session: session_id(1), ..accepted(number) };
    Append { exclusive_session: true, ..begin(accepted, []) }
}

pub async fn a_session_is_joined_when_it_exists_and_none_of_its_runs_is_unfinished(store: &TestStore) {
    let busy = |run| Err(CommitError::SessionBusy { session: session_id(1), run: run_id(run) });
    assert_eq!(store.try_append(join(2)).await, Err(CommitError::UnknownSession(session_id(1))));
    store.append(begin(accepted(1), [admitted()])).await;
    assert_eq!(store.try_append(join(2)).await, busy(1));
    store.append(after(key(1), 2, [completed()])).await;
    store.append(join(2)).await;
    assert_eq!(store.try_append(join(3)).await, busy(2));
    store.append(after(key(2), 1, [completed()])).await;
    store.append(join(3)).await;
    assert_eq!(store.view(&key(3)).await.session, session_id(1));
}

pub async fn two_runs_of_one_entry_cannot_join_the_same_session(store: &TestStore) {
    store.append(begin(accepted(1), [completed()])).await;
    let entry = Entry { runs: vec![join(2), join(3)], ..Entry::empty(store.epoch) };
    assert_eq!(store.commit(entry).await, Err(CommitError::SessionBusy { session: session_id(1), run: run_id(2) }));
    assert_eq!(store.reader.find_run(&key(2)).await, Ok(None));
    store.append(join(2)).await;
}

pub async fn a_session_belongs_to_one_tenant(store: &TestStore) {
    store.append(begin(accepted(1), [completed()])).await;
    let theirs = Accepted { tenant: tenant("theirs"), session: session_id(1), ..accepted(2) };
    let join = Append { exclusive_session: true, ..begin(theirs, []) };
    assert_eq!(store.try_append(join).await, Err(CommitError::UnknownSession(session_id(1))));
}

pub async fn a_process_that_lost_ownership_can_write_nothing(store: &TestStore) {
    store.append(begin(accepted(1), [])).await;
    let next = (store.reopen)();
    let lost = || Err(CommitError::LostOwnership { mine: store.epoch, current: next.epoch });
    assert_eq!(store.try_append(begin(accepted(2), [])).await, lost());
    assert_eq!(store.try_append(after(key(1), 1, [completed()])).await, lost());
    // Not even with the new owner's epoch.
    assert_eq!(store.commit(Entry::append(next.epoch, begin(accepted(2), []))).await, lost());
    // And the new owner writes no entry that was made under the old epoch.
    assert_eq!(next.commit(Entry::append(store.epoch, begin(accepted(2), []))).await, lost());
    assert_eq!(next.reader.find_run(&key(2)).await, Ok(None));
    next.append(begin(accepted(2), [])).await;
    next.append(after(key(1), 1, [completed()])).await;
}
