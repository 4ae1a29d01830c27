//! The one writer: a thread that takes every entry that waits, writes them in one transaction and syncs once.
//!
//! Nothing is answered before the sync. An entry that may not be written leaves no trace and does not disturb its
//! neighbours; when the database fails, every entry of the group gets the error and none is half written.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use drawloom_contract::journal::{CommitError, Committed, StoreError};
use tokio::sync::{mpsc, oneshot};

use super::{
    Connection, Error, Transactions,
    checkpoint::{Checkpointer, Log},
    error::{explain, failed, is_sync_failure, locked},
    inbox::{Inbox, Next},
    mark::Mark,
    open::Synchronous,
    upgrade,
};
use crate::{
    apply::{Stopped, apply},
    prepare::Work,
    retention::{self, Removal, Removed},
    store::Shared,
    tables::{self, boots, values::Tally},
};

/// Entries that wait for the writer. When it is full, callers wait for a place.
pub(crate) const QUEUE: usize = 16_384;
/// Most entries in one group.
const GROUP_ENTRIES: usize = 1_024;
/// A group takes no further entry once it holds this many bytes.
const GROUP_BYTES: usize = 8 * 1024 * 1024;
/// With as many values that search has yet to learn, about, the writer teaches it some between groups; a search waits for the rest.
const MOST_UNINDEXED: i64 = 8_192;
/// Without work for this long, the writer updates the mark and the index.
const QUIET: Duration = Duration::from_millis(50);
/// What a step of the index adds to the log, about.
const INDEXED_BYTES: usize = 256 * 1024;

/// What the writer is asked for.
pub(crate) enum Job {
    /// Make it true.
    Commit(Box<Work>, oneshot::Sender<Answer>),
    /// Say whether writing works.
    Probe(oneshot::Sender<Result<(), StoreError>>),
    /// Let search know every value that is there, say so, and write nothing more before the searcher has begun to read or has gone:
    /// otherwise the index may be behind again by then, and the searcher would have to make one of its own.
    Index { indexed: oneshot::Sender<Result<(), StoreError>>, begun: std::sync::mpsc::Receiver<()> },
    /// Remove some of what ended long ago.
    Prune(Removal, oneshot::Sender<Result<Removed, StoreError>>),
    /// Write what was asked before, say that this boot ended well, and stop.
    Close(oneshot::Sender<Result<(), StoreError>>),
}

/// What became of an entry, and the entry itself: who made it takes it apart, which costs the writer's thread more.
pub(crate) type Answer = (Result<Committed, CommitError>, Box<Work>);

type Commit = (Box<Work>, oneshot::Sender<Answer>);

/// Runs until the queue ends (then this boot stays unclean) or `Close` comes.
pub(crate) fn run(connection: Connection, queue: mpsc::Receiver<Job>, shared: Arc<Shared>, mut mark: Mark) {
    let _panicked = PanicNotice(Arc::clone(&shared));
    let mut checkpointer = Checkpointer::new(Arc::clone(&shared));
    let mut queue = Inbox::new(queue);
    let closing = match Writer::prepare(&connection, &shared, &mut mark) {
        Ok(writer) => serve(writer, &mut queue, &mut checkpointer),
        Err(error) => {
            shared.set_failure(Some(explain(&shared.file, &error)));
            None
        }
    };
    checkpointer.stop();
    if let Some(answer) = closing {
        let closed = close(&connection, &shared);
        mark.bring_up_to_date(&connection);
        // Closed before the answer: the caller may open the file again at once.
        drop(connection);
        _ = answer.send(closed);
    }
}

