//! Where the files of a goal lie below the root, and how state files are written.

use std::{
    fs::{self, DirBuilder, File, Permissions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use drawloom_process::sweep;
use serde::{Serialize, de::DeserializeOwned};

use crate::{error::Error, oid::Oid};

/// The directory of one goal.
#[derive(Debug, Clone)]
pub(crate) struct Places(PathBuf);

impl Places {
    pub(crate) fn new(root: &Path, goal: &str) -> Self {
        Self(root.join(goal))
    }

    pub(crate) fn goal(&self) -> &Path {
        &self.0
    }

    /// What is known of the goal. Written last, so a goal that has it is prepared.
    pub(crate) fn record(&self) -> PathBuf {
        self.0.join("goal.json")
    }

    /// Our git directory.
    pub(crate) fn git(&self) -> PathBuf {
        self.0.join("git")
    }

    /// The same, with attributes that change no byte of a file.
    pub(crate) fn plain_git(&self) -> PathBuf {
        self.0.join("git-plain")
    }

    /// What the setup command made or changed in a checkout.
    pub(crate) fn setup(&self, name: &str) -> PathBuf {
        self.0.join("setup").join(format!("{name}.json"))
    }

    /// Copies of the user's ignored files that every checkout gets.
    pub(crate) fn included(&self) -> PathBuf {
        self.0.join("included")
    }

    /// Names the user's checkout that workers of the goal change, if they do. Others read it: the CLIs that work there.
    pub(crate) fn in_place(&self) -> PathBuf {
        self.0.join("in-place")
    }

    pub(crate) fn all_work(&self) -> PathBuf {
        self.0.join("work")
    }

    pub(crate) fn work(&self, name: &str) -> PathBuf {
        self.0.join("work").join(name)
    }

    pub(crate) fn states(&self) -> PathBuf {
        self.0.join("state")
    }

    pub(crate) fn state(&self, name: &str) -> PathBuf {
        self.0.join("state").join(format!("{name}.json"))
    }

    /// The index files of a checkout.
    pub(crate) fn indexes(&self, name: &str) -> PathBuf {
        self.0.join("index").join(name)
    }

    /// The index of a checkout that has exactly the files of a tree.
    pub(crate) fn index(&self, name: &str, tree: &Oid) -> PathBuf {
        self.indexes(name).join(tree.as_str())
    }

    /// The index of a checkout that is being made.
    pub(crate) fn next_index(&self, name: &str) -> PathBuf {
        self.indexes(name).join("next")
    }

    /// The changed files of a checkout, copied while they are checked.
    pub(crate) fn stage(&self, name: &str) -> PathBuf {
        self.0.join("stage").join(name)
    }

    /// A directory for temporary files of a checkout's programs.
    pub(crate) fn temporary(&self, name: &str) -> PathBuf {
        self.0.join("tmp").join(name)
    }

    pub(crate) fn verify(&self, key: &str) -> PathBuf {
        self.0.join("verify").join(key)
    }

    pub(crate) fn verdict(&self, digest: &str) -> PathBuf {
        self.0.join("verdicts").join(format!("{digest}.json"))
    }

    /// Whether something was moved away that is still on the disk.
    pub(crate) fn has_trash(&self) -> bool {
        self.trash().is_dir()
    }

    fn trash(&self) -> PathBuf {
        self.0.join("trash")
    }

    /// Moves a directory away, so that it is gone at once. [`Places::empty`] removes it from the disk.
    pub(crate) fn set_aside(&self, path: &Path) -> Result<(), Error> {
        let _ = fs::set_permissions(path, Permissions::from_mode(0o700));
        match self.move_to_trash(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::file("remove", path)(error)),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Removes from the disk what was moved away.
    pub(crate) fn empty(&self) -> Result<(), Error> {
        let trash = self.trash();
        let entries = match fs::read_dir(&trash) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries.map_err(Error::file("read", &trash))?,
        };
        for own in entries.flatten().map(|entry| entry.path()) {
            let swept = sweep(&own).map_err(Error::file("remove", &own))?;
            if let Some((path, error)) = swept.kept.into_iter().next() {
                return Err(Error::file("remove", path)(error));
            }
            let _ = fs::remove_dir(own);
        }
        let _ = fs::remove_dir(trash);
        Ok(())
    }

    /// Removes a directory with all that is in it, or a file. Links are not followed. A missing one is fine. A directory is moved
    /// away first, so that after a crash no half of it is left where it was.
    pub(crate) fn remove(&self, path: &Path) -> Result<(), Error> {
        let removed = match path.symlink_metadata() {
            Ok(metadata) if metadata.is_dir() => {
                // Only a directory that its owner may change can be moved.
                let _ = fs::set_permissions(path, Permissions::from_mode(0o700));
                self.move_to_trash(path).and_then(|own| self.empty_trash(&own))
            }
            Ok(_) => fs::remove_file(path),
            Err(error) => Err(error),
        };
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::file("remove", path)(error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Moves a directory to one of its own, so that two removals at the same time do not meet.
    fn move_to_trash(&self, path: &Path) -> io::Result<PathBuf> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let own = self.trash().join(format!("{}-{number}", std::process::id()));
            DirBuilder::new().recursive(true).mode(0o700).create(&own)?;
            match fs::rename(path, own.join("removed")) {
                Err(error) if is_taken(&error) => {}
                // The trash was emptied at the same time.
                Err(error) if error.kind() == io::ErrorKind::NotFound && path.symlink_metadata().is_ok() => {}
                moved => return moved.map(|()| own),
            }
        }
    }

    /// Removes what was moved to `own`, and what processes before this one left.
    fn empty_trash(&self, own: &Path) -> io::Result<()> {
        let ours = format!("{}-", std::process::id());
        let is_old = |name: &std::ffi::OsStr| !name.to_string_lossy().starts_with(&ours);
        for left in fs::read_dir(self.trash())?.flatten().filter(|entry| is_old(&entry.file_name())) {
            // The next removal tries again.
            let _ = sweep(&left.path());
            let _ = fs::remove_dir(left.path());
        }
        match sweep(own)?.kept.into_iter().next() {
            Some((_, error)) => Err(error),
            None => fs::remove_dir(own),
        }
    }

    /// What only the checkouts need; the record, the state and our git directory are not among it.
    pub(crate) fn bulky(&self) -> [PathBuf; 6] {
        ["work", "index", "stage", "tmp", "verify", "included"].map(|name| self.0.join(name))
    }
}

fn is_taken(error: &io::Error) -> bool {
    use io::ErrorKind::{AlreadyExists, DirectoryNotEmpty, NotADirectory};
    matches!(error.kind(), AlreadyExists | DirectoryNotEmpty | NotADirectory)
}

/// Makes a directory, and those above it, for drawloom's user alone.
pub(crate) fn make_directory(path: &Path) -> Result<(), Error> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(Error::file("create", path))
}

/// Checks that a worker has not replaced one of our directories by a link.
pub(crate) fn check_real(path: &Path) -> Result<(), Error> {
    match path.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err(Error::Replaced { path: path.to_owned(), reason: "it is a link or a file" }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(Error::Replaced { path: path.to_owned(), reason: "it was removed" })
        }
        Err(error) => Err(Error::file("read", path)(error)),
    }
}

/// Writes a whole file at once: after a crash it has the old content or the new one.
pub(crate) fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let directory = path.parent().expect("files of ours have a directory");
    make_directory(directory)?;
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = PathBuf::from(name);
    let written = (|| {
        let mut file = File::create(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        File::open(directory)?.sync_all()
    })();
    written.map_err(Error::file("write", path))
}

/// Copies an index of git with its time. Git trusts the times of files that are older than the index, so a copy that looks newer
/// would hide changes that were made in the second of the checkout.
pub(crate) fn copy_index(from: &Path, to: &Path) -> io::Result<()> {
    fs::copy(from, to)?;
    let modified = fs::metadata(from)?.modified()?;
    File::options().write(true).open(to)?.set_modified(modified)
}

pub(crate) fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), Error> {
    let bytes = serde_json::to_vec(value)
        .map_err(|error| Error::Damaged { path: path.to_owned(), reason: error.to_string() })?;
    write_file(path, &bytes)
}

/// Reads what [`write_json`] wrote, if there is such a file.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Error> {
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|error| Error::Damaged { path: path.to_owned(), reason: error.to_string() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::file("read", path)(error)),
    }
}

/// Runs what reads or writes many files on a thread that may block.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
