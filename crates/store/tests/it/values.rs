//! Values under a key: kept over restarts, each until its time is over, apart by tenant and space.

use drawloom_contract::{
    ids::Tenant,
    journal::{CommitError, Entry},
    redact::Redactor,
    values::{KeyValue as _, ValueChange, ValueKey},
};
use drawloom_store::Opened;
use serde_json::{Value, json};

use crate::fixtures::{Bench, at, open, tenant};

fn key(name: &str) -> ValueKey {
    ValueKey { tenant: Tenant::default_tenant(), space: "test", key: name.into() }
}

fn put(key: ValueKey, value: Value, now: i64, until: i64) -> ValueChange {
    let value = Redactor::new(["hunter2-hunter2"]).clean(value);
    ValueChange::Put { key, value, at: at(now), expires_at: at(until) }
}

#[tokio::test]
async fn a_value_is_there_after_a_restart_until_its_time_is_over() {
    let directory = tempfile::tempdir().expect("a directory");
    let Opened { store, .. } = open(&directory);
    store.change(put(key("a"), json!({ "n": 1 }), 0, 100)).await.expect("room");
    store.change(put(key("a"), json!({ "n": 2, "s": "hunter2-hunter2" }), 1, 100)).await.expect("room");
    store.close().await.expect("it closes");
    let Opened { store, .. } = open(&directory);
    assert_eq!(store.find_value(&key("a"), at(99)).await, Ok(Some(json!({ "n": 2, "s": "[redacted]" }))));
    assert_eq!(store.find_value(&key("a"), at(100)).await, Ok(None));
    store.change(ValueChange::Remove { key: key("a") }).await.expect("room");
    assert_eq!(store.find_value(&key("a"), at(50)).await, Ok(None));
}

#[tokio::test]
async fn spaces_and_tenants_do_not_meet() {
    let bench = Bench::new();
    bench.store.change(put(key("a"), json!(1), 0, 100)).await.expect("room");
    let elsewhere = [ValueKey { space: "other", ..key("a") }, ValueKey { tenant: tenant("theirs"), ..key("a") }];
    for other in elsewhere {
        assert_eq!(bench.store.find_value(&other, at(1)).await, Ok(None));
    }
}

#[tokio::test]
async fn what_is_over_goes_with_the_next_value_of_its_space() {
    let bench = Bench::new();
    for number in 0..200 {
        bench.store.change(put(key(&format!("old{number}")), json!(0), 0, 10)).await.expect("room");
    }
    for number in 0..4 {
        bench.store.change(put(key(&format!("new{number}")), json!(0), 20, 100)).await.expect("room");
    }
    // At a time when it was not over it would be found, were it still there.
    let mut left = 0;
    for number in 0..200 {
        left +=
            usize::from(bench.store.find_value(&key(&format!("old{number}")), at(5)).await.expect("a read").is_some());
    }
    assert_eq!(left, 0);
}

#[tokio::test]
async fn whoever_lost_the_file_changes_no_value() {
    let bench = Bench::new();
    let entry = Entry { values: vec![put(key("a"), json!(1), 0, 100)], ..Entry::empty(bench.epoch + 1) };
    assert!(matches!(bench.commit(entry).await, Err(CommitError::LostOwnership { .. })));
    assert_eq!(bench.store.find_value(&key("a"), at(1)).await, Ok(None));
}
