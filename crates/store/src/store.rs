//! The store: one writer, a few readers, and what they share.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread::JoinHandle,
};

use async_trait::async_trait;
use drawloom_contract::{
    ids::{Digest, Tenant},
    journal::{CommitError, Committed, Entry, Journal, StoreError},
    record::Epoch,
    time::Timestamp,
};
use tokio::sync::{mpsc, oneshot};

use crate::{
    feeds::Feeds,
    prepare::{Pinned, Unfit, prepare},
    sqlite::{
        Connection, Depth,
        error::{explain_io, failed, locked},
        files::Files,
        mark::Mark,
        open::{self, Found, Opened, Options, Synchronous},
        readers::Readers,
        writer::{self, Job},
    },
    tables::boots,
};

/// Definitions that are remembered as stored; when there are more, the list starts again.
const REMEMBERED: usize = 4_096;

/// The journal and everything derived from it, in one SQLite file.
pub struct Store {
    pub(crate) shared: Arc<Shared>,
    pub(crate) queue: mpsc::Sender<Job>,
    writer: Mutex<Option<JoinHandle<()>>>,
    pub(crate) readers: Arc<Readers>,
    is_read_only: bool,
}

/// What the store did since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Groups of entries that were committed.
    pub commits: u64,
    /// Groups whose commit waited for a real sync: all of them, unless the store was opened without.
    pub syncs: u64,
    /// Entries that were written.
    pub entries: u64,
    /// Records that were written.
    pub records: u64,
    /// Most entries in one group.
    pub largest_group: u64,
    /// Runs that were pruned.
    pub pruned_runs: u64,
}

/// What the writer, the readers and the store's owner share.
pub(crate) struct Shared {
    pub(crate) file: PathBuf,
    pub(crate) synchronous: Synchronous,
    pub(crate) epoch: Epoch,
    pub(crate) files: Arc<Files>,
    pub(crate) counters: Counters,
    pub(crate) feeds: Feeds,
    /// Why the last write failed, until one succeeds.
    failure: Mutex<Option<StoreError>>,
    /// Definitions that the file holds.
    definitions: Mutex<HashSet<(Tenant, Digest)>>,
}

#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) commits: AtomicU64,
    pub(crate) syncs: AtomicU64,
    pub(crate) entries: AtomicU64,
    pub(crate) records: AtomicU64,
    pub(crate) largest_group: AtomicU64,
    pub(crate) pruned_runs: AtomicU64,
}

impl Shared {
    fn new(file: PathBuf, files: Files, synchronous: Synchronous, epoch: Epoch) -> Self {
        Self {
            file,
            files: Arc::new(files),
            synchronous,
            epoch,
            counters: Counters::default(),
            feeds: Feeds::default(),
            failure: Mutex::default(),
            definitions: Mutex::default(),
        }
    }

    pub(crate) fn set_failure(&self, failure: Option<StoreError>) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
    }

    pub(crate) fn remember(&self, stored: &[Pinned]) {
        if stored.is_empty() {
            return;
        }
        let mut definitions = self.definitions.lock().unwrap_or_else(PoisonError::into_inner);
        if definitions.len() + stored.len() > REMEMBERED {
            definitions.clear();
        }
        definitions.extend(stored.iter().map(|pinned| (pinned.tenant.clone(), pinned.digest)));
    }

    pub(crate) fn malformed(&self, detail: String) -> CommitError {
        CommitError::Store(failed(&self.file, detail))
    }

    fn failure(&self) -> Option<StoreError> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn is_known(&self, tenant: &Tenant, digest: &Digest) -> bool {
        let definitions = self.definitions.lock().unwrap_or_else(PoisonError::into_inner);
        definitions.contains(&(tenant.clone(), *digest))
    }
}

impl Store {
    /// Opens the store in a directory, creating both when they are missing, and raises the boot epoch: whoever had it
    /// open before can write nothing from here on. This boot counts as unclean until [`Store::close`].
    pub fn open(options: &Options, now: Timestamp) -> Result<Opened, StoreError> {
        open::open(options, now)
    }

    /// Opens the store of a directory that another process may own, for reading only. Every write is refused.
    pub fn read(directory: &Path) -> Result<Found, StoreError> {
        open::open_to_read(directory)
    }

