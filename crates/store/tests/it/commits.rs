//! What the store does beyond the promises of the journal, which `conformance.rs` checks.

use drawloom_contract::journal::{CommitError, Entry, Journal as _, RunReader as _, StoreError};

use crate::fixtures::{Bench, accepted, admitted, after, begin, completed, key, note, usage};

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
