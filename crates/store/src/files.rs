//! The store's files, as the file system sees them: whether they are still the ones that are open, and whether they can be
//! read at all.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    os::unix::fs::{FileExt as _, MetadataExt as _},
    path::{Path, PathBuf},
};

use drawloom_contract::journal::StoreError;

/// Bytes read at once.
const PIECE: usize = 1024 * 1024;

/// The file, its write-ahead log and the log's index, as they were when the store was opened. SQLite goes on with files that
/// have lost their names, and everything that it acknowledges then is lost with the process.
#[derive(Debug)]
pub(crate) struct Files {
    /// The store's file. It stays open as long as the store: closing a file takes SQLite's locks of the whole process from it.
    file: File,
    /// Device and inode of each. They are not given to other files while these are open.
    known: Vec<(PathBuf, (u64, u64))>,
}

impl Files {
    /// The files of a store that was just opened and written.
    pub(crate) fn of(file: &Path) -> io::Result<Self> {
        let mut known = Vec::new();
        for ending in ["", "-wal", "-shm"] {
            let path = beside(file, ending);
            let identity = look(&path)?;
            known.push((path, identity));
        }
        Ok(Self { file: File::open(file)?, known })
    }

    /// Fails when one of the files was deleted or replaced. A file that cannot be looked at counts as unchanged: that says
    /// nothing about whether it is there.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        for (path, known) in &self.known {
            let what = match look(path) {
                Ok(found) if found != *known => "was replaced by another file",
                Err(error) if error.kind() == io::ErrorKind::NotFound => "was deleted or moved away",
                Ok(_) | Err(_) => continue,
            };
            return Err(StoreError::Gone { file: path.display().to_string(), what });
        }
        Ok(())
    }

    /// Tells damage from a disk that cannot be read. SQLite reports some read errors, EIO among them, as damage; so when it
    /// does, everything is read once.
    pub(crate) fn explain_damage(&self, error: StoreError) -> StoreError {
        let StoreError::Corrupt { file, .. } = &error else { return error };
        match self.read_through() {
            Ok(()) => error,
            Err(unread) => StoreError::Failed { file: file.clone(), detail: format!("it cannot be read: {unread}") },
        }
    }

    fn read_through(&self) -> io::Result<()> {
        let (mut piece, mut at) = (vec![0; PIECE], 0);
        loop {
            match self.file.read_at(&mut piece, at)? {
                0 => break,
                read => at += read as u64,
            }
        }
        let Some((log, _)) = self.known.get(1) else { return Ok(()) };
        let mut log = File::open(log)?;
        while log.read(&mut piece)? > 0 {}
        Ok(())
    }
}

fn beside(file: &Path, ending: &str) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(ending);
    path.into()
}

fn look(path: &Path) -> io::Result<(u64, u64)> {
    fs::metadata(path).map(|found| (found.dev(), found.ino()))
}
