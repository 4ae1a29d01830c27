//! The lock file of a command: held while the command, or anything that it started, may still run.
//!
//! The launcher takes it before the command starts, and the kernel releases it when the launcher has ended. So a
//! restarted drawloom can wait until the old command can have no effect any more.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use drawloom_contract::time::Clock;
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};

/// How often a lock that is held is tried again. The kernel sends no event when another process releases one.
const AGAIN: Duration = Duration::from_millis(20);

/// Whether a command of an earlier process may still run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remains {
    /// Nothing of it runs.
    Nothing,
    /// It did not end in the time given.
    Running,
}

/// The lock file of the command with this temporary directory.
pub(crate) fn path(temporary: &Path) -> PathBuf {
    let mut name = temporary.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}

/// Holds the lock together with other parts of the same launcher, until the file is dropped.
pub(crate) fn share(temporary: &Path) -> io::Result<File> {
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path(temporary))?;
    flock(&file, FlockOperation::NonBlockingLockShared)?;
    Ok(file)
}

/// Whether the lock is held now.
pub(crate) fn is_held(temporary: &Path) -> io::Result<bool> {
    let file = match File::open(path(temporary)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(false),
        Err(Errno::WOULDBLOCK) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// Waits, at most `most`, until nothing runs any more of the command that an earlier process of drawloom started with this
/// temporary directory. A lock that cannot be looked at counts as held.
pub async fn until_gone(temporary: &Path, most: Duration, clock: &dyn Clock) -> Remains {
    let until = clock.now().after(most);
    while is_held(temporary).unwrap_or(true) {
        if clock.now() >= until {
            return Remains::Running;
        }
        clock.sleep_until(clock.now().after(AGAIN)).await;
    }
    Remains::Nothing
}
