//! What ended long ago goes, whole; everything else stays.

use std::collections::BTreeSet;

use drawloom_contract::{
    caller::Visible,
    ids::{Digest, Tenant},
    journal::{CommitError, Entry, Journal as _, NewBatch, RunFilter, RunReader as _},
    once::{HandleId, Made, Once, RequestKey},
    record::{Accepted, Body, Record, Retry},
    retention::{Prune, Pruned, Retention as _},
    time::Timestamp,
    values::{GOALS, KeyValue as _, ValueChange, ValueKey},
};
use drawloom_store::{Options, Store};
use serde_json::json;

use crate::fixtures::{
    Bench, accepted, after, at, batch_id, begin, child, clean, completed, key, member, note, open, run_id, session_id,
    tenant, turn_done,
};

/// All times of the fixtures are before this.
fn late() -> Prune {
    Prune { tenant: None, ended_before: at(1_000_000), keep: BTreeSet::new() }
}

fn large(letter: char) -> String {
    letter.to_string().repeat(40 * 1024)
}

async fn count(bench: &Bench) -> usize {
    let filter = RunFilter { limit: 200, ..RunFilter::default() };
    bench.store.list_runs(&Visible::whole(Tenant::default_tenant()), &filter).await.expect("a readable store").len()
}

/// How many rows a table has, as another process sees it.
fn rows(bench: &Bench, table: &str) -> i64 {
    let connection = rusqlite::Connection::open(bench.store.file()).expect("the store's file");
    connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).expect("a count")
}

#[tokio::test]
async fn a_tree_goes_whole_with_all_that_was_kept_for_it() {
    let bench = Bench::new();
    bench.append(begin(accepted(1), [note(&large('a')), note(&large('b'))])).await;
    bench.append(begin(child(2, 1, 2, 0), [note(&large('a')), completed()])).await;
    bench.append(after(key(1), 3, [turn_done(1, &large('c')), completed()])).await;
    // Another run shares one of the large texts and is not done.
    bench.append(begin(accepted(3), [note(&large('b'))])).await;
    let prunable = bench.store.find_prunable(&late()).await.expect("a readable store");
    assert_eq!(prunable, (Pruned { trees: 1, runs: 2, records: 8, blobs: 0 }, vec![key(1)]));
    assert_eq!(count(&bench).await, 3, "looking removes nothing");

    let pruned = bench.store.prune(&late()).await.expect("a writable store");
    assert_eq!(pruned, Pruned { trees: 1, runs: 2, records: 8, blobs: 2 });
    assert_eq!(bench.store.find_run(&key(1)).await, Ok(None));
    assert_eq!(bench.records(&key(1)).await, []);
    assert_eq!(bench.records(&key(3)).await.len(), 2, "the text that it shared is still there");
    for (table, left) in
        [("runs", 1), ("journal", 2), ("blobs", 1), ("blob_uses", 1), ("sessions", 1), ("pruned_runs", 0)]
    {
        assert_eq!(rows(&bench, table), left, "{table}");
    }
    assert_eq!(bench.store.stats().pruned_runs, 2);
    assert_eq!(bench.store.prune(&late()).await, Ok(Pruned::default()), "there is nothing more");
    bench.store.integrity().await.expect("a store in order");
}

#[tokio::test]
async fn named_trees_go_whatever_their_age_and_none_while_a_run_has_not_ended() {
    let bench = Bench::new();
    bench.append(begin(accepted(1), [note(&large('a')), completed()])).await;
    bench.append(begin(child(2, 1, 2, 0), [note(&large('b'))])).await;
    // It shares its session with one that stays, and ended just now.
    bench.append(begin(accepted(3), [completed()])).await;
    bench.append(begin(Accepted { session: session_id(3), ..accepted(4) }, [])).await;
    let remove = async |numbers: &[u64]| {
        let roots: Vec<_> = numbers.iter().map(|number| key(*number)).collect();
        bench.store.remove_trees(&roots).await.expect("a writable store")
    };
    assert_eq!(remove(&[3, 1]).await, None, "a child has not ended");
    assert_eq!(remove(&[2]).await, None, "no root");
    assert_eq!(count(&bench).await, 4);
    let sessions = rows(&bench, "sessions");
    assert_eq!(remove(&[3]).await, Some(Pruned { trees: 1, runs: 1, records: 2, blobs: 0 }));
    assert_eq!(rows(&bench, "sessions"), sessions, "a run that stays has the session too");
    bench.append(after(key(2), 2, [completed()])).await;
    assert_eq!(remove(&[1]).await, Some(Pruned { trees: 1, runs: 2, records: 6, blobs: 2 }));
    assert_eq!(remove(&[1]).await, None, "it is gone");
    assert_eq!(count(&bench).await, 1);
    for (table, left) in [("runs", 1), ("journal", 1), ("blobs", 0), ("pruned_runs", 0)] {
        assert_eq!(rows(&bench, table), left, "{table}");
    }
    bench.store.integrity().await.expect("a store in order");
}

