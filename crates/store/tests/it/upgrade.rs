//! Stores of earlier formats: copied before they change, and whole whatever happens meanwhile.

use std::{
    collections::BTreeSet,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
};

use drawloom_contract::journal::{RunReader as _, StoreError};
use drawloom_store::{Opened, Options, Store, inspect};

use crate::{
    fixtures::{at, open},
    full_disk::{assert_passed, mounts, place, run_in},
};

/// A store of every earlier format, each with 14 runs.
const ALL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../drawloom/tests/golden");
/// A store of the format before.
const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../drawloom/tests/golden/format-11/drawloom.db");
const BEFORE: u32 = 11;

fn put_golden(directory: &Path) -> PathBuf {
    let file = directory.join("drawloom.db");
    fs::copy(GOLDEN, &file).expect("a store of the format before");
    file
}

fn copies(directory: &Path) -> Vec<String> {
    let names = fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").file_name());
    let names = names.map(|name| name.to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("drawloom.db.")).collect()
}

async fn assert_whole(opened: &Opened) {
    let page = drawloom_contract::journal::RunFilter { limit: 100, ..Default::default() };
    let everything = drawloom_contract::caller::Visible::whole(drawloom_contract::ids::Tenant::default_tenant());
    let runs = opened.store.list_runs(&everything, &page).await.expect("a readable store");
    assert_eq!(runs.len(), 14);
    assert_eq!(opened.store.integrity().await, Ok(()));
}

#[tokio::test]
async fn the_copy_of_the_format_before_stays_until_the_first_clean_close() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    put_golden(directory.path());
    let opened = open(&directory);
    assert_whole(&opened).await;
    assert_eq!(copies(directory.path()), ["drawloom.db.before-format12"]);
    let copy = directory.path().join("drawloom.db.before-format12");
    let found = inspect(&copy).expect("a copy that can be restored");
    assert_eq!((found.format, found.runs), (BEFORE, 14));
    let bytes = fs::read(&copy).expect("a copy");
    drop(opened);

    let opened = open(&directory);
    assert!(fs::read(&copy).expect("a copy") == bytes, "a boot that did not end well changed the copy");
    opened.store.close().await.expect("an orderly end");
    assert_eq!(copies(directory.path()), [""; 0]);

    let opened = open(&directory);
    assert_whole(&opened).await;
    assert_eq!(copies(directory.path()), [""; 0], "nothing is copied when the format stays");
}

#[tokio::test]
async fn the_copy_stays_when_the_store_was_deleted_or_taken_over() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = put_golden(directory.path());
    let first = open(&directory);
    let second = open(&directory);
    first.store.close().await.expect("an orderly end");
    assert_eq!(copies(directory.path()), ["drawloom.db.before-format12"]);
    fs::remove_file(file).expect("a file");
    drop(second.store.close().await);
    assert_eq!(copies(directory.path()), ["drawloom.db.before-format12"]);
}

fn format(directory: &Path) -> u32 {
    let connection = rusqlite::Connection::open(directory.join("drawloom.db")).expect("a store");
    connection.query_row("PRAGMA user_version", [], |row| row.get(0)).expect("a format")
}

/// The tables and indexes of a closed store, without their white space.
fn schema(directory: &Path) -> Vec<String> {
    let connection = rusqlite::Connection::open(directory.join("drawloom.db")).expect("a store");
    let mut schema = connection
        .prepare("SELECT name || ' ' || coalesce(sql, '') FROM sqlite_schema ORDER BY name")
        .expect("every file has a schema");
    let texts = schema.query_map([], |row| row.get::<_, String>(0)).expect("a schema");
    let compact = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    texts.map(|text| compact(text.expect("a text"))).collect()
}

#[tokio::test]
async fn every_earlier_format_ends_as_a_new_store_begins() {
    let new = tempfile::tempdir().expect("a temporary directory");
    open(&new).store.close().await.expect("an orderly end");
    let mut opened_formats = BTreeSet::new();
    let entries = fs::read_dir(ALL).expect("a directory").map(|entry| entry.expect("an entry").path());
    for golden in entries.filter(|path| path.is_dir()) {
        let directory = tempfile::tempdir().expect("a temporary directory");
        fs::copy(golden.join("drawloom.db"), directory.path().join("drawloom.db")).expect("a store");
        opened_formats.insert(format(directory.path()));
        let opened = open(&directory);
        assert_whole(&opened).await;
        opened.store.close().await.expect("an orderly end");
        assert_eq!(schema(directory.path()), schema(new.path()), "{}", golden.display());
    }
    let missing: Vec<u32> = (1..format(new.path())).filter(|format| !opened_formats.contains(format)).collect();
    assert_eq!(missing, [0; 0], "{ALL} has no store of these formats; the README there says how one is made");
}

#[tokio::test]
async fn a_new_store_is_not_copied() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let _opened = open(&directory);
    assert_eq!(copies(directory.path()), [""; 0]);
}

