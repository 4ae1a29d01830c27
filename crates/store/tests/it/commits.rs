//! What the store does beyond the promises of the journal, which `conformance.rs` checks.

use drawloom_contract::journal::{CommitError, Entry, Journal as _, RunReader as _, StoreError};

use crate::fixtures::{
    Bench, accepted, admitted, after, at, begin, completed, key, note, parked, usage, wait_for_children, wait_until,
};

#[tokio::test]
async fn a_malformed_entry_never_reaches_the_writer() {
    let bench = Bench::new();
    let refused = bench.commit(Entry::append(bench.epoch, begin(accepted(1), [completed(), note("x")]))).await;
    assert!(matches!(refused, Err(CommitError::Store(StoreError::Failed { .. }))), "{refused:?}");
    assert_eq!(bench.store.stats().entries, 0);
}

#[tokio::test]
async fn tokens_beyond_counting_stay_at_the_most_that_can_be_kept() {
    let bench = Bench::new();
    bench.append(begin(accepted(1), [admitted(), usage(1, u64::MAX)])).await;
    bench.append(after(key(1), 3, [usage(2, 5)])).await;
    assert_eq!(bench.view(&key(1)).await.usage.input_tokens, i64::MAX as u64);
    assert_eq!(bench.store.tree_total(&key(1)).await.map(|total| total.spent.tokens), Ok(i64::MAX as u64 + 2));
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

#[tokio::test]
async fn a_run_that_ended_leaves_no_wait_behind() {
    let bench = Bench::new();
    bench.append(begin(accepted(1), [admitted()])).await;
    let waits = vec![wait_for_children(key(1), 2, 3), wait_until(key(1), 3, at(9_000))];
    bench.commit(Entry { waits, ..Entry::append(bench.epoch, after(key(1), 2, [parked()])) }).await.expect("two waits");
    let file = rusqlite::Connection::open(bench.store.file()).expect("the store's file");
    let count = || file.query_row("SELECT count(*) FROM waits", [], |row| row.get::<_, u32>(0)).expect("a count");
    assert_eq!(count(), 2);
    bench.append(after(key(1), 3, [completed()])).await;
    assert_eq!(count(), 0);
}
