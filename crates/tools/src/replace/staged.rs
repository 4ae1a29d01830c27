//! Staged files: the new content of a file, synced under a name that no other call has, in the directory of the file or,
//! while that does not exist, in the nearest one above it. That is the same file system, so that a rename moves it.

use std::{
    io::{self, Read as _, Seek as _, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use cap_std::fs::{Dir, File, Metadata, MetadataExt as _, OpenOptions, Permissions};
use drawloom_contract::{
    ids::{Digest, RunId},
    record::Seq,
    redact::MASK,
    tool::{ToolContext, ToolError},
};
use rustix::fs::{Gid, Uid, fchown, fstatfs};
use serde::{Deserialize, Serialize};

use super::{Change, MOST_BYTES};
use crate::files::{Opened, failed};

const PREFIX: &str = ".drawloom-";
const SUFFIX: &str = ".tmp";

/// File systems whose inode numbers change while a file lives, or whose clients may repeat a rename: after a crash they
/// cannot tell whether a staged file was renamed.
const CANNOT_TELL: &[(u64, &str)] = &[
    (0x6573_5546, "fuse"),
    (0x0102_1997, "9p"),
    (0x6969, "nfs"),
    (0x517b, "smb"),
    (0xff53_4d42, "cifs"),
    (0xfe53_4d42, "smb2"),
    (0x4d44, "vfat"),
    (0x2011_bab0, "exfat"),
];

/// Whether this is the name of a staged file. Searches leave them out.
pub(crate) fn is_staged_name(name: &[u8]) -> bool {
    name.starts_with(PREFIX.as_bytes()) && name.ends_with(SUFFIX.as_bytes())
}

/// The name that a call's staged file has.
pub(super) fn staged_name(run: RunId, call: Seq) -> String {
    format!("{PREFIX}{run}-{call}{SUFFIX}")
}

/// A staged file, as journaled. No device numbers: they may change when the machine starts again.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Staged {
    /// Its directory, from the volume's root.
    directory: String,
    directory_inode: u64,
    inode: u64,
    /// The inode of the file that is to be replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    replaces: Option<u64>,
}

impl Staged {
    pub(super) fn directory(&self) -> &Path {
        here(Path::new(&self.directory))
    }
}

/// What became of a staged file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// It is still staged.
    Staged,
    Renamed,
    /// It was renamed after the call had planned again.
    RenamedWithOtherContent,
    /// It is not the same file, or its directory is not the same directory.
    Unknown,
}

/// A directory in which a file can be staged.
pub(super) struct Directory {
    pub(super) dir: Dir,
    /// Where it is, from the volume's root.
    pub(super) path: PathBuf,
    /// The file system, when it cannot tell after a crash whether a file was renamed.
    pub(super) cannot_tell: Option<&'static str>,
}

/// The staging of one call.
pub(super) struct Staging {
    name: String,
}

impl Staging {
    pub(super) fn of(context: &ToolContext) -> Self {
        Self { name: staged_name(context.run.run, context.call) }
    }

