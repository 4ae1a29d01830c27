//! Walking a directory tree inside a volume, with as many threads as there are processors.
//!
//! It goes from handle to handle: every directory is opened by its bare name in the directory above it, and links are
//! not followed, so no link that is swapped in meanwhile leads out. Nothing is ever opened by a path.

pub(crate) mod ignored;
mod queue;

use std::{
    ffi::{CStr, CString, OsStr},
    fs::File,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use rustix::{
    fd::OwnedFd,
    fs::{AtFlags, FileType, Mode, OFlags, RawDir, Stat, openat, statat},
};

pub(crate) use ignored::Ignored;
use queue::Queue;

use crate::{
    guard::{Hidden, Identity},
    replace::is_staged_name,
};

/// How deep a tree is walked below its start; every level may hold a file handle open.
pub(crate) const MOST_DEPTH: u32 = 64;

/// Most threads of one walk.
const MOST_THREADS: usize = 8;

/// Files that are handed over together.
const BATCH: usize = 64;

/// What else is walked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scope {
    /// Names that begin with a dot; `.git` stays out.
    pub(crate) hidden: bool,
    /// What ignore files name.
    pub(crate) ignored: bool,
}

/// A regular file that the walk found.
pub(crate) struct Found<'a> {
    dir: &'a OwnedFd,
    name: &'a CStr,
    hidden: &'a Hidden,
    /// Where it is, from the volume's root.
    pub(crate) path: &'a Path,
}

impl Found<'_> {
    /// Opens it, unless it has become something else. A pipe in its place is not waited for.
    pub(crate) fn open(&self) -> Result<File, Skip> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = openat(self.dir, self.name, flags, Mode::empty())?;
        let stat = self.check(rustix::fs::fstat(&file)?)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(File::from(file)),
            _ => Err(Skip::Unreadable),
        }
    }

    /// When it was last changed: seconds and nanoseconds.
    pub(crate) fn modified(&self) -> Result<(i64, i64), Skip> {
        let stat = self.check(statat(self.dir, self.name, AtFlags::SYMLINK_NOFOLLOW)?)?;
        Ok((stat.st_mtime, i64::try_from(stat.st_mtime_nsec).unwrap_or(0)))
    }

    fn check(&self, stat: Stat) -> Result<Stat, Skip> {
        let identity = Identity { device: stat.st_dev, inode: stat.st_ino };
        if self.hidden.contains(identity, self.path) { Err(Skip::Hidden) } else { Ok(stat) }
    }
}

/// Why a file that was found is not searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Skip {
    /// It could not be opened.
    Unreadable,
    /// The server protects it from agents.
    Hidden,
}

impl From<rustix::io::Errno> for Skip {
    fn from(_: rustix::io::Errno) -> Self {
        Self::Unreadable
    }
}

/// What was left out, by reason.
#[derive(Debug, Default)]
pub(crate) struct LeftOut {
    links: AtomicU64,
    unreadable: AtomicU64,
    too_deep: AtomicU64,
    hidden: AtomicU64,
}

