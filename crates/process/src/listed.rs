//! Paths that an operator lists for commands. Each is resolved once, when the server starts: later an agent may have replaced
//! one that lies inside its volume, or a directory above it, by a link to something else.

use std::{os::fd::OwnedFd, path::PathBuf};

use rustix::{
    fs::{CWD, Mode, OFlags, ResolveFlags, openat2},
    io::Errno,
};
use serde::{Deserialize, Serialize};

/// A directory or file that commands may use, and where it was when it was resolved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedPath {
    path: PathBuf,
    real: PathBuf,
}

impl ListedPath {
    /// Follows the links on the way to `path`, for the last time. A path that does not exist is an error of every command that
    /// lists it.
    pub fn resolve(path: PathBuf) -> Self {
        let real = path.canonicalize().unwrap_or_else(|_| path.clone());
        Self { path, real }
    }

    /// `real`, which is not a link, shown at `path` where commands have mounts of their own.
    pub fn at(real: PathBuf, path: PathBuf) -> Self {
        Self { path, real }
    }

    /// As the operator wrote it.
    pub(crate) fn path(&self) -> &PathBuf {
        &self.path
    }

    /// Without links.
    pub fn real(&self) -> &PathBuf {
        &self.real
    }

    /// Opens it to name it, not to read it. Refused when a link is on the way now.
    pub(crate) fn open(&self) -> Result<OwnedFd, String> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        openat2(CWD, &self.real, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS).map_err(|error| {
            let real = self.real.display();
            match error {
                Errno::LOOP => format!(
                    "{real} was replaced by a symlink after the server started; restore it, or restart the server to \
                     use the link's target"
                ),
                error => format!("cannot access {real}: {error}"),
            }
        })
    }
}
