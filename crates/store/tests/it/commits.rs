//! Commits: what is written is read back whole, in order, once.

use drawloom_contract::{
    caller::Visible,
    ids::RunKey,
    journal::{CommitError, Entry, Journal as _, RunReader as _, StoreError},
    record::{Accepted, Body, Record, Status},
    view::{Patch, RunView},
};
use serde_json::json;

use crate::fixtures::{
    Bench, accepted, admitted, after, at, begin, child, completed, failed, key, note, record, run_id, tenant,
    turn_done, turn_started, usage,
};

/// The row that these records make.
fn fold(records: &[Record]) -> RunView {
    let Body::Accepted(accepted) = &records[0].body else { panic!("a journal begins with an accepted record") };
    let mut view = RunView::accepted(accepted, records[0].at);
    view.apply(Patch::of(&records[1..]));
    view
}

#[tokio::test]
async fn what_is_committed_is_read_back_whole() {
    let bench = Bench::new();
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
    bench.append(begin(first, bodies[1..3].to_vec())).await;
    assert_eq!(bench.view(&key(1)).await, fold(&expected[..3]));
    bench.append(after(key(1), 3, bodies[3..5].to_vec())).await;
    assert_eq!(bench.view(&key(1)).await, fold(&expected[..5]));
    let committed = bench.append(after(key(1), 5, bodies[5..].to_vec())).await;

    assert_eq!(bench.records(&key(1)).await, expected);
    assert_eq!(bench.view(&key(1)).await, fold(&expected));
    assert_eq!(bench.view(&key(1)).await.final_text.as_deref(), Some("four \u{1f9f5} threads"));
    assert_eq!((committed.position, committed.woken), (7, vec![]));
    let tail = bench.store.read_journal(&key(1), 2, 3).await.expect("a readable store");
    assert_eq!(tail, expected[2..5]);
}

#[tokio::test]
async fn a_run_that_begins_and_ends_in_one_entry_has_its_whole_row() {
    let bench = Bench::new();
    let bodies = [admitted(), turn_started(1), turn_done(1, "done"), usage(1, 3), failed()];
    bench.append(begin(accepted(1), bodies)).await;
    let view = bench.view(&key(1)).await;
    assert_eq!(view, fold(&bench.records(&key(1)).await));
    assert_eq!((view.status, view.seq, view.started_at), (Status::Failed, 6, Some(at(20))));
    assert_eq!(view.error.map(|error| error.code), Some("model_refused".into()));
}

#[tokio::test]
async fn a_writer_that_is_behind_is_told_where_the_run_is_and_changes_nothing() {
    let bench = Bench::new();
    bench.append(begin(accepted(1), [admitted()])).await;
    for expected in [1, 3] {
        let late = bench.commit(Entry::append(bench.epoch, after(key(1), expected, [note("late")]))).await;
        assert_eq!(late, Err(CommitError::Conflict { run: run_id(1), expected, found: 2 }));
    }
    let again = bench.commit(Entry::append(bench.epoch, begin(accepted(1), []))).await;
    assert_eq!(again, Err(CommitError::Conflict { run: run_id(1), expected: 0, found: 2 }));
    let absent = bench.commit(Entry::append(bench.epoch, after(key(9), 4, [note("lost")]))).await;
    assert_eq!(absent, Err(CommitError::Conflict { run: run_id(9), expected: 4, found: 0 }));
    assert_eq!(bench.records(&key(1)).await.len(), 2);
    assert_eq!(bench.view(&key(1)).await.seq, 2);
}

#[tokio::test]
async fn nothing_follows_the_end_of_a_run() {
    let bench = Bench::new();
    bench.append(begin(accepted(1), [completed()])).await;
    let ended = bench.view(&key(1)).await;
    let more = bench.commit(Entry::append(bench.epoch, after(key(1), 2, [note("late")]))).await;
    assert!(
        matches!(&more, Err(CommitError::Store(StoreError::Failed { detail, .. })) if detail.contains("has ended"))
    );
    assert_eq!(bench.view(&key(1)).await, ended);
}

#[tokio::test]
async fn an_entry_that_is_none_is_refused_before_it_is_written() {
    let bench = Bench::new();
    let mut gap = begin(accepted(1), [admitted(), note("x")]);
    gap.records.remove(1);
    let empty = after(key(1), 0, []);
    let no_beginning = after(key(1), 0, [admitted()]);
    let two_beginnings = begin(accepted(1), [Body::Accepted(Box::new(accepted(1)))]);
    let foreign = drawloom_contract::journal::Append { key: key(2), ..begin(accepted(1), []) };
    let after_the_end = begin(accepted(1), [completed(), note("x")]);
    for append in [gap, empty, no_beginning, two_beginnings, foreign, after_the_end] {
        let refused = bench.commit(Entry::append(bench.epoch, append)).await;
        assert!(matches!(refused, Err(CommitError::Store(StoreError::Failed { .. }))), "{refused:?}");
    }
    assert_eq!(bench.store.find_run(&key(1)).await, Ok(None));
    assert_eq!(bench.store.stats().entries, 0);
}