#[tokio::test]
async fn roots_that_are_to_be_kept_stay_whatever_their_age() {
    let bench = Bench::new();
    for number in 1..=3 {
        bench.append(begin(accepted(number), [completed()])).await;
    }
    let prune = Prune { keep: BTreeSet::from([run_id(2), run_id(3)]), ..late() };
    assert_eq!(bench.store.find_prunable(&prune).await.map(|found| found.0.trees), Ok(1));
    assert_eq!(bench.store.prune(&prune).await.map(|pruned| pruned.trees), Ok(1));
    assert_eq!(count(&bench).await, 2);
    let said = ValueKey {
        tenant: Tenant::default_tenant(),
        space: GOALS,
        owner: format!("run/{}", run_id(2)),
        key: "said".into(),
    };
    let put = ValueChange::put(
        said,
        drawloom_contract::redact::Redactor::new::<&str>([]).clean(json!({ "texts": [] })),
        at(1),
        None,
    );
    bench.store.change(vec![put], None).await.expect("room");
    assert_eq!(rows(&bench, "key_values"), 1);
    bench.store.remove_trees(&[key(2)]).await.expect("a writable store").expect("it has ended");
    assert_eq!(rows(&bench, "key_values"), 0, "what was said to a goal goes with its run");
}

#[tokio::test]
async fn a_retry_in_a_batch_and_the_deletion_of_the_batch_leave_no_run_behind() {
    let bench = Bench::new();
    let tenant = Tenant::default_tenant;
    let new = |number| NewBatch {
        tenant: tenant(),
        batch: batch_id(number),
        user: "ada".parse().expect("a valid name"),
        size: 1,
    };
    let begun = |run, batch| Entry {
        batch: Some(new(batch)),
        ..Entry::append(bench.epoch, begin(member(run, batch, 0), [completed()]))
    };
    let retry = |run, of, batch| {
        let retry = Some(Retry { of: run_id(of), attempt: 1 });
        begin(Accepted { retry, ..member(run, batch, 0) }, [completed()])
    };
    bench.commit(begun(1, 1)).await.expect("a batch");
    bench.commit(begun(2, 2)).await.expect("a batch");
    // The deletion was planned before the retry joined: it deletes nothing, and the next one has both.
    bench.append(retry(3, 1, 1)).await;
    assert_eq!(bench.store.remove_trees(&[key(1)]).await, Ok(None));
    let removed = bench.store.remove_trees(&[key(1), key(3)]).await.expect("a writable store");
    assert_eq!(removed.map(|removed| removed.runs), Some(2));
    // The retry was planned before the deletion.
    bench.store.remove_trees(&[key(2)]).await.expect("a writable store").expect("it has ended");
    let late = bench.commit(Entry::append(bench.epoch, retry(4, 2, 2))).await;
    assert_eq!(late.map(drop), Err(CommitError::RetriedGone(run_id(2))));
    assert_eq!(count(&bench).await, 0);
    // What an earlier version left of a batch can be deleted.
    bench.append(begin(member(5, 3, 0), [completed()])).await;
    let removed = bench.store.remove_trees(&[key(5)]).await.expect("a writable store");
    assert_eq!(removed.map(|removed| removed.runs), Some(1));
}

#[tokio::test]
async fn nothing_goes_that_is_unfinished_or_ended_later_or_belongs_to_such_a_thing() {
    let bench = Bench::new();
    // Ended, but a run below it has not.
    bench.append(begin(accepted(1), [completed()])).await;
    bench.append(begin(child(2, 1, 2, 0), [])).await;
    // Ended, but its session goes on.
    bench.append(begin(accepted(3), [completed()])).await;
    bench.append(begin(Accepted { session: session_id(3), ..accepted(4) }, [])).await;
    // Ended, but the session of a run below it goes on.
    bench.append(begin(accepted(5), [completed()])).await;
    bench.append(begin(child(6, 5, 2, 0), [completed()])).await;
    bench.append(begin(Accepted { session: session_id(6), ..accepted(7) }, [])).await;
    // Ended, but another of its batch has not.
    let batch = NewBatch {
        tenant: Tenant::default_tenant(),
        batch: batch_id(1),
        user: "ada".parse().expect("a valid name"),
        size: 2,
    };
    let runs = vec![begin(member(8, 1, 0), [completed()]), begin(member(9, 1, 1), [])];
    let entry = Entry { runs, batch: Some(batch), ..Entry::append(bench.epoch, begin(accepted(99), [])) };
    bench.commit(entry).await.expect("a batch");
    // Ended too late.
    let mut append = begin(accepted(10), [completed()]);
    append.records[1] = clean(Record { seq: 2, at: late().ended_before, body: completed() });
    bench.append(append).await;
    assert_eq!(bench.store.find_prunable(&late()).await, Ok((Pruned::default(), Vec::new())));
    assert_eq!(bench.store.prune(&late()).await, Ok(Pruned::default()));
    assert_eq!(count(&bench).await, 10);

    // Once the others have ended, all of it goes.
    for number in [2, 4, 7, 9] {
        bench.append(after(key(number), 1, [completed()])).await;
    }
    let pruned = bench.store.prune(&late()).await.expect("a writable store");
    assert_eq!((pruned.trees, pruned.runs), (7, 9));
    assert_eq!(bench.store.list_batch(&Visible::whole(Tenant::default_tenant()), batch_id(1)).await, Ok(None));
    assert_eq!(count(&bench).await, 1, "the one that ended too late");
}

