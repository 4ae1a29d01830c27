//! A disk that is full, fails or may not be written, for real: the test starts itself again where that is so.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
};

use drawloom_contract::{
    journal::{CommitError, Entry, Journal as _, RunReader as _, StoreError},
    record::Seq,
};
use drawloom_store::{Opened, Options, Store};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::fixtures::{accepted, after, at, begin, key, note};

/// Tells the second process where its directory is.
const DIRECTORY: &str = "DRAWLOOM_STORE_TEST_DIRECTORY";

/// Runs the test `name` of this binary again, in a shell that did `prepare` first; `$1` is the directory there. The second
/// time the test finds itself in its place and does its work.
pub(crate) fn run_in(prepare: &str, wrap: &[&str], directory: &Path, name: &str) -> std::process::Output {
    let this = std::env::current_exe().expect("a test has a file");
    let script = format!("{prepare}; shift; exec \"$@\"");
    let words = wrap.iter().copied().chain(["sh", "-ec", &script, "sh"]);
    let mut words = words.map(std::ffi::OsString::from);
    Command::new(words.next().expect("at least the shell"))
        .args(words)
        .arg(directory)
        .arg(this)
        .args(["--exact", name, "--nocapture"])
        .env(DIRECTORY, directory)
        .output()
        .expect("a shell")
}

pub(crate) fn assert_passed(output: &std::process::Output) {
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}\n{errors}");
}

/// How a file system of our own can be mounted here; says so when it cannot.
pub(crate) fn mounts() -> Option<Vec<&'static str>> {
    let ways = [vec!["unshare", "--user", "--map-root-user", "--mount"], vec!["unshare", "--mount"]];
    let works = |way: &Vec<&str>| {
        let mut command = Command::new(way[0]);
        command.args(&way[1..]).args(["sh", "-c", "mount -t tmpfs none /mnt"]);
        command.output().is_ok_and(|output| output.status.success())
    };
    let way = ways.into_iter().find(works);
    if way.is_none() {
        _ = writeln!(std::io::stderr(), "skipped: this machine lets nobody mount a file system in a namespace");
    }
    way
}

/// Where the work is to be done, in the second process.
pub(crate) fn place() -> Option<PathBuf> {
    std::env::var_os(DIRECTORY).map(PathBuf::from)
}

/// Appends notes to run 1 until that fails; the last acknowledged record, and why.
async fn fill(opened: &Opened, mut seq: Seq) -> (Seq, StoreError) {
    loop {
        let text: String = (0..6_000).map(|place| char::from(b'a' + (place * seq % 23) as u8)).collect();
        let entry = Entry::append(opened.epoch, after(key(1), seq, [note(&text)]));
        match opened.store.commit(entry).await {
            Ok(_) => seq += 1,
            Err(CommitError::Store(error)) => return (seq, error),
            Err(other) => panic!("{other}"),
        }
        assert!(seq < 10_000, "the disk is never full");
    }
}

/// Nothing is half written: the row, the journal and the file agree on the last acknowledged record.
async fn assert_whole(store: &Store, seq: Seq) {
    let view = store.find_run(&key(1)).await.expect("a readable store").expect("the run is there");
    let records = store.read_journal(&key(1), 0, usize::MAX).await.expect("a readable store");
    let last = records.last().expect("some records").seq;
    assert_eq!((view.seq, last, records.len() as u64), (seq, seq, seq));
    assert_eq!(store.integrity().await, Ok(()));
}

#[tokio::test]
async fn on_a_full_disk_nothing_is_half_written_and_writing_goes_on_when_there_is_room() {
    if let Some(directory) = place() {
        return on_a_small_disk(&directory).await;
    }
    let Some(way) = mounts() else { return };
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mount = "mount -t tmpfs -o size=3m none \"$1\"";
    assert_passed(&run_in(
        mount,
        &way,
        directory.path(),
        "full_disk::on_a_full_disk_nothing_is_half_written_and_writing_goes_on_when_there_is_room",
    ));
}

/// On a disk of 3 MiB.
async fn on_a_small_disk(directory: &Path) {
    let ballast = directory.join("ballast");
    std::fs::write(&ballast, vec![1; 1024 * 1024]).expect("room for the ballast");
    let opened = Store::open(&Options::new(directory), at(1)).expect("a store that opens");
    opened.store.commit(Entry::append(opened.epoch, begin(accepted(1), []))).await.expect("room for a run");
    let (seq, error) = fill(&opened, 1).await;
    let full = StoreError::Full { store: opened.store.file().display().to_string() };
    assert_eq!(error, full);
    assert_eq!(opened.store.check().await, Err(full.clone()));
    assert_whole(&opened.store, seq).await;

    std::fs::remove_file(ballast).expect("the ballast can go");
    assert_eq!(opened.store.check().await, Ok(()));
    let (more, _) = fill(&opened, seq).await;
    assert!(more > seq + 20, "only {} records fit into 1 MiB", more - seq);
    assert_whole(&opened.store, more).await;
    drop(opened);
    let again = Store::open(&Options::new(directory), at(2)).map(|opened| opened.store);
    // There may be no room to open it for writing; then the reason is the same.
    match again {
        Ok(store) => assert_whole(&store, more).await,
        Err(error) => assert_eq!(error, full),
    }
}

