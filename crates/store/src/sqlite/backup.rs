//! Copies of a store: made while it is in use, checked, and put back.
//!
//! A backup is one read transaction that writes a whole new file (`VACUUM INTO`), so it holds exactly what was committed
//! when it began, whatever is written meanwhile, and none of the free pages. The write-ahead log cannot be folded while it
//! lasts.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use drawloom_contract::{ids::RunKey, journal::StoreError};

use super::{
    Connection, Depth,
    error::{Error, Result as Done, explain, explain_io, failed},
    mark,
    open::{self, Synchronous, check_header, create_directory},
    values,
};
use crate::tables::runs::read as runs;

/// Where a file of SQLite says how it is written, and what says "with a log beside it".
const WRITE_FORMAT: usize = 18;
const WITH_LOG: u8 = 2;

/// A copy of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    /// Its size.
    pub bytes: u64,
    /// Its format.
    pub format: u32,
    /// Runs in it.
    pub runs: u64,
    /// Those of them that have not ended.
    pub unfinished: u64,
}

/// Where a copy to `target` is while it is made.
pub fn partial(target: &Path) -> PathBuf {
    let mut name = OsString::from(target);
    name.push(format!(".{}.part", std::process::id()));
    PathBuf::from(name)
}

/// Copies the store of `directory` to `target`, which must not exist. The store may be in use, by this process or another.
/// The copy is whole, checked and synced when it appears under its name; only this user can read it.
pub fn backup(directory: &Path, target: &Path) -> Result<Backup, StoreError> {
    let source = directory.join(open::FILE);
    if !source.exists() {
        return Err(failed(&source, "no store found"));
    }
    refuse_existing(target)?;
    let part = Partial::create(partial(target))?;
    let connection = read_only(&source).map_err(|error| explain(&source, &error))?;
    part.fill(&connection)?;
    drop(connection);
    let made = inspect(&part.path)?;
    part.keep_as(target)?;
    Ok(made)
}

/// Checks every page and every index of a copy, and says what is in it.
pub fn inspect(file: &Path) -> Result<Backup, StoreError> {
    let corrupt = |detail: String| StoreError::Corrupt { store: file.display().to_string(), detail };
    let mut header = Vec::new();
    let opened = File::open(file).map_err(|error| explain_io(file, "cannot read it", &error))?;
    let bytes = opened.metadata().map_err(|error| explain_io(file, "cannot read it", &error))?.len();
    opened.take(100).read_to_end(&mut header).map_err(|error| explain_io(file, "cannot read it", &error))?;
    if header.is_empty() {
        return Err(corrupt("the file is empty".into()));
    }
    check_header(file)?;
    if header.get(WRITE_FORMAT) == Some(&WITH_LOG) {
        return Err(corrupt(
            "this is the file of a live store without its write-ahead log, not a backup: commits may be missing".into(),
        ));
    }
    let connection = read_only(file).map_err(|error| explain(file, &error))?;
    let explained = |error: Error| explain(file, &error);
    if let Err(damage) = connection.check(Depth::Indexes) {
        // SQLite reports some read errors as damage.
        fs::read(file).map_err(|error| explain_io(file, "cannot read the file", &error))?;
        return Err(explained(damage));
    }
    Ok(Backup {
        bytes,
        format: connection.format().map_err(explained)?,
        runs: runs::count_all(&connection).map_err(explained)?,
        unfinished: runs::count_unfinished(&connection).map_err(explained)?,
    })
}

/// The runs of a copy that have not ended, those that stand above others first.
pub fn list_unfinished(file: &Path) -> Result<Vec<RunKey>, StoreError> {
    let found = read_only(file).and_then(|connection| runs::unfinished_keys(&connection));
    found.map_err(|error| explain(file, &error))
}

/// Whether the store of `directory` has, or had, runs, values or messages: whether its data would be missed. Values of the space
/// `own` do not count: every start of the program writes them.
pub fn is_used(directory: &Path, own: &str) -> Result<bool, StoreError> {
    const USED: &str = "SELECT 1 WHERE EXISTS (SELECT 1 FROM runs) OR EXISTS (SELECT 1 FROM pruned_runs) \
        OR EXISTS (SELECT 1 FROM key_values WHERE space <> $1) OR EXISTS (SELECT 1 FROM log_messages)";
    let file = directory.join(open::FILE);
    let found = read_only(&file).and_then(|connection| connection.prepare(USED)?.finds(values![own]));
    found.map_err(|error| explain(&file, &error))
}