#[tokio::test]
async fn a_request_key_goes_with_what_it_made() {
    let bench = Bench::new();
    let key = || RequestKey {
        tenant: Tenant::default_tenant(),
        subject: "ada".parse().expect("a valid name"),
        operation: "spawn_run",
        key: Digest::of(b"key"),
        body: Digest::of(b"body"),
    };
    let once = |number| Some(Once::Request { key: key(), made: Made::Handle(HandleId::Run(run_id(number))) });
    let entry = Entry { once: once(1), ..Entry::append(bench.epoch, begin(accepted(1), [completed()])) };
    bench.commit(entry).await.expect("a run");
    bench.store.prune(&late()).await.expect("a writable store");
    assert_eq!(bench.store.find_request(&key()).await, Ok(None));
    let entry = Entry { once: once(2), ..Entry::append(bench.epoch, begin(accepted(2), [])) };
    bench.commit(entry).await.expect("the key can be used again");
}

#[tokio::test]
async fn one_tenant_is_pruned_without_the_others() {
    let bench = Bench::new();
    for (number, name) in [(1, "acme"), (2, "brook"), (3, "coral")] {
        bench.append(begin(Accepted { tenant: tenant(name), ..accepted(number) }, [completed()])).await;
    }
    let pruned = bench.store.prune(&Prune { tenant: Some(tenant("brook")), ..late() }).await;
    assert_eq!(pruned.map(|pruned| pruned.runs), Ok(1));
    assert_eq!(rows(&bench, "runs"), 2);
    assert_eq!(bench.store.prune(&late()).await.map(|pruned| pruned.runs), Ok(2));
}

#[tokio::test]
async fn many_trees_and_a_long_journal_go_in_pieces_between_commits() {
    let bench = Bench::new();
    bench.append(begin(accepted(1), (0..3_000).map(|_| note("x")).chain([completed()]))).await;
    for number in 2..=600 {
        bench.append(begin(accepted(number), [completed()])).await;
    }
    let writes = async {
        for number in 1_000..1_050 {
            bench.append(begin(accepted(number), [note("meanwhile")])).await;
        }
    };
    let everything = late();
    let (pruned, ()) = tokio::join!(bench.store.prune(&everything), writes);
    assert_eq!(pruned, Ok(Pruned { trees: 600, runs: 600, records: 3_002 + 599 * 2, blobs: 0 }));
    assert_eq!((rows(&bench, "runs"), rows(&bench, "journal")), (50, 100));
}

#[tokio::test]
async fn what_a_crash_left_of_a_removal_goes_with_the_next() {
    let bench = Bench::new();
    bench.append(begin(accepted(1), [note(&large('a')), completed()])).await;
    bench.append(begin(accepted(2), [])).await;
    let file = bench.store.file().to_owned();
    bench.store.close().await.expect("an orderly end");
    let connection = rusqlite::Connection::open(&file).expect("the store's file");
    // As the first transaction of a removal leaves it.
    connection
        .execute_batch(
            "INSERT INTO pruned_runs SELECT tenant, run FROM runs WHERE ended_at IS NOT NULL;
             DELETE FROM runs WHERE ended_at IS NOT NULL;",
        )
        .expect("a writable file");
    drop(connection);
    let bench = Bench { store: open(&bench.directory).store, ..bench };
    let pruned = bench
        .store
        .prune(&Prune { tenant: None, ended_before: Timestamp::from_millis(0), keep: BTreeSet::new() })
        .await;
    assert_eq!(pruned, Ok(Pruned { trees: 0, runs: 0, records: 3, blobs: 1 }));
    assert_eq!((rows(&bench, "journal"), rows(&bench, "blobs")), (1, 0));
}

