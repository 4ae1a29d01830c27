//! Stores for tests; records and entries come from the suites.

use std::sync::Arc;

use drawloom_contract::{
    ids::RunKey,
    journal::{Append, CommitError, Committed, Entry, Journal as _, RunReader as _},
    record::{Epoch, Record},
    view::RunView,
};
use drawloom_store::{Opened, Options, Store};
pub(crate) use drawloom_testkit::suites::records::*;
use tempfile::TempDir;

/// A store in a directory of its own, for one boot.
pub(crate) struct Bench {
    pub(crate) store: Arc<Store>,
    pub(crate) epoch: Epoch,
    pub(crate) directory: TempDir,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let Opened { store, epoch, .. } = open(&directory);
        Self { store, epoch, directory }
    }

    pub(crate) async fn commit(&self, entry: Entry) -> Result<Committed, CommitError> {
        self.store.commit(entry).await
    }

    /// Commits an append that must succeed.
    pub(crate) async fn append(&self, append: Append) -> Committed {
        let key = append.key.clone();
        self.commit(Entry::append(self.epoch, append)).await.unwrap_or_else(|error| panic!("{key:?}: {error}"))
    }

    pub(crate) async fn view(&self, key: &RunKey) -> RunView {
        self.store.find_run(key).await.expect("a readable store").expect("the run is there")
    }

    pub(crate) async fn records(&self, key: &RunKey) -> Vec<Record> {
        self.store.read_journal(key, 0, usize::MAX).await.expect("a readable store")
    }
}

pub(crate) fn open(directory: &TempDir) -> Opened {
    Store::open(&Options::new(directory.path()), at(1)).expect("a store that opens")
}
