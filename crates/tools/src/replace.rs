//! Changing a file in one step, and the evidence that says after a crash whether it was changed: what `Write` and `Edit`
//! share.

use std::{
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use cap_std::fs::{Dir, OpenOptions};
use drawloom_contract::{
    ids::Digest,
    tool::{ToolContext, ToolError, Verdict},
};
use serde::{Deserialize, Serialize};

use crate::files::{Opened, failed};

/// Most bytes of a file that is changed.
pub(crate) const MOST_BYTES: usize = 1024 * 1024;

/// What the file was before, what it will be, and what the call then says: after a crash the file itself tells which.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Evidence {
    before: Option<Digest>,
    after: Digest,
    #[serde(default)]
    said: String,
}

/// A change that has been thought through but not made.
pub(crate) struct Change {
    /// Where the file really is, links inside the volume followed.
    pub(crate) path: PathBuf,
    pub(crate) before: Option<Digest>,
    pub(crate) content: Vec<u8>,
    pub(crate) said: String,
}

impl Change {
    pub(crate) fn evidence(&self) -> Evidence {
        Evidence { before: self.before, after: Digest::of(&self.content), said: self.said.clone() }
    }

    /// Writes beside the file, then renames: whoever reads sees the old content or the new one. Permissions stay.
    pub(crate) fn make(&self, Opened { dir, .. }: &Opened, temporary: &str) -> Result<String, ToolError> {
        let beside = self.path.with_file_name(temporary);
        let put = || -> io::Result<()> {
            if let Some(parent) = self.path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                dir.create_dir_all(parent)?;
            }
            remove(dir, &beside)?;
            let mut file = dir.open_with(&beside, OpenOptions::new().write(true).create_new(true))?;
            if self.before.is_some() {
                file.set_permissions(dir.metadata(&self.path)?.permissions())?;
            }
            file.write_all(&self.content)?;
            file.sync_all()?;
            dir.rename(&beside, dir, &self.path)
        };
        match put() {
            Ok(()) => Ok(self.said.clone()),
            Err(error) => {
                // What is left of the attempt is of no use to anybody; when it cannot be removed either, the first error tells.
                let _ = dir.remove_file(&beside);
                Err(failed(&self.path, &error))
            }
        }
    }
}

/// What an earlier try of the same call left behind.
fn remove(dir: &Dir, path: &Path) -> io::Result<()> {
    match dir.remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The name of the file beside; nobody else's call has the same.
pub(crate) fn temporary_name(context: &ToolContext) -> String {
    format!(".drawloom-{}-{}.tmp", context.run.run, context.call)
}

/// Where the file really is. A link inside the volume is followed, so that it stays a link; one that leads out is an error.
pub(crate) fn real_path(Opened { dir, place }: &Opened) -> Result<PathBuf, ToolError> {
    let path = &place.path;
    match dir.symlink_metadata(path) {
        Ok(metadata) if metadata.is_symlink() => dir.canonicalize(path).map_err(|error| failed(path, &error)),
        Ok(metadata) if metadata.is_dir() => Err(ToolError::Failed(format!("{}: this is a directory", path.display()))),
        Ok(_) => Ok(path.clone()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(path.clone()),
        Err(error) => Err(failed(path, &error)),
    }
}

/// The digest of the file's content; nothing when there is no file.
pub(crate) fn digest(Opened { dir, .. }: &Opened, path: &Path) -> Result<Option<Digest>, ToolError> {
    match dir.open(path) {
        Ok(mut file) => Digest::of_parts(|buffer| file.read(buffer)).map(Some).map_err(|error| failed(path, &error)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(path, &error)),
    }
}

/// What the file says about a call whose outcome is unknown.
pub(crate) fn verdict(opened: &Opened, evidence: &Evidence) -> Verdict {
    match real_path(opened).and_then(|path| digest(opened, &path)) {
        // Evidence of an older version does not hold what was said.
        Ok(now) if now == Some(evidence.after) && evidence.said.is_empty() => {
            Verdict::Happened(format!("wrote {}", opened.place.path.display()))
        }
        Ok(now) if now == Some(evidence.after) => Verdict::Happened(evidence.said.clone()),
        Ok(now) if now == evidence.before => Verdict::DidNot,
        Ok(_) | Err(_) => Verdict::InDoubt,
    }
}