/// Puts a copy in the place of the store of `directory`, which nobody may have open. What was there before is gone then;
/// until the last moment it is as it was.
pub fn restore(file: &Path, directory: &Path) -> Result<Backup, StoreError> {
    let found = inspect(file)?;
    create_directory(directory)?;
    let target = directory.join(open::FILE);
    let part = Partial::create(partial(&target))?;
    let copied = File::open(file).and_then(|mut from| {
        let mut to = OpenOptions::new().write(true).open(&part.path)?;
        io::copy(&mut from, &mut to)?;
        to.sync_all()
    });
    copied.map_err(|error| explain_io(&target, "cannot copy the backup", &error))?;
    if target.exists() {
        fold_log(&target);
    }
    mark::forget(directory).map_err(|error| explain_io(&target, "cannot forget the store before", &error))?;
    part.replace(&target)?;
    Ok(found)
}

/// Folds the log of the store that is replaced into its file and removes it: beside another file it would be poison.
fn fold_log(target: &Path) {
    let folded = Connection::open(target, Synchronous::Full).and_then(|connection| connection.fold_log());
    if let Err(error) = folded {
        tracing::warn!(%error, "cannot close the replaced store cleanly");
    }
    for ending in ["-wal", "-shm"] {
        let mut name = OsString::from(target);
        name.push(ending);
        // Usually they are gone by now.
        drop(fs::remove_file(name));
    }
}

/// A connection that is to read the whole file.
fn read_only(file: &Path) -> Done<Connection> {
    let connection = Connection::open_to_read(file)?;
    connection.run("PRAGMA cache_size = -2000")?;
    Ok(connection)
}

fn refuse_existing(target: &Path) -> Result<(), StoreError> {
    match target.symlink_metadata() {
        Ok(_) => Err(exists(target)),
        Err(_) => Ok(()),
    }
}

fn exists(target: &Path) -> StoreError {
    failed(target, "the file already exists; a backup does not overwrite files")
}

/// A file in the making, removed unless it is kept.
pub(super) struct Partial {
    path: PathBuf,
}

impl Partial {
    pub(super) fn create(path: PathBuf) -> Result<Self, StoreError> {
        let made = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path);
        made.map_err(|error| explain_io(&path, "cannot create the copy", &error))?;
        Ok(Self { path })
    }

    /// Copies the store of `connection` into it, which must be empty.
    pub(super) fn fill(&self, connection: &Connection) -> Result<(), StoreError> {
        let name = self.path.to_str().ok_or_else(|| failed(&self.path, "the backup path must be UTF-8"))?;
        let copied = connection.prepare("VACUUM INTO $1").and_then(|mut vacuum| vacuum.execute(values![name]));
        copied.map_err(|error| explain(&self.path, &error))?;
        let synced = File::open(&self.path).and_then(|file| file.sync_all());
        synced.map_err(|error| explain_io(&self.path, "cannot sync the copy", &error))
    }

    /// Gives it its name, unless somebody took that meanwhile.
    fn keep_as(self, target: &Path) -> Result<(), StoreError> {
        match fs::hard_link(&self.path, target) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(exists(target)),
            // Not every file system knows links.
            Err(_) => {
                refuse_existing(target)?;
                fs::rename(&self.path, target).map_err(|error| explain_io(target, "cannot rename the copy", &error))?;
            }
        }
        sync_directory(target)
    }

    /// Puts it in the place of `target`.
    pub(super) fn replace(self, target: &Path) -> Result<(), StoreError> {
        fs::rename(&self.path, target).map_err(|error| explain_io(target, "cannot replace the store", &error))?;
        sync_directory(target)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // After a rename there is nothing to remove.
        drop(fs::remove_file(&self.path));
    }
}

pub(super) fn sync_directory(file: &Path) -> Result<(), StoreError> {
    let directory = file.parent().filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let synced = File::open(directory).and_then(|directory| directory.sync_all());
    synced.map_err(|error| explain_io(directory, "cannot sync the directory", &error))
}
