//! Conformance suites: what each seam of `contract` promises, as plain functions over trait objects, one for each promise.
//!
//! A backend runs a suite with the suite's macro, such as `journal_suite!(open)`: every promise becomes a test with a
//! backend of its own. A new promise is one function and one line in its suite's macro; a test finds a forgotten line.

pub mod answers;
pub mod effects;
pub mod history;
pub mod journal;
pub mod key_value;
pub mod log;
pub mod records;
pub mod run_reader;
pub mod runs;
pub mod seen_runs;
pub mod waits;

use std::sync::Arc;

use drawloom_contract::{
    ids::RunKey,
    journal::{Append, CommitError, Committed, Entry, Journal, RunReader},
    record::{Epoch, Record},
    view::RunView,
};

/// A store under test: empty when a promise begins, and used by nothing else.
pub struct TestStore {
    pub journal: Arc<dyn Journal>,
    pub reader: Arc<dyn RunReader>,
    /// The epoch of its owner.
    pub epoch: Epoch,
    /// Opens the same data again, as another process would while this one still has it open.
    pub reopen: Box<dyn Fn() -> TestStore + Send + Sync>,
}

impl TestStore {
    pub async fn commit(&self, entry: Entry) -> Result<Committed, CommitError> {
        self.journal.commit(entry).await
    }

    /// Commits an append that may be refused.
    pub async fn try_append(&self, append: Append) -> Result<Committed, CommitError> {
        self.commit(Entry::append(self.epoch, append)).await
    }

    /// Commits an append that must succeed.
    pub async fn append(&self, append: Append) -> Committed {
        let key = append.key.clone();
        self.try_append(append).await.unwrap_or_else(|error| panic!("{key:?}: {error}"))
    }

    pub async fn view(&self, key: &RunKey) -> RunView {
        self.reader.find_run(key).await.expect("a readable store").expect("the run is there")
    }

    pub async fn records(&self, key: &RunKey) -> Vec<Record> {
        self.reader.read_journal(key, 0, usize::MAX).await.expect("a readable store")
    }
}

/// Makes one test of each promise of a suite. `$open` is an async function without arguments that makes a new backend, or what
/// dereferences to one.
#[macro_export]
macro_rules! suite_tests {
    ($open:expr, $suite:ident, $($promise:ident)*) => {
        $(
            #[tokio::test]
            async fn $promise() {
                $crate::suites::$suite::$promise(&*$open().await).await;
            }
        )*

        /// A suite without a line for one of its functions would not run it.
        #[test]
        fn every_promise_of_the_suite_is_run() {
            let source = $crate::suites::$suite::SOURCE;
            let written = source.lines().filter_map(|line| line.strip_prefix("pub async fn ")?.split('(').next());
            let listed = [$(stringify!($promise)),*];
            assert_eq!(written.filter(|name| !listed.contains(name)).collect::<Vec<_>>(), [""; 0]);
        }
    };
}
