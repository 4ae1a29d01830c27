//! The index of words follows the values later than their commits; no search shows that.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use drawloom_contract::{
    ids::Tenant,
    redact::Redactor,
    values::{Expect, KeyValue as _, MEMORY, NewValue, Quota, ValueChange, ValueKey},
};
use drawloom_store::{Found, Needs, Search, Store, Term};
use serde_json::json;
use tempfile::TempDir;

use crate::fixtures::{Bench, at, open};

fn key(name: &str) -> ValueKey {
    ValueKey { tenant: Tenant::default_tenant(), space: MEMORY, owner: "user/ann".into(), key: name.into() }
}

fn put(name: &str, text: &str) -> ValueChange {
    let value = Redactor::new::<&str>([]).clean(json!({ "value": text }));
    let to = Some(NewValue { value, expires_at: None, quota: None, searched: Some("/value") });
    ValueChange { key: key(name), expect: Expect::Anything, to, at: at(0) }
}

async fn set(store: &Store, name: &str, text: &str) {
    store.change(vec![put(name, text)], None).await.expect("room");
}

async fn keys(store: &Store, word: &str) -> Vec<String> {
    let search = Search {
        tenant: Tenant::default_tenant(),
        space: MEMORY,
        owners: vec!["user/ann".into()],
        prefix: String::new(),
        terms: vec![Term { words: word.into(), is_prefix: false }],
        needs: Needs::EveryTerm,
        limit: 10,
    };
    let hits = store.search(search, at(1)).await.expect("a readable store");
    hits.into_iter().map(|hit| hit.key.key).collect()
}

fn numbers(directory: &Path, text: &str) -> Vec<u64> {
    let connection = rusqlite::Connection::open(directory.join("drawloom.db")).expect("a store");
    let mut statement = connection.prepare(text).expect("valid text");
    let rows = statement.query_map([], |row| row.get::<_, i64>(0)).expect("rows");
    rows.map(|row| u64::try_from(row.expect("a number")).expect("a revision")).collect()
}

/// What a kill leaves of a store whose index is behind.
async fn killed_behind(bench: &Bench, word: &str) -> TempDir {
    loop {
        set(&bench.store, "k", word).await;
        let left = tempfile::tempdir().expect("a temporary directory");
        for name in ["drawloom.db", "drawloom.db-wal"] {
            fs::copy(bench.directory.path().join(name), left.path().join(name)).expect("a file");
        }
        // The writer may have been quicker, and then the next value is tried.
        if numbers(left.path(), "SELECT revision - indexed FROM value_revisions") != [0] {
            return left;
        }
    }
}

#[tokio::test]
async fn what_a_kill_left_out_of_the_index_is_found_by_the_next_boot_and_by_those_who_only_read() {
    let bench = Bench::new();
    set(&bench.store, "k", "before").await;
    set(&bench.store, "other", "before").await;
    assert_eq!(keys(&bench.store, "before").await.len(), 2);
    let left = killed_behind(&bench, "after").await;
    let Found::Store(reader) = Store::read(left.path()).expect("a store") else { panic!("it is there") };
    assert_eq!(keys(&reader, "after").await, ["k"]);
    assert_eq!(keys(&reader, "before").await, ["other"]);
    assert_eq!(keys(&reader, "after").await, ["k"], "again, on the same connection");
    reader.close().await.expect("an orderly end");
    let opened = open(&left);
    assert_eq!(keys(&opened.store, "after").await, ["k"]);
    assert_eq!(keys(&opened.store, "before").await, ["other"]);
    opened.store.close().await.expect("an orderly end");
    assert_in_step(left.path());
}

/// The index has each value once, and nothing else.
fn assert_in_step(directory: &Path) {
    let indexed = numbers(directory, "SELECT id FROM value_words_docsize ORDER BY id");
    assert_eq!(indexed, numbers(directory, "SELECT revision FROM key_values WHERE searched <> 0 ORDER BY revision"));
    assert_eq!(numbers(directory, "SELECT revision FROM value_words_gone"), [0; 0]);
    assert_eq!(numbers(directory, "SELECT revision - indexed FROM value_revisions"), [0]);
}

#[tokio::test]
async fn after_any_order_of_changes_and_searches_the_index_has_each_value_once() {
    let bench = Bench::new();
    let mut there = BTreeSet::new();
    for number in 0..300_u32 {
        let name = format!("k{}", number * 7 % 40);
        if number % 5 == 4 {
            bench.store.change(vec![ValueChange::remove(key(&name), at(1))], None).await.expect("room");
            there.remove(&name);
        } else {
            set(&bench.store, &name, &format!("word{number}")).await;
            there.insert(name.clone());
        }
        if number % 11 == 0 {
            let found = keys(&bench.store, &format!("word{number}")).await;
            assert_eq!(found, Vec::from_iter((number % 5 != 4).then_some(name)), "change {number}");
        }
    }
    bench.store.close().await.expect("an orderly end");
    assert_in_step(bench.directory.path());
    assert_eq!(numbers(bench.directory.path(), "SELECT revision FROM key_values").len(), there.len());
}

#[tokio::test]
async fn the_writer_sees_to_the_index_when_it_has_nothing_else_to_do() {
    let bench = Bench::new();
    // More than it does in one step.
    let changes = (0..3_000).map(|number| put(&format!("k{number}"), "word")).collect();
    bench.store.change(changes, None).await.expect("room");
    let in_step = async {
        while numbers(bench.directory.path(), "SELECT revision - indexed FROM value_revisions") != [0] {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), in_step).await.expect("it needs no search for that");
}

#[tokio::test]
async fn quotas_hold_for_every_change_of_one_commit() {
    let bench = Bench::new();
    let quota = Some(Quota { keys: 2, bytes: 1_000 });
    let within = |name: &str| {
        let change = put(name, "word");
        let to = change.to.map(|new| NewValue { quota, ..new });
        ValueChange { to, ..change }
    };
    // Asked for together, so that one commit has all of them; the second and the third are each all or nothing.
    let (one, two, three, four) = tokio::join!(
        bench.store.change(vec![within("a")], None),
        bench.store.change(vec![within("b"), within("c")], None),
        bench.store.change(vec![within("b"), within("a")], None),
        bench.store.change(vec![within("d")], None),
    );
    one.expect("room for one");
    two.expect_err("three keys");
    three.expect("two keys");
    four.expect_err("a third key");
    let owned = "SELECT keys FROM value_owners UNION ALL SELECT bytes FROM value_owners";
    assert_eq!(numbers(bench.directory.path(), owned), [2, 2 * (1 + r#"{"value":"word"}"#.len() as u64)]);
    bench.store.change(vec![ValueChange::remove(key("a"), at(1))], None).await.expect("room");
    bench.store.change(vec![ValueChange::remove(key("b"), at(1))], None).await.expect("room");
    assert_eq!(numbers(bench.directory.path(), owned), [0; 0], "who has nothing has no row");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_always_has_the_word_is_always_found_while_it_is_rewritten() {
    let bench = Bench::new();
    set(&bench.store, "k", "canary").await;
    let (store, done) = (bench.store.clone(), Arc::new(AtomicBool::new(false)));
    let stop = done.clone();
    let writing = tokio::spawn(async move {
        while !stop.load(Ordering::Relaxed) {
            set(&store, "k", "canary").await;
        }
    });
    for number in 0..200 {
        assert_eq!(keys(&bench.store, "canary").await, ["k"], "search {number}");
    }
    done.store(true, Ordering::Relaxed);
    writing.await.expect("no panic");
}