#[tokio::test]
async fn when_the_file_cannot_grow_nothing_is_half_written_and_writing_goes_on_when_it_can() {
    if let Some(directory) = place() {
        return with_a_limit_on_files(&directory).await;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    // No rights are needed for this: 512 KiB a file, and no signal when a write goes beyond it.
    let limit = "trap '' XFSZ; ulimit -S -f 1024";
    assert_passed(&run_in(
        limit,
        &[],
        directory.path(),
        "full_disk::when_the_file_cannot_grow_nothing_is_half_written_and_writing_goes_on_when_it_can",
    ));
}

/// With a limit on the size of files.
async fn with_a_limit_on_files(directory: &Path) {
    let opened = Store::open(&Options::new(directory), at(1)).expect("a store that opens");
    opened.store.commit(Entry::append(opened.epoch, begin(accepted(1), []))).await.expect("room for a run");
    let (seq, error) = fill(&opened, 1).await;
    assert_eq!(error, StoreError::Full { store: opened.store.file().display().to_string() });
    assert_eq!(opened.store.check().await, Err(error));
    assert_whole(&opened.store, seq).await;

    let limit = getrlimit(Resource::Fsize);
    setrlimit(Resource::Fsize, Rlimit { current: limit.maximum, ..limit }).expect("as much as is allowed");
    assert_eq!(opened.store.check().await, Ok(()));
    let entry = Entry::append(opened.epoch, after(key(1), seq, [note("on")]));
    opened.store.commit(entry).await.expect("room again");
    assert_whole(&opened.store, seq + 1).await;
}

#[tokio::test]
async fn a_file_that_may_not_be_written_is_refused_with_the_reason() {
    if let Some(directory) = place() {
        return where_nothing_may_be_written(&directory);
    }
    let name = "full_disk::a_file_that_may_not_be_written_is_refused_with_the_reason";
    let Some(way) = mounts() else { return };
    let directory = tempfile::tempdir().expect("a temporary directory");
    let read_only = "mount --bind \"$1\" \"$1\"; mount -o remount,bind,ro \"$1\"";
    assert_passed(&run_in(read_only, &way, directory.path(), name));
    let opened = Store::open(&Options::new(directory.path()), at(1)).expect("a store that opens");
    opened.store.commit(Entry::append(opened.epoch, begin(accepted(1), []))).await.expect("a run");
    opened.store.close().await.expect("an orderly end");
    assert_passed(&run_in(read_only, &way, directory.path(), name));
}

/// Where the directory is read-only.
fn where_nothing_may_be_written(directory: &Path) {
    let file = directory.join("drawloom.db").display().to_string();
    let refused = Store::open(&Options::new(directory), at(2)).err();
    assert_eq!(refused, Some(StoreError::ReadOnly { store: file }));
    let below = directory.join("below");
    let refused = Store::open(&Options::new(&below), at(2)).err();
    assert_eq!(refused, Some(StoreError::ReadOnly { store: below.display().to_string() }));
}

#[tokio::test]
async fn a_disk_that_cannot_be_read_is_not_reported_as_damage() {
    let name = "full_disk::a_disk_that_cannot_be_read_is_not_reported_as_damage";
    if let Some(directory) = place() {
        return where_reads_fail(&directory).await;
    }
    if Command::new("strace").arg("-V").output().is_err() {
        _ = writeln!(std::io::stderr(), "skipped: this machine has no strace");
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let opened = Store::open(&Options::new(directory.path()), at(1)).expect("a store that opens");
    for number in 1..=200 {
        let append = begin(accepted(number), [note(&"x".repeat(3_000))]);
        opened.store.commit(Entry::append(opened.epoch, append)).await.expect("a run");
    }
    opened.store.close().await.expect("an orderly end");
    // Opening the store takes a few reads; from the 100th on all of them fail, as on a dying disk.
    let file = directory.path().join("drawloom.db").display().to_string();
    let strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-P", &file, "-e", "inject=pread64:error=EIO:when=100+"];
    assert_passed(&run_in(":", &strace, directory.path(), name));
}

/// Where reading the file fails after a while.
async fn where_reads_fail(directory: &Path) {
    let opened = Store::open(&Options::new(directory), at(2)).expect("the first reads succeed");
    let unread = opened.store.integrity().await;
    assert!(
        matches!(&unread, Err(StoreError::Failed { detail, .. }) if detail.contains("cannot read it")),
        "{unread:?}"
    );
    for number in 1..=200 {
        let found = opened.store.read_journal(&key(number), 0, usize::MAX).await;
        assert!(!matches!(found, Err(StoreError::Corrupt { .. })), "{found:?}");
        assert!(!matches!(&found, Ok(records) if records.len() != 2), "a failed read is not an empty one: {found:?}");
    }
}
