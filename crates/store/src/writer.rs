//! The one writer: a thread that takes every entry that waits, writes them in one transaction and syncs once.
//!
//! Nothing is answered before the sync. An entry that may not be written leaves no trace and does not disturb its
//! neighbours; when the database fails, every entry of the group gets the error and none is half written.

mod apply;
mod prune;
mod statements;

use std::sync::{Arc, atomic::Ordering};

use drawloom_contract::journal::{CommitError, Committed, StoreError};
use rusqlite::{Connection, Error};
use tokio::sync::{mpsc, oneshot};

use crate::{
    checkpoint::Checkpointer,
    error::{explain, is_sync_failure},
    open::Synchronous,
    prepare::Work,
    prune::{Removal, Removed},
    sql::{Bound, integer, natural},
    store::Shared,
};
use apply::{Stopped, apply};
use statements::Statements;

/// Entries that wait for the writer; whoever comes then waits for a place.
pub(crate) const QUEUE: usize = 16_384;
/// Most entries in one group.
const GROUP_ENTRIES: usize = 1_024;
/// A group takes no further entry once it holds this many bytes.
const GROUP_BYTES: usize = 8 * 1024 * 1024;

/// What the writer is asked for.
pub(crate) enum Job {
    /// Make it true.
    Commit(Box<Work>, oneshot::Sender<Result<Committed, CommitError>>),
    /// Say whether writing works.
    Probe(oneshot::Sender<Result<(), StoreError>>),
    /// Remove some of what ended long ago.
    Prune(Removal, oneshot::Sender<Result<Removed, StoreError>>),
    /// Write what was asked before, say that this boot ended well, and stop.
    Close(oneshot::Sender<Result<(), StoreError>>),
}

type Commit = (Box<Work>, oneshot::Sender<Result<Committed, CommitError>>);

/// Runs until the queue ends (then this boot stays unclean) or `Close` comes.
pub(crate) fn run(connection: Connection, mut queue: mpsc::Receiver<Job>, shared: Arc<Shared>) {
    let _panicked = PanicNotice(Arc::clone(&shared));
    let mut checkpointer = Checkpointer::new(Arc::clone(&shared));
    let closing = match Statements::prepare(&connection) {
        Ok(statements) => {
            let writer = Writer { connection: &connection, statements, shared: &shared, broken: None, troubled: false };
            serve(writer, &mut queue, &mut checkpointer)
        }
        Err(error) => {
            shared.set_failure(Some(explain(&shared.file, &error)));
            None
        }
    };
    checkpointer.stop();
    if let Some(answer) = closing {
        let closed = close(&connection, &shared).map_err(|error| explain(&shared.file, &error));
        // Closed before the answer: the caller may open the file again at once.
        drop(connection);
        _ = answer.send(closed);
    }
}

fn serve(
    mut writer: Writer<'_>,
    queue: &mut mpsc::Receiver<Job>,
    checkpointer: &mut Checkpointer,
) -> Option<oneshot::Sender<Result<(), StoreError>>> {
    let mut group: Vec<Commit> = Vec::new();
    let mut closing = None;
    while let Some(first) = queue.blocking_recv() {
        let mut size = 0;
        let mut next = Some(first);
        while let Some(job) = next.take() {
            match job {
                Job::Commit(work, answer) => {
                    size += work.size();
                    group.push((work, answer));
                }
                Job::Probe(answer) => _ = answer.send(writer.probe()),
                Job::Prune(removal, answer) => _ = answer.send(writer.prune(&removal)),
                Job::Close(answer) => {
                    closing = Some(answer);
                    queue.close();
                }
            }
            if group.len() < GROUP_ENTRIES && size < GROUP_BYTES {
                next = queue.try_recv().ok();
            }
        }
        if !group.is_empty() {
            writer.commit(&mut group);
            checkpointer.after_group(size, &mut writer.statements.log_size, &mut writer.statements.checkpoint);
        }
    }
    closing
}

/// Marks this boot as ended well and folds the log into the file.
fn close(connection: &Connection, shared: &Shared) -> Result<(), Error> {
    let epoch = integer(shared.epoch);
    Bound::new(connection, "UPDATE boots SET clean = 1 WHERE epoch = $1")?.execute(&[&epoch])?;
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
}

struct Writer<'c> {
    connection: &'c Connection,
    statements: Statements<'c>,
    shared: &'c Shared,
    /// Set for good when a sync failed: what the disk holds is unknown until the file is opened again.
    broken: Option<StoreError>,
    /// Whether the last group failed.
    troubled: bool,
}

type Outcome = Result<Committed, CommitError>;

impl Writer<'_> {
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
            if outcome.is_ok() {
                self.shared.remember(&work.definitions);
            }
            // Nobody listens when the caller dropped its future; the entry is written all the same.
            _ = answer.send(outcome);
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
        if let Err(error) = &written {
            self.roll_back(error);
        }
        let written = written.map_err(|error| explain(&self.shared.file, &error));
        let written = self.unless_gone(written);
        self.note(written.as_ref().err());
        written
    }

    /// What was written counts only while the files still have their names. A store that lost one of them is broken for good.
    fn unless_gone<T>(&mut self, written: Result<T, StoreError>) -> Result<T, StoreError> {
        self.shared.files.check().inspect_err(|gone| self.broken = Some(gone.clone()))?;
        written.map_err(|error| self.shared.files.explain_damage(error))
    }

    fn transact(&mut self, group: &[Commit]) -> Result<Vec<Outcome>, Error> {
        self.statements.begin.execute(&[])?;
        let owner = self.owner()?;
        let mut outcomes = Vec::with_capacity(group.len());
        let (mut entries, mut records) = (0, 0);
        for (work, _) in group {
            if work.epoch != owner || owner != self.shared.epoch {
                let mine = if work.epoch == owner { self.shared.epoch } else { work.epoch };
                outcomes.push(Err(CommitError::LostOwnership { mine, current: owner }));
                continue;
            }
            outcomes.push(match apply(self.connection, &mut self.statements, work) {
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
            self.statements.rollback.execute(&[])?;
        } else {
            self.statements.commit.execute(&[])?;
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
        // SQLite ends the transaction by itself after some failures.
        let undone = self.connection.is_autocommit() || self.statements.rollback.execute(&[]).is_ok();
        if is_sync_failure(cause) || !undone {
            self.broken = Some(explain(&self.shared.file, cause));
        }
    }

    /// Remembers how the last write went, for whoever asks whether the store works.
    fn note(&mut self, failure: Option<&StoreError>) {
        if let Some(error) = failure {
            tracing::error!(%error, "a group of entries was not written");
            self.shared.set_failure(Some(error.clone()));
        } else if self.troubled {
            tracing::info!("the store can be written again");
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
        self.statements.begin.execute(&[])?;
        if self.owner()? != self.shared.epoch {
            // Another process will find out for itself.
            self.statements.rollback.execute(&[])?;
            return Ok(());
        }
        self.statements.insert_ballast.execute(&[])?;
        self.statements.commit.execute(&[])?;
        self.statements.delete_ballast.execute(&[])?;
        Ok(())
    }

    /// The epoch that owns the file.
    fn owner(&mut self) -> Result<u64, Error> {
        let owner = self.statements.owner.first(&[], |row| row.get::<_, i64>(0))?;
        Ok(natural(owner.unwrap_or_default()))
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
            let file = self.0.file.display().to_string();
            let detail = "the writer stopped unexpectedly; what was acknowledged is safe".into();
            self.0.set_failure(Some(StoreError::Failed { file, detail }));
        }
    }
}
