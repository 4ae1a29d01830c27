//! Files in a directory that a process of a CLI can change at any moment. Nothing here follows a link there, waits for a pipe, or reads
//! without an end. In the user's own directories, which no process of a CLI can change, links are followed.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    },
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use rustix::{
    fs::{CWD, Dir, FileType, Mode, OFlags, ResolveFlags, fstat, mkdirat, openat2, renameat, unlinkat},
    io::Errno,
};

/// The largest login or file of settings.
pub(super) const LONGEST_FILE: u64 = 8 * 1024 * 1024;

/// The most that sessions of one process may hold, and the most files and directories that are looked at.
const MAX_SESSION_BYTES: u64 = 1024 * 1024 * 1024;
const MAX_ENTRIES: usize = 20_000;

/// The deepest directory that `**` reaches.
const MAX_DEPTH: u32 = 12;

/// A directory whose files are reached through its descriptor.
pub(super) struct Place {
    directory: OwnedFd,
    resolve: ResolveFlags,
}

/// Whose a directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// Only the user's own programs change it.
    User,
    /// A process of a CLI changes it.
    Process,
}

impl Place {
    /// Opens a directory; links on the way to it are followed.
    pub(super) fn open(path: &Path, owner: Owner) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat2(CWD, path, flags, Mode::empty(), ResolveFlags::empty())?;
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        Ok(Self { directory, resolve: if owner == Owner::User { ResolveFlags::empty() } else { beneath } })
    }

    /// Makes a directory that only its user can read, and opens it.
    pub(super) fn make(path: &Path, owner: Owner) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        Self::open(path, owner)
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// Opens a regular file, or says that there is none.
    fn file(&self, name: &Path) -> io::Result<Option<File>> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = match openat2(&self.directory, name, flags, Mode::empty(), self.resolve) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR | Errno::NXIO) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        Ok(file.metadata()?.is_file().then_some(file))
    }

    /// The text of a file. `None` when the name is missing, is not a regular file, or the file is longer than the limit.
    pub(super) fn read(&self, name: &Path) -> io::Result<Option<Vec<u8>>> {
        let Some(file) = self.file(name)? else { return Ok(None) };
        let mut bytes = Vec::new();
        file.take(LONGEST_FILE + 1).read_to_end(&mut bytes)?;
        Ok((bytes.len() as u64 <= LONGEST_FILE).then_some(bytes))
    }

    /// What changes when a file is written.
    pub(super) fn stamp(&self, name: &Path) -> Option<Stamp> {
        self.file(name).ok().flatten().and_then(|file| file.metadata().ok()).map(|found| stamp_of(&found))
    }

    /// Replaces a file in one step. A link of this name is replaced, not followed.
    pub(super) fn write(&self, name: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
        let (parent, file) = self.parent_of(name)?;
        let temporary = temporary_name();
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let written = (|| {
            let mut to = File::from(openat2(&parent, &temporary, flags, Mode::from_raw_mode(mode), self.resolve)?);
            to.write_all(bytes)?;
            to.sync_data()?;
            renameat(&parent, &temporary, &parent, &file).map_err(io::Error::from)
        })();
        if written.is_err() {
            let _ = unlinkat(&parent, &temporary, rustix::fs::AtFlags::empty());
        }
        written
    }

    /// The directory of a file, made as far as it is missing, and the file's own name.
    fn parent_of(&self, name: &Path) -> io::Result<(OwnedFd, PathBuf)> {
        let file = name.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let mut here = self.directory.try_clone()?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        for part in name.parent().unwrap_or(Path::new("")).components() {
            here = match openat2(&here, part.as_os_str(), flags, Mode::empty(), self.resolve) {
                Err(Errno::NOENT) => {
                    mkdirat(&here, part.as_os_str(), Mode::from_raw_mode(0o700))?;
                    openat2(&here, part.as_os_str(), flags, Mode::empty(), self.resolve)?
                }
                opened => opened?,
            };
        }
        Ok((here, file.into()))
    }

    /// The regular files that a pattern matches. `*` stands for any part of one name, `**` at the end for all below.
    pub(super) fn find(&self, pattern: &str) -> Vec<PathBuf> {
        let (mut found, mut left) = (Vec::new(), MAX_ENTRIES);
        let parts: Vec<&str> = pattern.split('/').collect();
        self.walk(Path::new(""), &parts, MAX_DEPTH, &mut left, &mut found);
        found
    }

    fn walk(&self, at: &Path, parts: &[&str], deeper: u32, left: &mut usize, found: &mut Vec<PathBuf>) {
        let Some(((part, rest), deeper)) = parts.split_first().zip(deeper.checked_sub(1)) else { return };
        let is_all = *part == "**";
        if !is_all && !part.contains('*') {
            let path = at.join(part);
            match rest {
                [] if self.file(&path).is_ok_and(|file| file.is_some()) => found.push(path),
                [] => {}
                rest => self.walk(&path, rest, deeper, left, found),
            }
            return;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let here = if at.as_os_str().is_empty() { Path::new(".") } else { at };
        let Ok(opened) = openat2(&self.directory, here, flags, Mode::empty(), self.resolve) else { return };
        let Ok(entries) = Dir::new(opened) else { return };
        for entry in entries.flatten() {
            let Some(left_now) = left.checked_sub(1) else { return };
            *left = left_now;
            let Ok(name) = entry.file_name().to_str() else { continue };
            if name == "." || name == ".." || !(is_all || matches(part, name)) {
                continue;
            }
            let path = at.join(name);
            match (entry.file_type(), rest) {
                (FileType::Directory, _) if is_all => self.walk(&path, parts, deeper, left, found),
                (FileType::Directory, [_, ..]) => self.walk(&path, rest, deeper, left, found),
                (FileType::RegularFile, []) => found.push(path),
                // A link to a file, where links are followed.
                (FileType::Symlink, []) if self.file(&path).is_ok_and(|file| file.is_some()) => found.push(path),
                _ => {}
            }
        }
    }

    /// Copies files to another place, each in one step.
    pub(super) fn copy(&self, files: &[PathBuf], to: &Self) -> io::Result<()> {
        let mut left = MAX_SESSION_BYTES;
        for name in files {
            let Some(from) = self.file(name)? else { continue };
            let size = fstat(&from)?.st_size.cast_unsigned();
            left = left.checked_sub(size).ok_or_else(|| io::Error::other("the files of the session are too large"))?;
            let (parent, file) = to.parent_of(name)?;
            let temporary = temporary_name();
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let copied = (|| {
                let written = openat2(&parent, &temporary, flags, Mode::from_raw_mode(0o600), to.resolve)?;
                io::copy(&mut from.take(size), &mut File::from(written))?;
                renameat(&parent, &temporary, &parent, &file).map_err(io::Error::from)
            })();
            if let Err(error) = copied {
                let _ = unlinkat(&parent, &temporary, rustix::fs::AtFlags::empty());
                return Err(error);
            }
        }
        Ok(())
    }
}

/// What changes when a file is written: its inode, its size and its time.
pub(super) type Stamp = (u64, u64, i64, i64);

pub(super) fn stamp_of(found: &fs::Metadata) -> Stamp {
    (found.ino(), found.size(), found.mtime(), found.mtime_nsec())
}

/// Replaces a file of the user in one step, where it really is, with the mode that it has.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let real = path.canonicalize()?;
    let mode = real.metadata()?.permissions().mode() & 0o777;
    let temporary = real.with_file_name(temporary_name());
    let written = (|| {
        let mut file = OpenOptions::new().create_new(true).write(true).mode(mode).open(&temporary)?;
        file.write_all(bytes)?;
        file.sync_data()?;
        fs::rename(&temporary, &real)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

fn temporary_name() -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!(".drawloom-{}-{}.tmp", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)).into()
}

/// Whether a name fits a pattern with `*`.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else { return pattern == name };
    let Some(rest) = name.strip_prefix(before) else { return false };
    (0..=rest.len()).filter(|at| rest.is_char_boundary(*at)).any(|at| matches(after, &rest[at..]))
}