#[tokio::test]
async fn an_entry_of_many_runs_is_written_whole_or_not_at_all() {
    let bench = Bench::new();
    bench.append(begin(accepted(1), [admitted()])).await;
    let entry = |expected| Entry {
        runs: vec![begin(child(2, 1, 2, 0), []), begin(child(3, 1, 2, 1), []), after(key(1), expected, [note("x")])],
        ..Entry::append(bench.epoch, begin(accepted(4), []))
    };
    let refused = bench.commit(entry(7)).await;
    assert_eq!(refused, Err(CommitError::Conflict { run: run_id(1), expected: 7, found: 2 }));
    assert_eq!(bench.store.find_run(&key(2)).await, Ok(None));
    assert_eq!(bench.records(&key(3)).await, []);
    bench.commit(entry(2)).await.expect("the same entry, now in its place");
    assert_eq!(bench.view(&key(1)).await.seq, 3);
    assert_eq!(bench.view(&key(3)).await.parent.map(|parent| parent.index), Some(1));
}

#[tokio::test]
async fn a_child_of_a_call_is_started_once_and_a_live_handle_belongs_to_one_run() {
    let bench = Bench::new();
    bench.append(begin(accepted(1), [admitted()])).await;
    bench.append(begin(child(2, 1, 2, 0), [])).await;
    let twice = bench.commit(Entry::append(bench.epoch, begin(child(3, 1, 2, 0), []))).await;
    assert_eq!(twice, Err(CommitError::ChildExists { parent: run_id(1), call: 2, index: 0 }));

    let same_handle = || Accepted { agent_id: accepted(1).agent_id, ..accepted(4) };
    let taken = bench.commit(Entry::append(bench.epoch, begin(same_handle(), []))).await;
    assert_eq!(taken, Err(CommitError::AgentIdInUse { agent_id: accepted(1).agent_id, run: run_id(1) }));
    bench.append(after(key(1), 2, [completed()])).await;
    bench.append(begin(same_handle(), [])).await;
}

#[tokio::test]
async fn a_run_is_not_found_behind_another_tenants_wall() {
    let bench = Bench::new();
    let theirs = |number| Accepted { tenant: tenant("theirs"), ..accepted(number) };
    bench.append(begin(accepted(1), [note("ours")])).await;
    let key_there = RunKey { tenant: tenant("theirs"), run: run_id(1) };
    assert_eq!(bench.store.find_run(&key_there).await, Ok(None));
    assert_eq!(bench.records(&key_there).await, []);
    let across = bench.commit(Entry::append(bench.epoch, after(key_there.clone(), 2, [note("x")]))).await;
    assert_eq!(across, Err(CommitError::Conflict { run: run_id(1), expected: 2, found: 0 }));
    // The same id, handle and session there are other things.
    bench.append(begin(theirs(1), [note("theirs"), note("more")])).await;
    assert_eq!((bench.view(&key(1)).await.seq, bench.view(&key_there).await.seq), (2, 3));
    let found =
        bench.store.find_by_agent_id(&Visible::whole(tenant("theirs")), &accepted(1).agent_id).await.expect("readable");
    assert_eq!(found.map(|view| view.tenant), Some(tenant("theirs")));
}

#[tokio::test]
async fn tokens_beyond_counting_stay_at_the_most_that_can_be_kept() {
    let bench = Bench::new();
    bench.append(begin(accepted(1), [admitted(), usage(1, u64::MAX)])).await;
    bench.append(after(key(1), 3, [usage(2, 5)])).await;
    assert_eq!(bench.view(&key(1)).await.usage.input_tokens, i64::MAX as u64);
    assert_eq!(bench.store.tree_spent(&key(1)).await.map(|spent| spent.tokens), Ok(i64::MAX as u64 + 2));
}

#[tokio::test]
async fn a_closed_store_says_so() {
    let bench = Bench::new();
    bench.store.close().await.expect("the first close");
    let late = bench.store.commit(Entry::append(bench.epoch, begin(accepted(1), []))).await;
    assert_eq!(late, Err(CommitError::Store(StoreError::Closed)));
    assert_eq!(bench.store.find_run(&key(1)).await, Err(StoreError::Closed));
    assert_eq!(bench.store.check().await, Err(StoreError::Closed));
    assert_eq!(bench.store.close().await, Err(StoreError::Closed));
}
