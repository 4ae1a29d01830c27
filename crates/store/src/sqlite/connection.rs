//! Connections to the store's file.

use std::{path::Path, time::Duration};

use rusqlite::OpenFlags;

use super::{Error, Result, open::Synchronous};

/// Another connection holds the file only for moments.
const BUSY: Duration = Duration::from_secs(5);
/// The log's file keeps this size for reuse after it was folded.
const KEPT_LOG: i64 = 64 * 1024 * 1024;
/// The writer's page cache, in KiB.
const WRITER_CACHE: i64 = 8 * 1024;
/// A reader's page cache, in KiB: the kernel keeps the file's pages anyway.
const READER_CACHE: i64 = 512;
/// Statements that a connection keeps prepared besides those that are in use.
const KEPT_STATEMENTS: usize = 64;

/// How closely a file is looked at.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Depth {
    /// Every page.
    Pages,
    /// Every page, and every index against its table.
    Indexes,
}

/// A connection to a store.
pub(crate) struct Connection(pub(super) rusqlite::Connection);

impl Connection {
    /// Opens the file for writing, and makes it when it is missing.
    pub(crate) fn open(file: &Path, synchronous: Synchronous) -> Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = rusqlite::Connection::open_with_flags(file, flags)?;
        connection.busy_timeout(BUSY)?;
        connection.set_prepared_statement_cache_capacity(KEPT_STATEMENTS);
        let synchronous = match synchronous {
            Synchronous::Full => "FULL",
            Synchronous::Off => "OFF",
        };
        // Checkpoints are the checkpointer's; temporary things stay in memory, so that a full disk fails only in the log.
        connection.execute_batch(&format!(
            "PRAGMA synchronous = {synchronous}; PRAGMA wal_autocheckpoint = 0; PRAGMA journal_size_limit = {KEPT_LOG}; \
             PRAGMA cache_size = -{WRITER_CACHE}; PRAGMA temp_store = MEMORY; PRAGMA foreign_keys = OFF;"
        ))?;
        Ok(Self(connection))
    }

    /// Opens the file for reading only.
    pub(crate) fn open_to_read(file: &Path) -> Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = rusqlite::Connection::open_with_flags(file, flags)?;
        connection.busy_timeout(BUSY)?;
        connection.set_prepared_statement_cache_capacity(KEPT_STATEMENTS);
        connection.execute_batch(&format!("PRAGMA cache_size = -{READER_CACHE}; PRAGMA temp_store = MEMORY;"))?;
        Ok(Self(connection))
    }

    #[cfg(test)]
    pub(crate) fn in_memory() -> Self {
        Self(rusqlite::Connection::open_in_memory().expect("memory can be opened"))
    }

    /// Runs statements without parameters.
    pub(crate) fn run(&self, texts: &str) -> Result<()> {
        Ok(self.0.execute_batch(texts)?)
    }

    /// The number in the file that says its format.
    pub(crate) fn format(&self) -> Result<u32> {
        Ok(self.0.query_row("PRAGMA user_version", [], |row| row.get(0))?)
    }

    /// The bytes of all pages.
    pub(crate) fn size(&self) -> Result<u64> {
        let size = self
            .prepare("SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()")?
            .first(&[], |row| row.get(0))?;
        Ok(size.unwrap_or_default())
    }

    /// Keeps a write-ahead log beside the file from here on.
    pub(crate) fn keep_log(&self) -> Result<()> {
        Ok(self.0.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?)
    }

    /// Says what is wrong with the file. Takes as long as reading it.
    pub(crate) fn check(&self, depth: Depth) -> Result<()> {
        let text = match depth {
            Depth::Pages => "PRAGMA quick_check",
            Depth::Indexes => "PRAGMA integrity_check",
        };
        let problems: Vec<String> = self.prepare(text)?.all(&[], |row| row.get(0))?;
        if problems == ["ok"] { Ok(()) } else { Err(Error::Value(problems.join("; "))) }
    }

    /// Folds the whole log into the file and empties it, unless another connection reads.
    pub(crate) fn fold_log(&self) -> Result<()> {
        Ok(self.0.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?)
    }

    /// The integer key of the row that was inserted last.
    pub(crate) fn last_insert_id(&self) -> u64 {
        u64::try_from(self.0.last_insert_rowid()).unwrap_or_default()
    }

    /// Rows that were changed through this connection.
    pub(crate) fn total_changes(&self) -> u64 {
        self.0.total_changes()
    }

    pub(crate) fn is_in_transaction(&self) -> bool {
        !self.0.is_autocommit()
    }
}
