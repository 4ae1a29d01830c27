//! The folder beside the skills in which an import prepares them, and what is left of one that was killed.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

/// What its name begins with, hidden, so that no scan of skills reads it.
pub(super) const PREFIX: &str = ".drawloom-import-";

const NEW: &str = "new";
const OLD: &str = "old";

/// The file that says where the skills go.
const DESTINATION: &str = "destination";

/// The folder, while its import runs. It is locked, so that no other import takes it for a leftover.
pub(super) struct Staging {
    folder: tempfile::TempDir,
    _lock: File,
}

impl Staging {
    pub(super) fn new(beside: &Path, destination: &Path) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(beside)?;
        let lock = File::open(folder.path())?;
        lock.lock()?;
        let staging = Self { folder, _lock: lock };
        fs::create_dir(staging.new_skills())?;
        fs::create_dir(staging.old_skills())?;
        let destination = std::path::absolute(destination)?;
        fs::write(staging.folder.path().join(DESTINATION), destination.as_os_str().as_encoded_bytes())?;
        Ok(staging)
    }

    /// Skills that were copied and are not in their places yet.
    pub(super) fn new_skills(&self) -> PathBuf {
        self.folder.path().join(NEW)
    }

    /// What was in their places.
    pub(super) fn old_skills(&self) -> PathBuf {
        self.folder.path().join(OLD)
    }
}

/// Removes what imports that were killed left in a folder. A skill that was taken out of its place and not replaced is put back
/// first.
pub(super) fn clean(beside: &Path) {
    let beside = if beside.as_os_str().is_empty() { Path::new(".") } else { beside };
    for entry in fs::read_dir(beside).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if !is_ours || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let path = entry.path();
        // One that is locked belongs to an import that runs.
        let is_free = File::open(&path).is_ok_and(|folder| folder.try_lock().is_ok());
        if is_free && let Err(error) = put_back(&path).and_then(|()| fs::remove_dir_all(&path)) {
            tracing::warn!(path = %path.display(), %error, "cannot remove files of an earlier import");
        }
    }
}

/// Removes config files that imports which were killed did not rename. The folder is locked, so that no other import writes one.
pub(super) fn clean_files(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if is_ours
            && entry.file_type().is_ok_and(|kind| kind.is_file())
            && let Err(error) = fs::remove_file(entry.path())
        {
            tracing::warn!(path = %entry.path().display(), %error, "cannot remove files of an earlier import");
        }
    }
}

fn put_back(folder: &Path) -> io::Result<()> {
    let old: Vec<_> = match fs::read_dir(folder.join(OLD)) {
        Ok(entries) => entries.collect::<io::Result<_>>()?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if old.is_empty() {
        return Ok(());
    }
    let destination = PathBuf::from(fs::read_to_string(folder.join(DESTINATION))?);
    for skill in old {
        let to = destination.join(skill.file_name());
        if fs::symlink_metadata(&to).is_err() {
            fs::rename(skill.path(), to)?;
        }
    }
    Ok(())
}