    /// A store that reads and cannot write. It keeps `connection`: while that is open, the owner does not remove the log.
    pub(crate) fn read_only(connection: Connection, file: PathBuf) -> Result<Self, StoreError> {
        let files =
            Files::of_reader(&file).map_err(|error| explain_io(&file, "cannot read the store's metadata", &error))?;
        let refusal = failed(&file, "the store was opened read-only");
        let shared = Arc::new(Shared {
            failure: Mutex::new(Some(refusal)),
            ..Shared::new(file, files, Synchronous::Full, Epoch::default())
        });
        let (queue, _) = mpsc::channel(1);
        let readers = Arc::new(Readers::new(shared.file.clone(), Arc::clone(&shared.files)));
        readers.keep(connection);
        Ok(Self { shared, queue, writer: Mutex::new(None), readers, is_read_only: true })
    }

    pub(crate) fn start(
        connection: Connection,
        file: PathBuf,
        synchronous: Synchronous,
        epoch: Epoch,
        mark: Mark,
    ) -> Result<Self, StoreError> {
        let files = Files::of(&file).map_err(|error| explain_io(&file, "cannot read the store's metadata", &error))?;
        let shared = Arc::new(Shared::new(file, files, synchronous, epoch));
        let (queue, jobs) = mpsc::channel(writer::QUEUE);
        let writers = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("store writer".into())
            .spawn(move || writer::run(connection, jobs, writers, mark))
            .map_err(|error| explain_io(&shared.file, "cannot start the writer thread", &error))?;
        let readers = Arc::new(Readers::new(shared.file.clone(), Arc::clone(&shared.files)));
        Ok(Self { shared, queue, writer: Mutex::new(Some(thread)), readers, is_read_only: false })
    }

    /// Writes what was asked before, marks this boot as clean and ends the store's threads. Whatever is asked after it
    /// is answered with [`StoreError::Closed`].
    pub async fn close(&self) -> Result<(), StoreError> {
        // Readers first: the log can be folded whole only when nobody reads.
        self.readers.close().await;
        if self.is_read_only {
            return Ok(());
        }
        let (answer, closed) = oneshot::channel();
        self.queue.send(Job::Close(answer)).await.map_err(|_| self.gone())?;
        let closed = closed.await.map_err(|_| self.gone())?;
        let thread = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
        closed
    }

    /// What the store did since it was opened.
    pub fn stats(&self) -> Stats {
        let counters = &self.shared.counters;
        Stats {
            commits: counters.commits.load(Ordering::Relaxed),
            syncs: counters.syncs.load(Ordering::Relaxed),
            entries: counters.entries.load(Ordering::Relaxed),
            records: counters.records.load(Ordering::Relaxed),
            largest_group: counters.largest_group.load(Ordering::Relaxed),
            pruned_runs: counters.pruned_runs.load(Ordering::Relaxed),
        }
    }

    /// Whether the store can be read and written, and is ours. After a failed write this tries
    /// another, of 64 KiB, and takes it back.
    pub async fn check(&self) -> Result<(), StoreError> {
        if self.queue.is_closed() {
            return Err(self.gone());
        }
        if self.shared.failure().is_some() {
            let (answer, probed) = oneshot::channel();
            self.queue.send(Job::Probe(answer)).await.map_err(|_| self.gone())?;
            probed.await.map_err(|_| self.gone())??;
        }
        let owner = self.readers.read(boots::owner).await?;
        if owner != Some(self.shared.epoch) {
            return Err(locked(self.file()));
        }
        Ok(())
    }

    /// Whether the whole file is in order; takes as long as reading it.
    pub async fn integrity(&self) -> Result<(), StoreError> {
        self.readers.read(|connection| connection.check(Depth::Pages)).await
    }

    /// What this process writes under.
    pub(crate) fn epoch(&self) -> Epoch {
        self.shared.epoch
    }

    /// The store's file.
    pub fn file(&self) -> &Path {
        &self.shared.file
    }

    /// Why the writer does not answer.
    pub(crate) fn gone(&self) -> StoreError {
        self.shared.failure().unwrap_or(StoreError::Closed)
    }
}

#[async_trait]
impl Journal for Store {
    async fn commit(&self, entry: Entry) -> Result<Committed, CommitError> {
        let work =
            prepare(entry, |tenant, digest| self.shared.is_known(tenant, digest)).map_err(|unfit| match unfit {
                Unfit::Malformed(detail) => self.shared.malformed(detail),
                Unfit::Refused(error) => CommitError::Refused(error),
            })?;
        let (answer, committed) = oneshot::channel();
        self.queue.send(Job::Commit(Box::new(work), answer)).await.map_err(|_| CommitError::Store(self.gone()))?;
        let (outcome, _work) = committed.await.map_err(|_| CommitError::Store(self.gone()))?;
        outcome
    }
}