#[tokio::test]
async fn a_kill_at_any_write_of_the_upgrade_leaves_a_store_that_opens() {
    if let Some(directory) = place() {
        drop(Store::open(&Options::new(directory), at(2)).expect("it was not killed"));
        return;
    }
    if Command::new("strace").arg("-V").output().is_err() {
        _ = writeln!(std::io::stderr(), "skipped: this machine has no strace");
        return;
    }
    let name = "upgrade::a_kill_at_any_write_of_the_upgrade_leaves_a_store_that_opens";
    let (mut before, mut after) = (0, 0);
    // The copy is about 40 writes, the step about 20; the last of these numbers is beyond them.
    for write in [1, 5, 20, 38, 40, 42, 44, 46, 48, 52, 56, 60, 64, 70, 80, 100, 1_000] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        put_golden(directory.path());
        let kill = format!("inject=pwrite64:signal=KILL:when={write}");
        let strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", &kill];
        let output = run_in(":", &strace, directory.path(), name);
        if output.status.success() {
            assert_passed(&output);
        }
        let is_copied = directory.path().join("drawloom.db.before-format12").exists();
        let found = format(directory.path());
        match found == BEFORE {
            true => before += 1,
            false => after += 1,
        }
        assert!(found == BEFORE || is_copied, "the format changed before the copy was there");
        let opened = open(&directory);
        assert_whole(&opened).await;
        opened.store.close().await.expect("an orderly end");
        assert_eq!(copies(directory.path()), [""; 0], "killed at write {write}");
    }
    assert!(before > 2 && after > 0, "killed {before} times before the step and {after} times after it");
}

#[tokio::test]
async fn without_room_for_the_copy_the_store_stays_as_it_is() {
    if let Some(directory) = place() {
        return where_the_copy_has_no_room(&directory);
    }
    let name = "upgrade::without_room_for_the_copy_the_store_stays_as_it_is";
    let directory = tempfile::tempdir().expect("a temporary directory");
    // 64 KiB a file, and no signal when a write goes beyond it.
    let golden = format!("cp '{GOLDEN}' \"$1\"/drawloom.db");
    assert_passed(&run_in(&format!("{golden}; trap '' XFSZ; ulimit -S -f 128"), &[], directory.path(), name));
    // A disk that other processes fill while the copy is made.
    if Command::new("strace").arg("-V").output().is_ok() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let part = directory.path().join("drawloom.db.before-format12.part").display().to_string();
        let full = "inject=pwrite64:error=ENOSPC:when=10+";
        let strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-P", &part, "-e", full];
        assert_passed(&run_in(&golden, &strace, directory.path(), name));
    }
    let Some(way) = mounts() else { return };
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mount = format!("mount -t tmpfs -o size=256k none \"$1\"; {golden}");
    assert_passed(&run_in(&mount, &way, directory.path(), name));
}

fn where_the_copy_has_no_room(directory: &Path) {
    let file = directory.join("drawloom.db");
    let before = fs::read(&file).expect("a store");
    let refused = Store::open(&Options::new(directory), at(2)).err().expect("no room");
    assert!(matches!(refused, StoreError::NoRoomForCopy { .. }), "{refused:?}");
    assert!(fs::read(&file).expect("a store") == before, "the store was changed");
    assert_eq!(copies(directory), [""; 0]);
}

/// A store of format 10, which does not split words, with a text in its index that is one word there.
fn put_unsplit(directory: &Path) {
    let file = directory.join("drawloom.db");
    fs::copy(GOLDEN.replace("format-11", "format-10"), &file).expect("a store that does not split words");
    let connection = rusqlite::Connection::open(file).expect("a store");
    let find = "SELECT revision FROM key_values WHERE searched <> 0 AND value LIKE '%the golden words%'";
    let revision: i64 = connection.query_row(find, [], |row| row.get(0)).expect("a value");
    let change = "UPDATE key_values SET value = replace(value, 'the golden words', '東京都に住む') WHERE revision = ?1";
    connection.execute(change, [revision]).expect("a value");
    connection.execute("DELETE FROM value_words WHERE rowid = ?1", [revision]).expect("indexed");
    let index = "INSERT INTO value_words (rowid, key, text) VALUES (?1, 'golden', '東京都に住む')";
    connection.execute(index, [revision]).expect("indexed");
    connection.execute("UPDATE value_revisions SET indexed = revision", []).expect("all are indexed");
}

#[tokio::test]
async fn values_of_an_earlier_format_are_indexed_again_once() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    put_unsplit(directory.path());
    let search = |words: &str| drawloom_store::Search {
        tenant: drawloom_contract::ids::Tenant::default_tenant(),
        space: drawloom_contract::values::MEMORY,
        owners: vec!["tenant".into()],
        prefix: String::new(),
        terms: vec![drawloom_store::Term { words: words.into(), is_prefix: false }],
        needs: drawloom_store::Needs::EveryTerm,
        limit: 10,
    };
    for opening in 1..=2 {
        let opened = open(&directory);
        for (words, count) in [("京都", 1), ("golden", 1), ("words", 0)] {
            let hits = opened.store.search(search(words), at(1_900_000_000_000)).await.expect("a readable store");
            assert_eq!(hits.len(), count, "{words} at opening {opening}");
        }
        assert_eq!(opened.store.integrity().await, Ok(()));
        opened.store.close().await.expect("an orderly end");
    }
}