impl LeftOut {
    /// Counts a file that is not searched.
    pub(crate) fn skip(&self, why: Skip) {
        let count = match why {
            Skip::Unreadable => &self.unreadable,
            Skip::Hidden => &self.hidden,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a file or directory that could not be opened.
    pub(crate) fn unreadable(&self) {
        self.skip(Skip::Unreadable);
    }

    /// One line for each reason that there is.
    pub(crate) fn notices(&self) -> Vec<String> {
        let reasons = [
            (&self.links, "symlinks not followed"),
            (&self.unreadable, "files or directories that cannot be opened"),
            (&self.too_deep, "directories too deep to search"),
            (&self.hidden, "files protected by the server, skipped"),
        ];
        let counts = reasons.into_iter().map(|(count, what)| (count.load(Ordering::Relaxed), what));
        counts.filter(|(count, _)| *count > 0).map(|(count, what)| format!("[{what}: {count}]")).collect()
    }
}

/// A walk about to begin.
pub(crate) struct Walk {
    /// The directory to walk, open.
    pub(crate) start: OwnedFd,
    /// Where it is, from the volume's root.
    pub(crate) path: PathBuf,
    /// The rules of the directories above it.
    pub(crate) ignored: Option<Arc<Ignored>>,
    pub(crate) scope: Scope,
    /// The files that are left out because agents may not read them.
    pub(crate) hidden: Hidden,
    /// How many threads work on it.
    pub(crate) threads: usize,
    /// Set by a caller that does not want the walk any more.
    pub(crate) stop: Arc<AtomicBool>,
}

/// As many threads as there are processors, within bounds.
pub(crate) fn usual_threads() -> usize {
    std::thread::available_parallelism().map_or(1, |count| count.get().min(MOST_THREADS))
}

/// A piece of work.
enum Task {
    Directory { above: Arc<OwnedFd>, name: CString, path: PathBuf, depth: u32, ignored: Option<Arc<Ignored>> },
    Files { dir: Arc<OwnedFd>, path: PathBuf, names: Vec<CString> },
}

impl Walk {
    /// Shows every file to a visitor; each thread has one, made by `visitor`. Returns when all is seen or told to stop.
    pub(crate) fn run<V: FnMut(Found<'_>)>(self, left_out: &LeftOut, visitor: impl Fn() -> V + Sync) {
        let Self { start, path, ignored, scope, hidden, threads, stop } = self;
        let first = Task::Directory { above: Arc::new(start), name: c".".to_owned(), path, depth: 0, ignored };
        let queue = Queue::new(first);
        let worker = || {
            let mut visit = visitor();
            let mut buffer = Vec::with_capacity(32 * 1024);
            while let Some(task) = queue.next() {
                let _done = queue.guard();
                match task {
                    _ if stop.load(Ordering::Relaxed) => {}
                    Task::Directory { above, name, path, depth, ignored } => {
                        let listing = Listing { scope, left_out, queue: &queue };
                        listing.list(&above, &name, path, depth, ignored, &mut buffer);
                    }
                    Task::Files { dir, path, names } => {
                        let mut path = path;
                        for name in &names {
                            if stop.load(Ordering::Relaxed) {
                                break;
                            }
                            path.push(OsStr::from_bytes(name.to_bytes()));
                            visit(Found { dir: &dir, name, hidden: &hidden, path: &path });
                            path.pop();
                        }
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(worker)).collect();
            worker();
            drop(others);
        });
    }
}

struct Listing<'a> {
    scope: Scope,
    left_out: &'a LeftOut,
    queue: &'a Queue<Task>,
}

impl Listing<'_> {
    /// Lists one directory and puts what is in it on the queue.
    fn list(
        &self,
        above: &OwnedFd,
        name: &CStr,
        path: PathBuf,
        depth: u32,
        ignored: Option<Arc<Ignored>>,
        buffer: &mut Vec<u8>,
    ) {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::DIRECTORY;
        let Ok(dir) = openat(above, name, flags, Mode::empty()) else { return self.left_out.unreadable() };
        let (mut directories, mut files) = (Vec::new(), Vec::new());
        let mut entries = RawDir::new(&dir, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let Ok(entry) = entry else {
                self.left_out.unreadable();
                break;
            };
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW)
                    .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)),
                known => known,
            };
            match kind {
                FileType::Directory => directories.push(name.to_owned()),
                FileType::RegularFile => files.push(name.to_owned()),
                FileType::Symlink => drop(self.left_out.links.fetch_add(1, Ordering::Relaxed)),
                _ => {}
            }
        }
        let ignored = match self.scope.ignored {
            true => None,
            false => Ignored::of(&dir, &path, &directories, &files, ignored),
        };
        let dir = Arc::new(dir);
        let mut tasks = Vec::new();
        for name in directories {
            if name.as_c_str() == c".git" || !self.wanted(&name, &path, true, ignored.as_deref()) {
                continue;
            }
            if depth >= MOST_DEPTH {
                self.left_out.too_deep.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            let path = path.join(OsStr::from_bytes(name.to_bytes()));
            tasks.push(Task::Directory { above: dir.clone(), name, path, depth: depth + 1, ignored: ignored.clone() });
        }
        files.retain(|name| self.wanted(name, &path, false, ignored.as_deref()));
        while !files.is_empty() {
            let names = files.split_off(files.len().saturating_sub(BATCH));
            tasks.push(Task::Files { dir: dir.clone(), path: path.clone(), names });
        }
        self.queue.add(tasks);
    }

    fn wanted(&self, name: &CStr, above: &Path, is_dir: bool, ignored: Option<&Ignored>) -> bool {
        let shown = self.scope.hidden || !name.to_bytes().starts_with(b".");
        shown
            && !is_staged_name(name.to_bytes())
            && !ignored.is_some_and(|ignored| ignored.names(above, OsStr::from_bytes(name.to_bytes()), is_dir))
    }
}

#[cfg(test)]
mod tests;
