//! What SQLite and the file system say, in the words of the contract.

use std::{io, path::Path};

use drawloom_contract::journal::StoreError;
use rusqlite::{ErrorCode, ffi};
use rustix::process::{Resource, getrlimit};

pub(crate) type Result<T> = std::result::Result<T, Error>;

/// Why a statement failed.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Database(#[from] rusqlite::Error),
    /// A row holds what this crate never writes.
    #[error("{0}")]
    Value(String),
}

/// The largest page that a file may have.
const LARGEST_PAGE: u64 = 64 * 1024;

/// What a failure of SQLite means.
pub(crate) fn explain(path: &Path, error: &Error) -> StoreError {
    let store = path.display().to_string();
    let detail = error.to_string();
    let (code, extended) = match error {
        Error::Database(rusqlite::Error::SqliteFailure(failure, _)) => (failure.code, failure.extended_code),
        Error::Database(rusqlite::Error::SqlInputError { error: failure, .. }) => (failure.code, failure.extended_code),
        Error::Database(_) => return StoreError::Failed { store, detail },
        Error::Value(_) => return StoreError::Corrupt { store, detail },
    };
    match code {
        ErrorCode::DiskFull => StoreError::Full { store },
        // SQLite fills the index of its log page by page, so that growing it fails when there is no room for it.
        ErrorCode::SystemIoFailure if extended == ffi::SQLITE_IOERR_SHMSIZE => StoreError::Full { store },
        // SQLite does not say that the process may not make the file larger, only that it could not write.
        ErrorCode::SystemIoFailure if extended == ffi::SQLITE_IOERR_WRITE && is_at_limit(path) => {
            StoreError::Full { store }
        }
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied => StoreError::ReadOnly { store },
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => {
            let detail = format!("{detail} (`sqlite3 {store} .recover` may recover some of it)");
            StoreError::Corrupt { store, detail }
        }
        ErrorCode::CannotOpen => {
            let detail = format!("{detail}; the directory must also be writable, for the write-ahead log");
            StoreError::Failed { store, detail }
        }
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => locked(path),
        _ => StoreError::Failed { store, detail },
    }
}

/// Whether the write-ahead log could not be synced. What the kernel then still holds of it is unknown, so nobody may
/// write after it until the file was opened, and its log read, again.
pub(crate) fn is_sync_failure(error: &Error) -> bool {
    matches!(
        error,
        Error::Database(rusqlite::Error::SqliteFailure(failure, _))
            if matches!(failure.extended_code, ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_DIR_FSYNC)
    )
}

/// Whether a row would break a rule of the schema.
pub(crate) fn is_constraint(error: &Error) -> bool {
    matches!(
        error,
        Error::Database(rusqlite::Error::SqliteFailure(failure, _)) if failure.code == ErrorCode::ConstraintViolation
    )
}

/// What a failure of the file system means for `path`.
pub(crate) fn explain_io(path: &Path, doing: &str, error: &io::Error) -> StoreError {
    let store = path.display().to_string();
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            StoreError::Full { store }
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => StoreError::ReadOnly { store },
        _ => StoreError::Failed { store, detail: format!("{doing}: {error}") },
    }
}

/// Whether the file or its log is as large as this process may make one, but for a page.
fn is_at_limit(file: &Path) -> bool {
    let Some(limit) = getrlimit(Resource::Fsize).current else { return false };
    let mut log = file.as_os_str().to_owned();
    log.push("-wal");
    let is_near = |path: &Path| path.metadata().is_ok_and(|found| found.len() + LARGEST_PAGE > limit);
    is_near(file) || is_near(Path::new(&log))
}

/// Says that another process has the store.
pub(crate) fn locked(file: &Path) -> StoreError {
    StoreError::Locked { store: file.display().to_string() }
}

/// Says what happened to the store.
pub(crate) fn failed(file: &Path, detail: impl Into<String>) -> StoreError {
    StoreError::Failed { store: file.display().to_string(), detail: detail.into() }
}
