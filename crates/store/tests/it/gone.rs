//! A store whose files are deleted or replaced while it is open says so, and pretends nothing.

use std::{fs, path::Path};

use drawloom_contract::{
    failure::Explain as _,
    journal::{Entry, Journal as _, RunReader as _},
};

use crate::fixtures::{Bench, accepted, begin, key};

type Loss = (&'static str, fn(&Path));

/// Ways to lose a store that is open.
fn losses() -> Vec<Loss> {
    fn beside(file: &Path, ending: &str) -> std::path::PathBuf {
        let mut name = file.as_os_str().to_owned();
        name.push(ending);
        name.into()
    }
    vec![
        ("the file is deleted", |file| fs::remove_file(file).expect("it is there")),
        ("the log is deleted", |file| fs::remove_file(beside(file, "-wal")).expect("it is there")),
        ("the log's index is deleted", |file| fs::remove_file(beside(file, "-shm")).expect("it is there")),
        ("the file is replaced by a copy", |file| {
            fs::copy(file, beside(file, ".copy")).expect("a copy");
            fs::rename(beside(file, ".copy"), file).expect("the copy has its name");
        }),
        ("the log is replaced by an empty one", |file| {
            fs::write(beside(file, ".empty"), "").expect("a file");
            fs::rename(beside(file, ".empty"), beside(file, "-wal")).expect("it has its name");
        }),
        ("the directory is deleted", |file| fs::remove_dir_all(file.parent().expect("a directory")).expect("deleted")),
        ("the directory is renamed and made again", |file| {
            let directory = file.parent().expect("a directory");
            fs::rename(directory, directory.with_extension("old")).expect("renamed");
            fs::create_dir(directory).expect("made again");
        }),
    ]
}

#[tokio::test]
async fn a_store_that_is_deleted_or_replaced_acknowledges_nothing_more() {
    for (how, lose) in losses() {
        let bench = Bench::new();
        bench.append(begin(accepted(1), [])).await;
        lose(bench.store.file());
        let read = bench.store.find_run(&key(1)).await.map(|_| ());
        assert_eq!(read.map_err(|error| error.code()), Err("store_gone"), "{how}: a read");
        for number in 2..4 {
            let entry = Entry::append(bench.epoch, begin(accepted(number), []));
            let answer = bench.store.commit(entry).await.map(|_| ());
            assert_eq!(answer.map_err(|error| error.code()), Err("store_gone"), "{how}: a commit");
        }
        assert_eq!(bench.store.check().await.map_err(|error| error.code()), Err("store_gone"), "{how}: its health");
    }
}

#[tokio::test]
async fn a_store_that_is_still_there_goes_on_through_checkpoints_and_backups() {
    let bench = Bench::new();
    for number in 1..20 {
        bench.append(begin(accepted(number), [])).await;
        let copy = bench.directory.path().join(format!("copy-{number}"));
        drawloom_store::backup(bench.directory.path(), &copy).expect("a backup");
    }
    assert_eq!(bench.store.check().await, Ok(()));
}
