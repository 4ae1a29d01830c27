//! The copy of a store that is made before its format changes.
//!
//! It stays until the first clean stop after that, so that the version before can be used again: with the copy in place of
//! the store, or restored like a backup.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

use drawloom_contract::journal::StoreError;
use rustix::{
    fs::statvfs,
    process::{Resource, getrlimit},
};

use super::{
    Connection,
    backup::{Partial, sync_directory},
    error::{explain, explain_io},
    progress,
};
use crate::tables;

/// Copies the store, whose format is `found`, beside itself. An earlier copy of the same name is replaced.
pub(super) fn copy(connection: &Connection, file: &Path, found: u32) -> Result<(), StoreError> {
    let (known, size) = (tables::format(), connection.size().map_err(|error| explain(file, &error))?);
    let no_room = || StoreError::NoRoomForCopy { store: file.display().to_string(), bytes: size };
    let target = copy_before(file, known);
    // A copy that fails half way would fill the disk for other processes meanwhile.
    let has_room = statvfs(file).is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) >= size);
    let may_be_as_large = getrlimit(Resource::Fsize).current.is_none_or(|limit| limit >= size);
    if !has_room || !may_be_as_large {
        return Err(no_room());
    }
    let name = with_ending(&target, ".part");
    let part = Partial::create(name.clone())?;
    let report = |seconds| {
        let copied = name.metadata().map(|found| found.len()).unwrap_or_default();
        tracing::info!(found, known, copied, size, seconds, "backing up the store before upgrading its format");
    };
    let copied = progress::report(report, || part.fill(connection)).and_then(|()| part.replace(&target));
    copied.map_err(|error| if let StoreError::Full { .. } = error { no_room() } else { error })
}

/// Removes the copies of earlier formats.
pub(super) fn remove_copies(file: &Path) -> Result<(), StoreError> {
    let mut is_changed = false;
    for format in 1..=tables::format() {
        let copy = copy_before(file, format);
        match fs::remove_file(&copy) {
            Ok(()) => is_changed = true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(explain_io(&copy, "cannot remove the backup of an earlier format", &error)),
        }
    }
    if is_changed { sync_directory(file) } else { Ok(()) }
}

fn copy_before(file: &Path, format: u32) -> PathBuf {
    with_ending(file, &format!(".before-format{format}"))
}

fn with_ending(file: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(file);
    name.push(ending);
    PathBuf::from(name)
}
