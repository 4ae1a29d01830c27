//! The suites of the seams that the store implements.

use std::{ops::Deref, sync::Arc};

use drawloom_contract::journal::Journal;
use drawloom_store::{Opened, Options, Store};
use drawloom_testkit::{
    Fault, KillJournal, Killer,
    suites::{self, TestStore},
    with_fault,
};
use tempfile::TempDir;

use crate::fixtures::at;

type Wrap = fn(Arc<dyn Journal>) -> Arc<dyn Journal>;

fn open_in(directory: Arc<TempDir>, wrap: Wrap) -> TestStore {
    let opened = Store::open(&Options::new(directory.path()), at(1)).expect("a store that opens");
    let Opened { store, epoch, .. } = opened;
    let reopen = Box::new(move || open_in(directory.clone(), wrap));
    TestStore { journal: wrap(store.clone()), reader: store, epoch, reopen }
}

async fn open() -> Box<TestStore> {
    Box::new(wrapped(|journal| journal))
}

fn wrapped(wrap: Wrap) -> TestStore {
    open_in(Arc::new(tempfile::tempdir().expect("a temporary directory")), wrap)
}

mod journal {
    drawloom_testkit::journal_suite!(super::open);
}

mod waits {
    drawloom_testkit::waits_suite!(super::open);
}

mod effects {
    drawloom_testkit::effects_suite!(super::open);
}

mod run_reader {
    drawloom_testkit::run_reader_suite!(super::open);
}

/// The journal of test processes that are killed keeps the promises of the journal behind it, while it kills nothing.
mod kill_journal {
    use super::*;

    async fn open() -> Box<TestStore> {
        Box::new(wrapped(|inner| {
            let killer =
                Killer { point: Some("never".into()), log: None, names: Arc::default(), passed: Default::default() };
            Arc::new(KillJournal { inner, killer: Arc::new(killer) })
        }))
    }

    mod journal {
        drawloom_testkit::journal_suite!(super::open);
    }

    mod waits {
        drawloom_testkit::waits_suite!(super::open);
    }
}

/// A store with its directory.
struct InDirectory {
    store: Arc<Store>,
    _directory: TempDir,
}

impl Deref for InDirectory {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.store
    }
}

async fn open_store() -> InDirectory {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let Opened { store, .. } = Store::open(&Options::new(directory.path()), at(1)).expect("a store that opens");
    InDirectory { store, _directory: directory }
}

mod answers {
    drawloom_testkit::answers_suite!(super::open_store);
}

mod key_value {
    drawloom_testkit::key_value_suite!(super::open_store);
}

mod log {
    drawloom_testkit::log_suite!(super::open_store);
}

#[tokio::test]
#[should_panic(expected = "the run is there")]
async fn the_suite_finds_a_journal_that_answers_before_it_writes() {
    let store = wrapped(|journal| with_fault(journal, Some(Fault::AnswerFirst)));
    suites::journal::what_is_committed_is_read_back_whole(&store).await;
}

#[tokio::test]
#[should_panic(expected = "right: Some(1)")]
async fn the_suite_finds_a_journal_that_starts_children_without_their_key() {
    let store = wrapped(|journal| with_fault(journal, Some(Fault::UnkeyedChildren)));
    suites::journal::an_entry_of_many_runs_is_written_whole_or_not_at_all(&store).await;
}