#[tokio::test]
async fn a_definition_that_the_store_has_is_not_written_again() {
    let bench = Bench::new();
    let definition = std::sync::Arc::new(drawloom_testkit::definition("worker", "script", "m"));
    let redactor = drawloom_contract::redact::Redactor::new::<&str>([]);
    let run = |number| {
        let accepted = Accepted { definition: definition.digest(), agent: definition.name.clone(), ..accepted(number) };
        let definitions = vec![redactor.clean(definition.clone())];
        bench.store.commit(Entry { definitions, ..Entry::append(bench.epoch, begin(accepted, [])) })
    };
    run(1).await.expect("a run");
    assert_eq!(rows(&bench, "definitions"), 1);
    let connection = rusqlite::Connection::open(bench.store.file()).expect("the file");
    connection.execute_batch("DELETE FROM definitions").expect("a writable file");
    run(2).await.expect("a run");
    assert_eq!(rows(&bench, "definitions"), 0, "it was written again");
}

#[tokio::test]
async fn a_definition_goes_when_no_run_has_it_any_more() {
    let bench = Bench::new();
    let definition = |name: &str| {
        let definition = drawloom_testkit::definition(name, "script", "m");
        (definition.digest(), std::sync::Arc::new(definition))
    };
    let redactor = drawloom_contract::redact::Redactor::new::<&str>([]);
    for (number, name, more) in [(1, "gone", vec![completed()]), (2, "kept", vec![completed()]), (3, "kept", vec![])] {
        let (digest, definition) = definition(name);
        let agent = name.parse().expect("a valid name");
        let append = begin(Accepted { definition: digest, agent, ..accepted(number) }, more);
        let entry = Entry { definitions: vec![redactor.clean(definition)], ..Entry::append(bench.epoch, append) };
        bench.store.commit(entry).await.expect("a run");
    }
    bench.store.prune(&late()).await.expect("a writable store");
    bench.store.close().await.expect("an orderly end");
    let store = open(&bench.directory).store;
    let find = |name: &str| {
        let (digest, _) = definition(name);
        let store = store.clone();
        async move { store.find_definition(&Tenant::default_tenant(), &digest).await.expect("readable").is_some() }
    };
    assert_eq!([find("gone").await, find("kept").await], [false, true]);
}

#[tokio::test]
async fn a_store_of_the_format_before_knows_its_large_texts_after_the_step() {
    let bench = Bench::new();
    let marked = Body::Note { version: 1, value: serde_json::json!({ "$blob": large('m') }) };
    bench.append(begin(accepted(1), [note(&large('a')), marked, turn_done(1, &"t".repeat(10_000)), completed()])).await;
    let uses = rows(&bench, "blob_uses");
    assert_eq!(uses, 3);
    bench.store.close().await.expect("an orderly end");
    let file = bench.directory.path().join("drawloom.db");
    let connection = rusqlite::Connection::open(&file).expect("the store's file");
    connection
        .execute_batch(
            "DROP TABLE blob_uses; DROP TABLE pruned_runs; DROP TABLE loose_definitions; DROP INDEX keys_by_handle;
             DROP TABLE value_words; DROP TABLE value_words_gone; DROP TABLE key_values; DROP TABLE value_owners; DROP TABLE value_revisions; DROP TABLE effects;
             DROP TABLE logs; DROP TABLE log_messages; DROP INDEX keys_by_age; ALTER TABLE keys DROP COLUMN answer;
             ALTER TABLE keys DROP COLUMN at; DROP TABLE waits; DROP INDEX runs_by_user;
             CREATE TABLE waits (tenant TEXT, run BLOB, call INTEGER, kind TEXT, remaining INTEGER, due INTEGER);
             ALTER TABLE runs DROP COLUMN assumed_cost; DROP INDEX runs_by_retry; DROP INDEX runs_by_parent;
             ALTER TABLE runs DROP COLUMN retry_of; ALTER TABLE runs DROP COLUMN attempt; ALTER TABLE runs DROP COLUMN reasoning_tokens;
             CREATE UNIQUE INDEX runs_by_parent ON runs (tenant, parent_run, parent_call, parent_index)
                 WHERE parent_run IS NOT NULL;
             ALTER TABLE runs RENAME COLUMN user_id TO user; ALTER TABLE batches RENAME COLUMN user_id TO user;
             ALTER TABLE sessions RENAME COLUMN user_id TO user; PRAGMA user_version = 2;",
        )
        .expect("a writable file");
    drop(connection);
    let opened = Store::open(&Options::new(bench.directory.path()), at(1)).expect("it is brought up to date");
    let bench = Bench { store: opened.store, ..bench };
    assert_eq!(rows(&bench, "blob_uses"), uses);
    assert_eq!(bench.store.prune(&late()).await.map(|pruned| pruned.blobs), Ok(3));
}
