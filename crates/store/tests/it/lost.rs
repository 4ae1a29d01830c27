//! A store whose write-ahead log is gone, or which was replaced by an older one, opens and says what is missing.

use std::{
    fs,
    path::{Path, PathBuf},
};

use drawloom_contract::{
    journal::{Entry, Journal as _, RunReader as _},
    time::Timestamp,
};
use drawloom_store::{FILE, Lost, Opened, Options, Store};

use crate::fixtures::{Bench, accepted, begin, key};

fn open(directory: &Path) -> Opened {
    Store::open(&Options::new(directory), Timestamp::from_millis(1)).expect("it opens")
}

fn beside(directory: &Path, ending: &str) -> PathBuf {
    directory.join(format!("{FILE}{ending}"))
}

/// What is in the directory of a store that a crash left: its files as they are while it is open.
fn crash(from: &Path) -> tempfile::TempDir {
    let left = tempfile::tempdir().expect("a directory");
    for entry in fs::read_dir(from).expect("the directory") {
        let entry = entry.expect("an entry");
        fs::copy(entry.path(), left.path().join(entry.file_name())).expect("a copy");
    }
    left
}

/// The loss that is noticed when the store of this directory is opened, twice: what was noticed once stays known.
fn lost(directory: &Path) -> Option<Lost> {
    let first = open(directory).lost;
    assert_eq!(open(directory).lost, first, "it is told again");
    first
}

#[tokio::test]
async fn a_log_that_is_gone_is_noticed_and_a_store_that_is_whole_is_not_suspected() {
    let bench = Bench::new();
    for number in 1..100 {
        bench.append(begin(accepted(number), [])).await;
    }
    let directory = bench.directory.path();
    assert_eq!(lost(crash(directory).path()), None, "nothing is missing after a crash");

    let left = crash(directory);
    fs::remove_file(beside(left.path(), "-wal")).expect("the log");
    let noticed = lost(left.path()).expect("the log is missing");
    assert!(noticed.written.epoch > noticed.found.epoch, "{noticed:?}");
    assert!(noticed.written.position >= 64 && noticed.found.position == 0, "{noticed:?}");
    fs::remove_file(&noticed.file).expect("the mark");
    assert_eq!(lost(left.path()), None, "it is told until somebody takes note");

    let left = crash(directory);
    for ending in ["", "-wal", "-shm"] {
        fs::remove_file(beside(left.path(), ending)).expect("a file of the store");
    }
    assert!(lost(left.path()).is_some(), "the whole store is missing");

    let left = crash(directory);
    let log = fs::OpenOptions::new().write(true).open(beside(left.path(), "-wal")).expect("the log");
    log.set_len(log.metadata().expect("its size").len() / 3).expect("it is cut");
    assert!(lost(left.path()).is_some(), "the end of the log is missing");
}

#[tokio::test]
async fn what_was_folded_closed_pruned_or_restored_is_not_missing() {
    let bench = Bench::new();
    bench.append(begin(accepted(1), [])).await;
    let backup = tempfile::tempdir().expect("a directory");
    let copy = backup.path().join("copy");
    drawloom_store::backup(bench.directory.path(), &copy).expect("a backup");
    for number in 2..10 {
        bench.append(begin(accepted(number), [])).await;
    }
    // Another program folds the log into the file and removes it, as the shell of SQLite does at its end.
    let left = crash(bench.directory.path());
    let other = rusqlite::Connection::open(beside(left.path(), "")).expect("the file");
    let folded = other.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    folded.expect("it is folded");
    drop(other);
    assert_eq!(fs::exists(beside(left.path(), "-wal")).ok(), Some(false));
    assert_eq!(lost(left.path()), None, "a log that was folded");

    bench.store.close().await.expect("it closes");
    assert_eq!(lost(crash(bench.directory.path()).path()), None, "a store that was closed");

    let left = crash(bench.directory.path());
    drawloom_store::restore(&copy, left.path()).expect("it is restored");
    assert_eq!(lost(left.path()), None, "a store that was restored");
    let restored = open(left.path());
    let entry = Entry::append(restored.epoch, begin(accepted(20), []));
    restored.store.commit(entry).await.expect("it can be written");
    assert!(restored.store.find_run(&key(20)).await.expect("it can be read").is_some());

    let left = crash(bench.directory.path());
    fs::copy(&copy, beside(left.path(), "")).expect("an older file in its place");
    assert!(lost(left.path()).is_some(), "an older store was put there by hand");
}
