//! Boots: who owns the file, how the last one ended, and files that are not ours.

use std::path::Path;

use drawloom_contract::{
    journal::{CommitError, Entry, StoreError},
    record::Epoch,
};
use drawloom_store::{Found, Opened, Options, Previous, Store};

use crate::fixtures::{Bench, accepted, at, begin, key, open};

fn found(opened: &Opened) -> (Epoch, Previous) {
    (opened.epoch, opened.previous)
}

#[tokio::test]
async fn each_boot_learns_how_the_one_before_ended() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let first = open(&directory);
    assert_eq!(found(&first), (1, Previous::None));
    first.store.close().await.expect("an orderly end");
    let second = open(&directory);
    assert_eq!(found(&second), (2, Previous::Clean));
    drop(second);
    let third = open(&directory);
    assert_eq!(found(&third), (3, Previous::Unclean));
    third.store.close().await.expect("an orderly end");
    assert_eq!(found(&open(&directory)), (4, Previous::Clean));
}

#[tokio::test]
async fn what_was_acknowledged_is_there_after_a_boot_that_did_not_close() {
    let bench = Bench::new();
    bench.append(begin(accepted(1), [])).await;
    let Bench { store, directory, .. } = bench;
    let before = drawloom_contract::journal::RunReader::find_run(&*store, &key(1)).await;
    drop(store);
    let Opened { store, epoch, .. } = open(&directory);
    assert_eq!(drawloom_contract::journal::RunReader::find_run(&*store, &key(1)).await, before);
    assert_eq!(epoch, 2);
}

#[tokio::test]
async fn whoever_lost_the_file_can_write_nothing_any_more() {
    let old = Bench::new();
    old.append(begin(accepted(1), [])).await;
    let Opened { store, epoch, .. } = open(&old.directory);
    let lost = CommitError::LostOwnership { mine: old.epoch, current: epoch };
    assert_eq!(old.commit(Entry::append(old.epoch, begin(accepted(2), []))).await, Err(lost.clone()));
    // Not even with the new owner's number.
    assert_eq!(old.commit(Entry::append(epoch, begin(accepted(2), []))).await, Err(lost.clone()));
    assert!(matches!(old.store.check().await, Err(StoreError::Locked { .. })));

    let Bench { directory, epoch: old_epoch, store: old_store } = old;
    let new = Bench { store, epoch, directory };
    assert_eq!(new.commit(Entry::append(old_epoch, begin(accepted(2), []))).await, Err(lost), "an old entry");
    new.append(begin(accepted(2), [])).await;
    assert_eq!(new.store.check().await, Ok(()));
    assert_eq!(new.store.integrity().await, Ok(()));
    drop(old_store);
}

fn format_of(file: &Path) -> u32 {
    let header = std::fs::read(file).expect("a readable file");
    u32::from_be_bytes([header[60], header[61], header[62], header[63]])
}

#[tokio::test]
async fn a_newer_file_is_refused_and_left_as_it_is() {
    let bench = Bench::new();
    let file = bench.store.file().to_owned();
    bench.store.close().await.expect("an orderly end");
    let known = format_of(&file);
    let mut bytes = std::fs::read(&file).expect("a readable file");
    bytes[60..64].copy_from_slice(&(known + 1).to_be_bytes());
    std::fs::write(&file, &bytes).expect("a writable file");

    let refused = Store::open(&Options::new(bench.directory.path()), at(2)).err();
    let name = file.display().to_string();
    assert_eq!(refused, Some(StoreError::TooNew { store: name, found: known + 1, known }));
    assert!(std::fs::read(&file).expect("a readable file") == bytes, "the file was changed");
    let files = std::fs::read_dir(bench.directory.path()).expect("a readable directory").count();
    assert_eq!(files, 2, "something was left beside it and its mark");
}

#[test]
fn what_is_no_store_is_refused_with_the_reason() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("file");
    std::fs::write(&file, "x").expect("a writable directory");
    let open = |path: &Path| Store::open(&Options::new(path), at(1)).err().map(|error| error.to_string());
    let inside_a_file = open(&file).expect("a file is no directory");
    assert!(inside_a_file.contains("cannot create the data directory"), "{inside_a_file}");

    for (name, content) in
        [("text", "no database at all, but long enough to be one: ".repeat(9)), ("short", "x".into())]
    {
        let path = directory.path().join(name);
        std::fs::create_dir(&path).expect("a writable directory");
        std::fs::write(path.join("drawloom.db"), &content).expect("a writable directory");
        let refused = Store::open(&Options::new(&path), at(1)).err();
        assert!(matches!(refused, Some(StoreError::Corrupt { .. })), "{name}: {refused:?}");
        assert_eq!(std::fs::read_to_string(path.join("drawloom.db")).expect("a readable file"), content);
    }
}

#[test]
fn missing_directories_are_made() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let deep = directory.path().join("a/b/c");
    let opened = Store::open(&Options::new(&deep), at(1)).expect("a store that opens");
    assert_eq!(opened.store.file(), deep.join("drawloom.db"));
    assert!(deep.join("drawloom.db").exists());
}

#[tokio::test]
async fn a_reader_beside_the_owner_sees_what_is_committed_and_writes_nothing() {
    use drawloom_contract::journal::{Journal as _, RunReader as _};
    let bench = Bench::new();
    let nothing = tempfile::tempdir().expect("a temporary directory");
    assert!(matches!(Store::read(nothing.path()), Ok(Found::Nothing)));
    bench.append(begin(accepted(1), [])).await;
    let Ok(Found::Store(reader)) = Store::read(bench.directory.path()) else { panic!("there is a store") };
    assert!(reader.find_run(&key(1)).await.expect("a readable store").is_some());
    bench.append(begin(accepted(2), [])).await;
    assert!(reader.find_run(&key(2)).await.expect("a readable store").is_some(), "what came later, too");
    let refused = reader.commit(Entry::empty(0)).await.expect_err("it only reads");
    assert!(refused.to_string().contains("opened read-only"), "{refused}");
    // The owner goes on, ends in order, and knows nothing of the reader, which still reads.
    bench.append(begin(accepted(3), [])).await;
    bench.store.close().await.expect("an orderly end");
    assert!(reader.find_run(&key(3)).await.expect("a readable store").is_some());
    reader.close().await.expect("nothing to write");
    assert_eq!(found(&open(&bench.directory)).1, Previous::Clean);
}