    #[cfg(test)]
    pub(super) fn named(name: &str) -> Self {
        Self { name: name.to_owned() }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Where to stage the new content of `target`; nothing when a staged file would be no evidence there.
    pub(super) fn directory(&self, opened: &Opened, target: &Path) -> Result<Option<Directory>, ToolError> {
        let directory = self.any_directory(opened, target)?;
        Ok(Some(directory).filter(|found| found.cannot_tell.is_none() && found.path.to_str().is_some()))
    }

    /// The nearest directory of `target` that exists.
    pub(super) fn any_directory(&self, opened: &Opened, target: &Path) -> Result<Directory, ToolError> {
        for path in target.ancestors().skip(1) {
            match opened.dir.open_dir(here(path)) {
                Ok(dir) => {
                    let kind = fstatfs(&dir).map_err(|error| failed(target, &error.into()))?.f_type;
                    return Ok(Directory {
                        dir,
                        path: path.to_owned(),
                        cannot_tell: cannot_tell(kind.cast_unsigned()),
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed(target, &error)),
            }
        }
        Err(failed(target, &io::ErrorKind::NotFound.into()))
    }

    /// Writes and syncs the new content, with the owner and permissions of the file that it replaces. The notice says which
    /// of them could not be kept.
    pub(super) fn write(
        &self,
        directory: &Directory,
        opened: &Opened,
        change: &Change,
    ) -> Result<(Staged, Option<&'static str>), ToolError> {
        let write = || -> io::Result<(Staged, Option<&'static str>)> {
            self.remove(&directory.dir)?;
            let mut file = directory.dir.open_with(&self.name, OpenOptions::new().write(true).create_new(true))?;
            file.write_all(&change.content)?;
            let old = change.before.map(|_| opened.dir.metadata(&change.path)).transpose()?;
            let notice = old.as_ref().map(|old| give_back(&file, old)).transpose()?.flatten();
            // This makes the file's name durable too, on ext4, XFS, Btrfs and F2FS.
            file.sync_all()?;
            let staged = Staged {
                directory: directory.path.to_string_lossy().into_owned(),
                directory_inode: directory.dir.dir_metadata()?.ino(),
                inode: file.metadata()?.ino(),
                replaces: old.map(|old| old.ino()),
            };
            Ok((staged, notice))
        };
        write().map_err(|error| failed(&change.path, &error))
    }

    /// The directory of a staged file that is as it was journaled, its content made what `change` says: a call plans again
    /// when another call has changed the file since.
    pub(super) fn take_up(&self, staged: &Staged, opened: &Opened, change: &Change) -> Result<Dir, ToolError> {
        let lost = || {
            let path = change.path.display();
            ToolError::Failed(format!(
                "{path}: nothing was written: its temporary file ({}) was removed or replaced; try again",
                self.name
            ))
        };
        let dir = self.find_directory(staged, opened).ok_or_else(lost)?;
        if self.inode(&dir) != Some(staged.inode) {
            return Err(lost());
        }
        self.ensure_content(&dir, opened, change).map_err(|error| failed(&change.path, &error))?;
        Ok(dir)
    }

    /// Writes the content into the staged file, keeping its inode, unless it is there.
    fn ensure_content(&self, dir: &Dir, opened: &Opened, change: &Change) -> io::Result<()> {
        let mut file = dir.open_with(&self.name, OpenOptions::new().read(true).write(true))?;
        let mut content = Vec::new();
        (&mut file).take(MOST_BYTES as u64 + 1).read_to_end(&mut content)?;
        if content == change.content {
            return Ok(());
        }
        file.set_len(0)?;
        file.seek(io::SeekFrom::Start(0))?;
        file.write_all(&change.content)?;
        if change.before.is_some() {
            give_back(&file, &opened.dir.metadata(&change.path)?)?;
        }
        file.sync_all()
    }

    /// What became of a staged file that was journaled with this content. A file that still has the inode that it had before was not replaced; when its staged
    /// content is gone all the same, others removed it.
    pub(super) fn find(&self, staged: &Staged, content: Digest, opened: &Opened) -> Found {
        let Some(dir) = self.find_directory(staged, opened) else { return Found::Unknown };
        match dir.symlink_metadata(&self.name) {
            Ok(metadata) if metadata.ino() == staged.inode => Found::Staged,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let path = super::real_path(opened).unwrap_or_else(|_| opened.place.path.clone());
                match opened.dir.symlink_metadata(&path).ok().map(|metadata| metadata.ino()) {
                    inode if inode == Some(staged.inode) && !self.holds(opened, &path, content) => {
                        Found::RenamedWithOtherContent
                    }
                    inode if inode.is_some() && inode == staged.replaces => Found::Unknown,
                    _ => Found::Renamed,
                }
            }
            _ => Found::Unknown,
        }
    }

    fn holds(&self, opened: &Opened, path: &Path, content: Digest) -> bool {
        let found = super::digest(opened, path, &std::sync::atomic::AtomicBool::new(false));
        found.is_ok_and(|found| found == Some(content))
    }

    /// Removes the staged file. What cannot be removed now is removed when the server starts again.
    pub(super) fn discard(&self, dir: &Dir) {
        if let Err(error) = self.remove(dir) {
            tracing::warn!(name = self.name, %error, "cannot remove a staged file");
        }
    }

    fn remove(&self, dir: &Dir) -> io::Result<()> {
        match dir.remove_file(&self.name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn find_directory(&self, staged: &Staged, opened: &Opened) -> Option<Dir> {
        if staged.directory.contains(MASK) {
            return None;
        }
        let dir = opened.dir.open_dir(staged.directory()).ok()?;
        dir.dir_metadata().is_ok_and(|metadata| metadata.ino() == staged.directory_inode).then_some(dir)
    }

    fn inode(&self, dir: &Dir) -> Option<u64> {
        dir.symlink_metadata(&self.name).ok().map(|metadata| metadata.ino())
    }
}

/// The name of a file system on which a staged file proves nothing.
fn cannot_tell(kind: u64) -> Option<&'static str> {
    CANNOT_TELL.iter().find(|(magic, _)| *magic == kind).map(|(_, name)| *name)
}

/// A path that names a directory also when it is empty.
fn here(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

/// Gives the new file the owner and permissions of the old one, or says what could not be kept. The right to run as the
/// owner is not kept: the agent that wrote this is not trusted with it.
fn give_back(file: &File, old: &Metadata) -> io::Result<Option<&'static str>> {
    let new = file.metadata()?;
    let same = (new.uid(), new.gid()) == (old.uid(), old.gid());
    let owner = (Some(Uid::from_raw(old.uid())), Some(Gid::from_raw(old.gid())));
    let notice = match same || fchown(file, owner.0, owner.1).is_ok() {
        true => None,
        false => Some("[the owner of the file changed: only root can preserve it]"),
    };
    file.set_permissions(Permissions::from_std(std::fs::Permissions::from_mode(old.mode() & 0o777)))?;
    Ok(notice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_systems_without_lasting_identities_are_known() {
        for (kind, name) in [(0x6573_5546, Some("fuse")), (0x4d44, Some("vfat")), (0xef53, None), (0x0102_1994, None)] {
            assert_eq!(cannot_tell(kind), name);
        }
    }
}
