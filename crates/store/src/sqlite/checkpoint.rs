//! Checkpoints: the write-ahead log folded into the file, off the path of commits.
//!
//! A thread copies what the log has gained while commits go on. Under steady load such a pass never reaches the log's
//! end, and a log starts again at its beginning only when all of it is in the file; so when it has grown long, the
//! writer copies the rest itself between two groups, right after a pass, when the rest is short.

use std::{
    sync::{Arc, mpsc},
    thread::JoinHandle,
};

use super::{Connection, Error, Result, Statement, error::explain};
use crate::store::Shared;

/// Bytes of the log in one frame, about.
const FRAME: i64 = 4096;
/// Frames that the log gains before a pass begins: 64 MiB. A pass makes syncs slow while it lasts, so passes are few, and
/// a page that changed often since the last one is copied once.
const PASS: i64 = 64 * 1024 * 1024 / FRAME;
/// The writer folds what is left when the log is longer than this, 128 MiB, and little is left.
const LONG: i64 = 128 * 1024 * 1024 / FRAME;
/// What is little: 4 MiB.
const LITTLE: i64 = 4 * 1024 * 1024 / FRAME;
/// The writer folds all that is left when the log is longer than this, 384 MiB, however much it is.
const TOO_LONG: i64 = 384 * 1024 * 1024 / FRAME;
/// The log is measured again after about this many bytes.
const MEASURE: usize = 1024 * 1024;
/// What a group adds to the log besides its content: pages are written whole.
const GROUP_PAGES: usize = 32 * 1024;

/// The write-ahead log, as the writer sees it.
pub(crate) struct Log<'c> {
    size: Statement<'c>,
    fold: Statement<'c>,
}

impl<'c> Log<'c> {
    pub(crate) fn prepare(connection: &'c Connection) -> Result<Self> {
        let size = connection.prepare("PRAGMA wal_checkpoint(NOOP)")?;
        Ok(Self { size, fold: connection.prepare("PRAGMA wal_checkpoint(PASSIVE)")? })
    }

    /// How long it is, in frames, and how many of them are in the file.
    fn measure(&mut self) -> Result<(i64, i64)> {
        Ok(self.size.first(&[], |row| Ok((row.get(1)?, row.get(2)?)))?.unwrap_or_default())
    }

    /// Copies into the file what readers let it.
    fn fold(&mut self) -> Result<()> {
        self.fold.first(&[], |_| Ok(())).map(drop)
    }
}

/// The writer's side of checkpoints.
pub(crate) struct Checkpointer {
    shared: Arc<Shared>,
    /// Bytes written since the log was measured.
    unmeasured: usize,
    thread: Option<(mpsc::SyncSender<()>, JoinHandle<()>)>,
}

impl Checkpointer {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, unmeasured: 0, thread: None }
    }

    /// Looks after the log when a group of about `written` bytes was committed.
    pub(crate) fn after_group(&mut self, written: usize, log: &mut Log<'_>) {
        self.unmeasured += written + GROUP_PAGES;
        if self.unmeasured < MEASURE {
            return;
        }
        self.unmeasured = 0;
        let (length, folded) = match log.measure() {
            Ok(measured) => measured,
            Err(error) => return warn(&self.shared, &error),
        };
        let left = length - folded;
        if length > TOO_LONG || (length > LONG && left < LITTLE) {
            if let Err(error) = log.fold() {
                warn(&self.shared, &error);
            }
        } else if left > PASS || length > LONG {
            self.begin_pass();
        }
    }

    /// Ends the thread, after the pass that it is at.
    pub(crate) fn stop(self) {
        if let Some((requests, thread)) = self.thread {
            drop(requests);
            _ = thread.join();
        }
    }

    fn begin_pass(&mut self) {
        if self.thread.is_none() {
            let (requests, received) = mpsc::sync_channel(1);
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::Builder::new()
                .name("checkpointer".into())
                .spawn(move || received.iter().for_each(|()| pass(&shared)));
            match thread {
                Ok(thread) => self.thread = Some((requests, thread)),
                Err(error) => return tracing::warn!(%error, "cannot start the checkpoint thread"),
            }
        }
        if let Some((requests, _)) = &self.thread {
            // A request that waits already is as good.
            _ = requests.try_send(());
        }
    }
}

fn pass(shared: &Shared) {
    if shared.files.check().is_err() {
        // The writer says so.
        return;
    }
    // A connection of its own each time: a pass is rare, and an idle connection would hold memory.
    let folded = Connection::open(&shared.file, shared.synchronous)
        .and_then(|connection| Log::prepare(&connection).and_then(|mut log| log.fold()));
    if let Err(error) = folded {
        warn(shared, &error);
    }
}

fn warn(shared: &Shared, error: &Error) {
    let error = explain(&shared.file, error);
    tracing::warn!(%error, "checkpoint failed; the write-ahead log grows until one succeeds");
}
