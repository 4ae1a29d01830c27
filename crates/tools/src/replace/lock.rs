//! One change of a file at a time: calls that plan on what the file is wait for each other, in this whole process.

use std::{
    collections::HashMap,
    ffi::OsString,
    path::{Path, PathBuf},
    sync::{Arc, LazyLock, Mutex, PoisonError, Weak},
};

use cap_std::fs::MetadataExt as _;
use drawloom_contract::tool::ToolError;
use tokio::sync::OwnedMutexGuard;

use super::real_path;
use crate::files::{Opened, failed};

/// A file that is or may be there: the directory that holds the first part of its path that is not there yet, and the rest.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    device: u64,
    directory: u64,
    name: PathBuf,
}

/// The locks that are held or waited for.
static HELD: LazyLock<Mutex<HashMap<Key, Weak<tokio::sync::Mutex<()>>>>> = LazyLock::new(Mutex::default);

/// What to lock for this file: the same for every path and volume that leads to it.
pub(super) fn key(opened: &Opened) -> Result<Key, ToolError> {
    let path = real_path(opened)?;
    let mut above = path.parent().unwrap_or(Path::new(""));
    let mut rest: Vec<OsString> = path.file_name().map(Into::into).into_iter().collect();
    loop {
        let here = if above.as_os_str().is_empty() { Path::new(".") } else { above };
        match opened.dir.metadata(here) {
            Ok(metadata) => {
                let name = rest.iter().rev().collect();
                return Ok(Key { device: metadata.dev(), directory: metadata.ino(), name });
            }
            Err(error) => match (error.kind(), above.parent(), above.file_name()) {
                (std::io::ErrorKind::NotFound, Some(parent), Some(name)) => {
                    rest.push(name.to_owned());
                    above = parent;
                }
                _ => return Err(failed(&path, &error)),
            },
        }
    }
}

/// Waits until no other call changes this file.
pub(super) async fn hold(key: Key) -> OwnedMutexGuard<()> {
    let lock = {
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|_, lock| lock.strong_count() > 0);
        let known = held.get(&key).and_then(Weak::upgrade);
        known.unwrap_or_else(|| {
            let lock = Arc::default();
            held.insert(key, Arc::downgrade(&lock));
            lock
        })
    };
    lock.lock_owned().await
}