fn serve(
    mut writer: Writer<'_>,
    queue: &mut Inbox<Job>,
    checkpointer: &mut Checkpointer,
) -> Option<oneshot::Sender<Result<(), StoreError>>> {
    let mut group: Vec<Commit> = Vec::new();
    let mut closing = None;
    loop {
        let first = match queue.next(writer.quiet_time()) {
            Next::Here(job) => job,
            Next::Quiet => {
                if writer.mark.is_behind() {
                    writer.mark.bring_up_to_date(writer.connection);
                }
                if writer.is_behind {
                    writer.index_some();
                    checkpointer.after_group(INDEXED_BYTES, &mut writer.log);
                }
                continue;
            }
            Next::Ended => break,
        };
        let mut size = 0;
        let mut next = Some(first);
        while let Some(job) = next.take() {
            match job {
                Job::Commit(work, answer) => {
                    size += work.size();
                    group.push((work, answer));
                }
                Job::Probe(answer) => _ = answer.send(writer.probe()),
                Job::Index { indexed, begun } => {
                    _ = indexed.send(writer.index_all());
                    // It fails when the searcher dropped its end, which says the same.
                    _ = begun.recv();
                }
                Job::Prune(removal, answer) => _ = answer.send(writer.prune(&removal)),
                Job::Close(answer) => {
                    closing = Some(answer);
                    queue.close();
                }
            }
            if group.len() < GROUP_ENTRIES && size < GROUP_BYTES {
                next = queue.here();
            }
        }
        if !group.is_empty() {
            writer.commit(&mut group);
            if writer.mark.after_group() {
                writer.mark.bring_up_to_date(writer.connection);
            }
            checkpointer.after_group(size, &mut writer.log);
            if writer.unindexed >= MOST_UNINDEXED {
                writer.index_some();
                checkpointer.after_group(INDEXED_BYTES, &mut writer.log);
            }
        }
    }
    if closing.is_some() {
        // So that those who only read find everything at once.
        _ = writer.index_all();
    }
    closing
}

/// Marks this boot as ended well, folds the log into the file, and removes what was kept in case it would not end well.
fn close(connection: &Connection, shared: &Shared) -> Result<(), StoreError> {
    let closed = boots::end(connection, shared.epoch).and_then(|()| connection.fold_log());
    closed.map_err(|error| explain(&shared.file, &error))?;
    // A store that was deleted, replaced or taken over did not end well, and its copy may be the last one.
    let is_ours = shared.files.check().is_ok() && boots::owner(connection) == Ok(Some(shared.epoch));
    if is_ours && let Err(error) = upgrade::remove_copies(&shared.file) {
        tracing::warn!(%error, "cannot remove the backup of the earlier format");
    }
    Ok(())
}

struct Writer<'c> {
    connection: &'c Connection,
    transactions: Transactions<'c>,
    writes: tables::Writes<'c>,
    log: Log<'c>,
    mark: &'c mut Mark,
    shared: &'c Shared,
    /// Set for good when a sync failed: what the disk holds is unknown until the file is opened again.
    broken: Option<StoreError>,
    /// Whether the last group failed.
    troubled: bool,
    /// Values that search has yet to learn, about.
    unindexed: i64,
    /// Whether the index is behind in any way.
    is_behind: bool,
}

type Outcome = Result<Committed, CommitError>;

impl<'c> Writer<'c> {
    fn prepare(connection: &'c Connection, shared: &'c Shared, mark: &'c mut Mark) -> Result<Self, Error> {
        let transactions = Transactions::prepare(connection)?;
        let mut writes = tables::Writes::prepare(connection)?;
        let log = Log::prepare(connection)?;
        let is_behind = !writes.words.is_done()?;
        Ok(Self {
            connection,
            transactions,
            writes,
            log,
            mark,
            shared,
            broken: None,
            troubled: false,
            unindexed: 0,
            is_behind,
        })
    }

    /// After how long without work the mark and the index are updated.
    fn quiet_time(&self) -> Option<Duration> {
        ((self.is_behind || self.mark.is_behind()) && !self.troubled && self.broken.is_none()).then_some(QUIET)
    }

    /// Indexes one batch of values. On failure the index stays behind, and the next search tries again and reports the error.
    fn index_some(&mut self) {
        _ = self.index();
    }

