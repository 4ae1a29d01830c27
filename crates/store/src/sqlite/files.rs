//! The store's files, as the file system sees them: whether they are still the ones that are open, and whether they can be
//! read at all.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read as _},
    os::{fd::OwnedFd, unix::fs::FileExt as _},
    path::{Path, PathBuf},
};

use drawloom_contract::journal::StoreError;
use rustix::{
    fd::AsFd,
    fs::{AtFlags, CWD, Mode, OFlags, StatxFlags, makedev, openat, statx},
};

/// Bytes read at once.
const PIECE: usize = 1024 * 1024;

/// The file, its write-ahead log and the log's index, as they were when the store was opened. SQLite goes on with files that
/// have lost their names, and everything that it acknowledges then is lost with the process.
#[derive(Debug)]
pub(crate) struct Files {
    /// The store's file. It stays open as long as the store: closing a file takes SQLite's locks of the whole process from it.
    file: File,
    /// Where it is, and what is there.
    path: PathBuf,
    known: Identity,
    /// The files beside it, in their directory. A directory that was replaced is seen by the path above, so that these need no
    /// walk along it: they are looked at for every commit.
    directory: OwnedFd,
    beside: Vec<(OsString, Identity)>,
}

/// Device and inode. They are not given to other files while this one is open.
type Identity = (u64, u64);

impl Files {
    /// The files of a store that was just opened and written.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        let directory = openat(CWD, parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let mut beside = Vec::new();
        for ending in ["-wal", "-shm"] {
            let mut name = name.to_owned();
            name.push(ending);
            let identity = look(&directory, &name)?;
            beside.push((name, identity));
        }
        Ok(Self { file: File::open(path)?, path: path.to_owned(), known: look(CWD, path)?, directory, beside })
    }

    /// The file of a store that is only read: the files beside it are its owner's to make and remove.
    pub(crate) fn of_reader(path: &Path) -> io::Result<Self> {
        let directory = openat(CWD, ".", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self {
            file: File::open(path)?,
            path: path.to_owned(),
            known: look(CWD, path)?,
            directory,
            beside: Vec::new(),
        })
    }

    /// Fails when one of the files was deleted or replaced. A file that cannot be looked at counts as unchanged: that says
    /// nothing about whether it is there.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let gone = |path: &Path, what| StoreError::Gone {
            detail: format!("{} {what} while the server was using it (process {})", path.display(), std::process::id()),
        };
        if let Some(what) = change(look(CWD, &self.path), self.known) {
            return Err(gone(&self.path, what));
        }
        for (name, known) in &self.beside {
            if let Some(what) = change(look(&self.directory, name), *known) {
                return Err(gone(&self.path.with_file_name(name), what));
            }
        }
        Ok(())
    }

    /// Tells damage from a disk that cannot be read. SQLite reports some read errors, EIO among them, as damage; so when it
    /// does, everything is read once.
    pub(crate) fn explain_damage(&self, error: StoreError) -> StoreError {
        let StoreError::Corrupt { store, .. } = &error else { return error };
        match self.read_through() {
            Ok(()) => error,
            Err(unread) => StoreError::Failed { store: store.clone(), detail: format!("cannot read it: {unread}") },
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
        let Some((log, _)) = self.beside.first() else { return Ok(()) };
        let mut log = File::open(self.path.with_file_name(log))?;
        while log.read(&mut piece)? > 0 {}
        Ok(())
    }
}

/// What became of a file, when it is no longer the one that was known.
fn change(found: io::Result<Identity>, known: Identity) -> Option<&'static str> {
    match found {
        Ok(found) if found != known => Some("was replaced by another file"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some("was deleted or moved"),
        Ok(_) | Err(_) => None,
    }
}

/// Asks for nothing but the identity. Who asks for times makes the next write give the file a time that differs (Linux 6.13 and
/// newer), and every sync then has to write the inode too.
fn look(directory: impl AsFd, path: impl AsRef<Path>) -> io::Result<Identity> {
    let found = statx(directory, path.as_ref(), AtFlags::empty(), StatxFlags::INO)?;
    Ok((makedev(found.stx_dev_major, found.stx_dev_minor), found.stx_ino))
}
