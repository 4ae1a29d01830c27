//! Copies skills: each file is read once, for its copy and for the record, and several skills are copied at the same time. Most of the
//! time is the file system's, which makes files in different folders side by side.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use drawloom_contract::ids::Digest;

use super::{Contents, RECORD};

/// Threads that copy.
const MAX_THREADS: usize = 4;
/// So few are copied faster than threads start.
const FEW: usize = 4;

/// A folder to copy, with the files that are wanted of it.
pub(super) struct Job<'a> {
    pub(super) from: &'a Path,
    pub(super) files: &'a [PathBuf],
    pub(super) to: PathBuf,
}

/// Copies all folders. The first failure is answered with the folder that it is about, and the rest is not begun.
pub(super) fn copy_all(jobs: &[Job<'_>]) -> Result<(), (PathBuf, io::Error)> {
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(None));
    let work = || {
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(error) = copy(job) {
                next.store(jobs.len(), Ordering::Relaxed);
                failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert((job.from.to_owned(), error));
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
    if threads == 1 || jobs.len() <= FEW {
        work();
    } else {
        thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    }
    failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

fn copy(job: &Job<'_>) -> io::Result<()> {
    fs::create_dir(&job.to)?;
    let mut contents = Contents::default();
    let mut made = job.to.clone();
    for file in job.files {
        let place = job.to.join(file);
        // Files are sorted, so those of one folder follow each other.
        if let Some(parent) = place.parent().filter(|parent| *parent != made) {
            fs::create_dir_all(parent)?;
            made = parent.to_owned();
        }
        let source = job.from.join(file);
        let bytes = fs::read(&source)?;
        let mut copied = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&place)?;
        copied.write_all(&bytes)?;
        copied.set_permissions(fs::metadata(&source)?.permissions())?;
        contents.add(file, &bytes);
    }
    fs::write(job.to.join(RECORD), format!("{}\n", contents.digest()))
}

impl Contents {
    fn add(&mut self, file: &Path, bytes: &[u8]) {
        self.0.extend(file.to_string_lossy().as_bytes());
        self.0.push(0);
        self.0.extend(Digest::of(bytes).as_bytes());
    }

    fn digest(&self) -> Digest {
        Digest::of(&self.0)
    }

    /// Those of files that are there.
    pub(super) fn read(folder: &Path, files: &[PathBuf]) -> io::Result<Digest> {
        let mut contents = Self::default();
        for file in files {
            contents.add(file, &fs::read(folder.join(file))?);
        }
        Ok(contents.digest())
    }
}
