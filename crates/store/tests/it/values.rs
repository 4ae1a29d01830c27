//! Values under a key: kept over restarts, compared and swapped, within quotas, watched. What every home of values promises is
//! in the suites; here is what the store adds.

use drawloom_contract::{
    ids::Tenant,
    journal::{CommitError, Entry},
    redact::Redactor,
    values::{Expect, KeyValue as _, NewValue, Range, Seen, Space, ValueChange, ValueKey, WatchFrom, Within},
};
use drawloom_store::Opened;
use futures::StreamExt as _;
use serde_json::{Value, json};

use crate::fixtures::{Bench, at, open};

const SPACE: Space = Space::of("test");

fn key(name: &str) -> ValueKey {
    ValueKey { tenant: Tenant::default_tenant(), space: SPACE, owner: String::new(), key: name.into() }
}

fn put(key: ValueKey, value: Value, now: i64, until: i64) -> ValueChange {
    let value = Redactor::new(["hunter2-hunter2"]).clean(value);
    let to = Some(NewValue { value, expires_at: Some(at(until)), quota: None, searched: None });
    ValueChange { key, expect: Expect::Anything, to, at: at(now) }
}

impl Bench {
    async fn put(&self, name: &str, value: Value, now: i64, until: i64) -> u64 {
        self.store.change(vec![put(key(name), value, now, until)], None).await.expect("room").result[0]
    }

    async fn find(&self, name: &str, now: i64) -> Option<Value> {
        self.store.find_value(&key(name), at(now)).await.expect("a read").map(|kept| kept.value)
    }
}

#[tokio::test]
async fn a_value_and_the_newest_revision_are_there_after_a_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    let Opened { store, .. } = open(&directory);
    for (value, now) in [(json!({ "n": 1 }), 0), (json!({ "n": 2, "s": "hunter2-hunter2" }), 1)] {
        store.change(vec![put(key("a"), value, now, 100)], None).await.expect("room");
    }
    let removal = ValueChange { key: key("b"), expect: Expect::Anything, to: None, at: at(2) };
    store.change(vec![put(key("b"), json!(1), 1, 100)], None).await.expect("room");
    let last = store.change(vec![removal], None).await.expect("room").result[0];
    store.close().await.expect("it closes");
    let Opened { store, .. } = open(&directory);
    let kept = store.find_value(&key("a"), at(99)).await.expect("a read").expect("a value");
    assert_eq!(kept.value, json!({ "n": 2, "s": "[redacted]" }));
    assert_eq!(store.find_value(&key("a"), at(100)).await, Ok(None));
    let next = store.change(vec![put(key("b"), json!(1), 3, 100)], None).await.expect("room").result[0];
    assert!(next > last, "revision {next} was used before a restart, at which {last} was the newest");
}

#[tokio::test]
async fn what_is_over_goes_with_the_next_value_of_its_space() {
    let bench = Bench::new();
    for number in 0..200 {
        bench.put(&format!("old{number}"), json!(0), 0, 10).await;
    }
    for number in 0..4 {
        bench.put(&format!("new{number}"), json!(0), 20, 100).await;
    }
    // At a time when it was not over it would be found, were it still there.
    for number in 0..200 {
        assert_eq!(bench.find(&format!("old{number}"), 5).await, None);
    }
}

#[tokio::test]
async fn a_process_that_lost_the_file_changes_no_value_and_tells_no_watcher() {
    let bench = Bench::new();
    let mut watch = bench.store.watch(&Range { space: SPACE, within: Within::Space }, WatchFrom::Now);
    let entry = Entry { values: vec![put(key("a"), json!(1), 0, 100)], ..Entry::empty(bench.epoch + 1) };
    assert!(matches!(bench.commit(entry).await, Err(CommitError::LostOwnership { .. })));
    assert_eq!(bench.find("a", 1).await, None);
    let revision = bench.put("b", json!(2), 0, 100).await;
    let Some(Seen::Is { key, revision: told, .. }) = watch.next().await else { panic!("a change") };
    assert_eq!((key.key.as_str(), told), ("b", revision));
}

#[tokio::test]
async fn a_store_is_used_by_values_and_runs_but_not_by_what_every_start_writes() {
    let bench = Bench::new();
    let is_used = |own: &str| drawloom_store::is_used(bench.directory.path(), own).expect("a readable store");
    assert!(!is_used("test"));
    bench.put("a", json!(1), 0, 100).await;
    assert!(!is_used("test"), "the value is in the program's own space");
    assert!(is_used("clock"), "there it is data of a user");
    bench.append(crate::fixtures::begin(crate::fixtures::accepted(1), [])).await;
    assert!(is_used("test"));
}
