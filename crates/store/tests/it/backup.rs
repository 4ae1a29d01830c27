//! Copies of a store: made while it is written, checked, put back.

use std::{fs, os::unix::fs::PermissionsExt as _, sync::Arc};

use drawloom_contract::journal::{RunReader as _, StoreError};
use drawloom_store::{Previous, backup, inspect, restore};

use crate::fixtures::{Bench, accepted, after, begin, completed, key, note, open};

fn large(number: u64) -> String {
    format!("{number} ").repeat(10_000)
}

#[tokio::test]
async fn a_copy_made_while_runs_are_written_holds_every_run_whole() {
    let bench = Arc::new(Bench::new());
    for number in 1..=200 {
        bench.append(begin(accepted(number), [note(&large(number)), completed()])).await;
    }
    let writer = Arc::clone(&bench);
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let writing = tokio::spawn(async move {
        let mut begun = Some(begun);
        for number in 201..=600 {
            writer.append(begin(accepted(number), [note(&large(number))])).await;
            if number % 2 == 0 {
                writer.append(after(key(number), 2, [completed()])).await;
            }
            if let Some(begun) = begun.take() {
                _ = begun.send(());
            }
        }
    });
    has_begun.await.expect("it writes");
    let target = bench.directory.path().join("copy.backup");
    let (directory, to) = (bench.directory.path().to_owned(), target.clone());
    let made = tokio::task::spawn_blocking(move || backup(&directory, &to)).await.expect("no panic").expect("a copy");
    writing.await.expect("everything was written");
    assert!((201..=600).contains(&made.runs), "{made:?}");
    assert_eq!(inspect(&target), Ok(made.clone()));
    assert_eq!(fs::metadata(&target).expect("a file").permissions().mode() & 0o777, 0o600);
    let names: Vec<_> = fs::read_dir(bench.directory.path()).expect("a directory").flatten().collect();
    assert!(names.iter().all(|entry| !entry.file_name().to_string_lossy().ends_with(".part")), "{names:?}");

    // Put back elsewhere, every run is as it was.
    let elsewhere = tempfile::tempdir().expect("a temporary directory");
    assert_eq!(restore(&target, elsewhere.path()), Ok(made.clone()));
    let opened = open(&elsewhere);
    assert_eq!(opened.previous, Previous::Unclean, "nobody closed the store in the copy");
    let restored = Bench { store: opened.store, epoch: opened.epoch, directory: elsewhere };
    for number in 1..=made.runs {
        let records = restored.records(&key(number)).await;
        assert_eq!(records[..], bench.records(&key(number)).await[..records.len()], "run {number}");
        assert!(records.len() >= 2, "run {number}");
    }
    let unfinished = restored.store.list_unfinished().await.expect("a readable store");
    assert_eq!(unfinished.runs.len() as u64, made.unfinished);
    restored.store.integrity().await.expect("a store in order");
}

#[tokio::test]
async fn a_copy_replaces_nothing_and_a_store_must_be_there() {
    let bench = Bench::new();
    let target = bench.directory.path().join("copy.backup");
    fs::write(&target, "mine").expect("a writable directory");
    let refused = backup(bench.directory.path(), &target);
    assert!(matches!(refused, Err(StoreError::Failed { .. })), "{refused:?}");
    assert_eq!(fs::read_to_string(&target).expect("a file"), "mine");
    let nowhere = tempfile::tempdir().expect("a temporary directory");
    let refused = backup(nowhere.path(), &nowhere.path().join("copy"));
    assert!(refused.is_err_and(|error| error.to_string().contains("no store found")));
    assert_eq!(fs::read_dir(nowhere.path()).expect("a directory").count(), 0);
}

#[tokio::test]
async fn what_is_no_backup_or_is_damaged_is_not_put_back() {
    let bench = Bench::new();
    for number in 1..=50 {
        bench.append(begin(accepted(number), [note(&large(number)), completed()])).await;
    }
    let target = bench.directory.path().join("copy.backup");
    backup(bench.directory.path(), &target).expect("a copy");
    let elsewhere = tempfile::tempdir().expect("a temporary directory");
    let mut refused = Vec::new();
    let mut damaged = fs::read(&target).expect("a file");
    let middle = damaged.len() / 2;
    damaged[middle..middle + 40_000].fill(0xa5);
    for (name, content) in [("damaged", damaged), ("text", b"hello".to_vec()), ("empty", Vec::new())] {
        let file = bench.directory.path().join(name);
        fs::write(&file, content).expect("a writable directory");
        refused.push((name, restore(&file, elsewhere.path())));
    }
    refused.push(("absent", restore(&bench.directory.path().join("absent"), elsewhere.path())));
    refused.push(("live", restore(bench.store.file(), elsewhere.path())));
    for (name, outcome) in refused {
        assert!(outcome.is_err(), "{name}");
    }
    assert_eq!(fs::read_dir(elsewhere.path()).expect("a directory").count(), 0, "nothing was touched");
}

#[tokio::test]
async fn a_copy_takes_the_place_of_another_store_and_of_its_log() {
    let bench = Bench::new();
    bench.append(begin(accepted(1), [completed()])).await;
    let target = bench.directory.path().join("copy.backup");
    backup(bench.directory.path(), &target).expect("a copy");
    let other = Bench::new();
    for number in 2..=20 {
        other.append(begin(accepted(number), [completed()])).await;
    }
    // As a crash leaves it: with a log that is not folded.
    let Bench { store, directory, .. } = other;
    let crashed = tempfile::tempdir().expect("a temporary directory");
    for name in ["drawloom.db", "drawloom.db-wal"] {
        fs::copy(directory.path().join(name), crashed.path().join(name)).expect("a copy");
    }
    drop(store);
    restore(&target, crashed.path()).expect("a backup");
    let restored = open(&crashed).store;
    assert!(restored.find_run(&key(1)).await.expect("readable").is_some());
    assert_eq!(restored.find_run(&key(2)).await, Ok(None));
}
