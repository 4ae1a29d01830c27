//! The files that the server protects from agents, checked when a call is made: by identity (device and inode), because
//! a link, a hard link or another volume may lead to the same file under another name.

use std::{
    ffi::OsStr,
    io,
    os::fd::AsFd,
    path::{Path, PathBuf},
};

use drawloom_contract::tool::{Guard, Guarded, ToolError};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, openat, statat};

use crate::files::{Opened, failed};

/// How many directories above a file are looked at.
const MOST_DEPTH: usize = 256;

/// What tells a file from all others while it exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

impl Identity {
    /// The identity of an open file or directory.
    pub(crate) fn of(file: impl AsFd) -> io::Result<Self> {
        let stat = fstat(file)?;
        Ok(Self { device: stat.st_dev, inode: stat.st_ino })
    }

    /// The identity of an entry of a directory, if there is one.
    pub(crate) fn of_entry(directory: impl AsFd, name: &OsStr, flags: AtFlags) -> Option<Self> {
        let stat = statat(directory, name, flags).ok()?;
        Some(Self { device: stat.st_dev, inode: stat.st_ino })
    }
}

/// The files that agents may not read, as they are now.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hidden {
    files: Vec<Identity>,
    paths: Vec<PathBuf>,
}

impl Hidden {
    pub(crate) fn of(guarded: &[Guarded]) -> Self {
        let hidden = || guarded.iter().filter(|guarded| guarded.rule == Guard::Hidden);
        let paths = hidden().filter_map(|guarded| guarded.path.clone()).collect();
        Self { files: hidden().flat_map(identities).collect(), paths }
    }

    /// Whether the file with this identity, found at this path from the volume's root, is hidden.
    pub(crate) fn contains(&self, file: Identity, path: &Path) -> bool {
        self.files.contains(&file) || self.paths.iter().any(|hidden| hidden == path)
    }
}

/// Refuses to show an open file that agents may not read. `path` is its path from the volume's root.
pub(crate) fn check_read(guarded: &[Guarded], path: &Path, file: impl AsFd) -> Result<(), ToolError> {
    let hidden = Hidden::of(guarded);
    match hidden.contains(Identity::of(file).map_err(|error| failed(path, &error))?, path) {
        true => Err(refusal(path, Guard::Hidden)),
        false => Ok(()),
    }
}

/// Refuses to change, replace or create the entry `name` of a directory when the server protects it. `path` is what the call
/// named.
pub(crate) fn check_write(
    guarded: &[Guarded],
    path: &Path,
    directory: impl AsFd + Copy,
    name: &OsStr,
) -> Result<(), ToolError> {
    if guarded.is_empty() {
        return Ok(());
    }
    let parent = Identity::of(directory).map_err(|error| failed(path, &error))?;
    check_folders(guarded, path, directory)?;
    let existing = Identity::of_entry(directory, name, AtFlags::SYMLINK_NOFOLLOW);
    for guarded in guarded {
        let holds = Identity::of(&guarded.directory).is_ok_and(|holder| holder == parent);
        // A file system may take both spellings for one name; while the file does not exist, its identity cannot tell.
        let is_named = holds && name.eq_ignore_ascii_case(&guarded.name);
        if is_named || existing.is_some_and(|existing| identities(guarded).any(|identity| identity == existing)) {
            return Err(match is_git(guarded) {
                true => ToolError::Denied(format!("{}: agents cannot change the user's repository", path.display())),
                false => refusal(path, guarded.rule),
            });
        }
    }
    Ok(())
}

/// Refuses to change what is in a protected folder, wherever links led: the directories above are compared one by one.
fn check_folders(guarded: &[Guarded], path: &Path, directory: impl AsFd) -> Result<(), ToolError> {
    let folders: Vec<(Identity, &Guarded)> =
        guarded.iter().filter_map(|guarded| Some((folder(guarded)?, guarded))).collect();
    if folders.is_empty() {
        return Ok(());
    }
    let explain = |error: rustix::io::Errno| failed(path, &error.into());
    let open = |from: &dyn AsFd, name: &str| {
        openat(from.as_fd(), name, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).map_err(explain)
    };
    let mut here = open(&directory, ".")?;
    for _ in 0..MOST_DEPTH {
        let identity = Identity::of(&here).map_err(|error| failed(path, &error))?;
        if let Some((_, guarded)) = folders.iter().find(|(folder, _)| *folder == identity) {
            let holds = if is_git(guarded) { "the user's repository" } else { "the server's agents or skills" };
            return Err(ToolError::Denied(format!(
                "{}: this folder contains {holds}; agents can read it but not change it",
                path.display()
            )));
        }
        let above = open(&here, "..")?;
        if Identity::of(&above).is_ok_and(|above| above == identity) {
            return Ok(());
        }
        here = above;
    }
    Err(ToolError::Denied(format!("{}: nested more than {MOST_DEPTH} directories deep", path.display())))
}

/// Whether it is the repository of a checkout that belongs to the user.
fn is_git(guarded: &Guarded) -> bool {
    guarded.name == ".git"
}

/// A protected folder, as it is now.
fn folder(guarded: &Guarded) -> Option<Identity> {
    let stat = statat(&guarded.directory, &guarded.name, AtFlags::empty()).ok()?;
    let is_folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    is_folder.then_some(Identity { device: stat.st_dev, inode: stat.st_ino })
}

/// Refuses to write the file at `path` when it, or a directory that would be made on the way, is protected.
pub(crate) fn check_write_path(Opened { dir, place }: &Opened, path: &Path) -> Result<(), ToolError> {
    for entry in path.ancestors().filter(|_| !place.guarded.is_empty()) {
        let (Some(parent), Some(name)) = (entry.parent(), entry.file_name()) else { break };
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        match dir.open_dir(parent) {
            Ok(parent) => check_write(&place.guarded, path, &parent, name)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(path, &error)),
        }
    }
    Ok(())
}

/// The protected file and, when it is a link, what it leads to.
fn identities(guarded: &Guarded) -> impl Iterator<Item = Identity> + use<> {
    let entry = |flags| Identity::of_entry(&guarded.directory, &guarded.name, flags);
    [entry(AtFlags::SYMLINK_NOFOLLOW), entry(AtFlags::empty())].into_iter().flatten()
}

fn refusal(path: &Path, rule: Guard) -> ToolError {
    let path = path.display();
    ToolError::Denied(match rule {
        Guard::ReadOnly | Guard::Absent => {
            format!("{path}: this is a config file of the server; agents can read it but not change it")
        }
        Guard::Hidden => {
            format!("{path}: agents cannot read or write this file: it is the .env file of the server's config")
        }
    })
}