    /// Brings the index in step with the values.
    fn index_all(&mut self) -> Result<(), StoreError> {
        while self.is_behind {
            self.index()?;
        }
        Ok(())
    }

    fn index(&mut self) -> Result<(), StoreError> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        let indexed = self.transact_index();
        self.settle(indexed)
    }

    fn transact_index(&mut self) -> Result<(), Error> {
        self.transactions.begin()?;
        if self.writes.boots.owner()? != self.shared.epoch {
            // Another process owns the store now, and updates the index.
            self.transactions.roll_back()?;
            (self.is_behind, self.unindexed) = (false, 0);
            return Ok(());
        }
        let is_more = self.writes.words.catch_up()?;
        self.transactions.commit()?;
        self.is_behind = is_more;
        if !is_more {
            self.unindexed = 0;
        }
        Ok(())
    }

    /// Writes a group and answers each of its entries.
    fn commit(&mut self, group: &mut Vec<Commit>) {
        let outcomes = match self.write(group) {
            Ok(outcomes) => outcomes,
            // A damaged page or a value that is too large concerns one entry: the others go on without it.
            Err(error) if group.len() > 1 && !concerns_all(&error) => {
                group.iter().map(|commit| self.write_alone(commit)).collect()
            }
            Err(error) => vec![Err(CommitError::Store(error)); group.len()],
        };
        for ((work, answer), outcome) in group.drain(..).zip(outcomes) {
            if let Ok(committed) = &outcome {
                self.shared.remember(&work.definitions);
                self.shared.feeds.tell(&work, committed);
            }
            // Nobody listens when the caller dropped its future; the entry is written all the same.
            _ = answer.send((outcome, work));
        }
    }

    fn write_alone(&mut self, commit: &Commit) -> Outcome {
        let mut outcomes = self.write(std::slice::from_ref(commit)).map_err(CommitError::Store)?;
        outcomes.pop().expect("one outcome for one entry")
    }

    /// One transaction with one sync. An error means that nothing of it is written.
    fn write(&mut self, group: &[Commit]) -> Result<Vec<Outcome>, StoreError> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        let written = self.transact(group);
        self.settle(written)
    }

    /// Rolls a failed transaction back, and explains and notes how it ended.
    fn settle<T>(&mut self, done: crate::sqlite::Result<T>) -> Result<T, StoreError> {
        if let Err(error) = &done {
            self.roll_back(error);
        }
        let done = done.map_err(|error| explain(&self.shared.file, &error));
        let done = self.unless_gone(done);
        self.note(done.as_ref().err());
        done
    }

    /// What was written counts only while the files still have their names. A store that lost one of them is broken for good.
    fn unless_gone<T>(&mut self, written: Result<T, StoreError>) -> Result<T, StoreError> {
        self.shared.files.check().inspect_err(|gone| self.broken = Some(gone.clone()))?;
        written.map_err(|error| self.shared.files.explain_damage(error))
    }

    fn transact(&mut self, group: &[Commit]) -> Result<Vec<Outcome>, Error> {
        self.transactions.begin()?;
        let owner = self.writes.boots.owner()?;
        let mut outcomes = Vec::with_capacity(group.len());
        let (mut entries, mut records) = (0, 0);
        let mut tally = Tally::default();
        for (work, _) in group {
            if work.epoch != owner || owner != self.shared.epoch {
                let mine = if work.epoch == owner { self.shared.epoch } else { work.epoch };
                outcomes.push(Err(CommitError::LostOwnership { mine, current: owner }));
                continue;
            }
            outcomes.push(match apply(self.connection, &mut self.transactions, &mut self.writes, &mut tally, work) {
                Ok(committed) => {
                    entries += 1;
                    records += work.records() as u64;
                    Ok(committed)
                }
                Err(Stopped::Refused(error)) => Err(error),
                Err(Stopped::Malformed(detail)) => Err(self.shared.malformed(detail)),
                Err(Stopped::Failed(error)) => return Err(error),
            });
        }
        if entries == 0 {
            self.transactions.roll_back()?;
        } else {
            self.writes.values.settle(&tally)?;
            self.writes.logs.settle(&tally.logs)?;
            self.transactions.commit()?;
            self.unindexed += tally.waiting;
            self.is_behind |= tally.loses_or_gains_words;
            self.count(entries, records);
        }
        Ok(outcomes)
    }

    fn count(&self, entries: u64, records: u64) {
        let counters = &self.shared.counters;
        counters.commits.fetch_add(1, Ordering::Relaxed);
        counters.syncs.fetch_add(u64::from(self.shared.synchronous == Synchronous::Full), Ordering::Relaxed);
        counters.entries.fetch_add(entries, Ordering::Relaxed);
        counters.records.fetch_add(records, Ordering::Relaxed);
        counters.largest_group.fetch_max(entries, Ordering::Relaxed);
    }

    fn roll_back(&mut self, cause: &Error) {
        let undone = self.transactions.is_rolled_back();
        if is_sync_failure(cause) || !undone {
            self.broken = Some(explain(&self.shared.file, cause));
        }
    }

    /// Remembers how the last write went, for whoever asks whether the store works.
    fn note(&mut self, failure: Option<&StoreError>) {
        if let Some(error) = failure {
            tracing::error!(%error, "cannot write a group of entries");
            self.shared.set_failure(Some(error.clone()));
        } else if self.troubled {
            tracing::info!("the store is writable again");
            self.shared.set_failure(None);
        }
        self.troubled = failure.is_some();
    }

    /// Writes something and takes it back, when the last write failed.
    fn probe(&mut self) -> Result<(), StoreError> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        if !self.troubled {
            return Ok(());
        }
        let written = self.write_ballast();
        if let Err(error) = &written {
            self.roll_back(error);
        }
        let written = written.map_err(|error| explain(&self.shared.file, &error));
        let written = self.unless_gone(written);
        self.note(written.as_ref().err());
        written
    }

    fn write_ballast(&mut self) -> Result<(), Error> {
        self.transactions.begin()?;
        if self.writes.boots.owner()? != self.shared.epoch {
            // Another process will find out for itself.
            self.transactions.roll_back()?;
            return Ok(());
        }
        self.writes.blobs.insert_ballast()?;
        self.transactions.commit()?;
        self.writes.blobs.delete_ballast()
    }

    /// Removes one piece and syncs. An error means that nothing of it is removed.
    fn prune(&mut self, removal: &Removal) -> Result<Removed, StoreError> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        self.mark.expect_fewer_records();
        let removed = self.transact_removal(removal);
        self.settle(removed)?.ok_or_else(|| locked(&self.shared.file))
    }

    /// What went; nothing, when another process owns the file.
    fn transact_removal(&mut self, removal: &Removal) -> Result<Option<Removed>, Error> {
        let before = self.connection.total_changes();
        self.transactions.begin()?;
        if self.writes.boots.owner()? != self.shared.epoch {
            self.transactions.roll_back()?;
            return Ok(None);
        }
        let removed = retention::remove(self.connection, removal)?;
        if self.connection.total_changes() == before {
            self.transactions.roll_back()?;
        } else {
            self.transactions.commit()?;
            self.is_behind |= removed.values > 0;
            self.shared.counters.pruned_runs.fetch_add(removed.what.runs, Ordering::Relaxed);
        }
        Ok(Some(removed))
    }
}

/// Whether every entry would meet the same failure.
fn concerns_all(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Full { .. } | StoreError::ReadOnly { .. } | StoreError::Locked { .. } | StoreError::Gone { .. }
    )
}

/// Says so when the writer's thread ends by a panic, so that nobody waits for it or takes it for closed.
struct PanicNotice(Arc<Shared>);

impl Drop for PanicNotice {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let detail = "the writer thread stopped unexpectedly; acknowledged writes are safe";
            self.0.set_failure(Some(failed(&self.0.file, detail)));
        }
    }
}
