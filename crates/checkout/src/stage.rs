//! Checking the changed files of a checkout and copying those that may be kept. Git gets the copies: what was checked is what is
//! committed, whatever a process does to the checkout meanwhile.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs::{self, File},
    io::Read as _,
    os::{
        fd::OwnedFd,
        unix::{ffi::OsStrExt as _, fs::OpenOptionsExt as _},
    },
    path::{Path, PathBuf},
    sync::Arc,
};

use drawloom_contract::redact::Redactor;
use globset::GlobSet;
use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, openat2, readlinkat, statat},
    io::Errno,
};
use serde::{Deserialize, Serialize};

use crate::{
    embedded::{EmbeddedRepositories, is_bytecode},
    error::Error,
    names::{is_git_name, shown},
    scan::{Scan, Tracked, is_too_long},
    seen::Seen,
};

/// A file that a checkpoint does not contain, or contains as it was before.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LeftOut {
    pub path: String,
    pub reason: Reason,
}

/// Why a file is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// `.gitignore` says so.
    Ignored,
    /// Its name is one of files with secrets.
    SecretName,
    /// Its content has a secret.
    Secret,
    /// It is larger than one file may be, or all changed files together are too large.
    TooLarge,
    /// There are more new files than a checkpoint keeps.
    TooMany,
    /// It is a git repository of its own.
    NestedRepository,
    /// It is a submodule.
    Submodule,
    /// It is a link to something outside of the checkout.
    LeadsOut,
    /// It is a pipe, a socket or a device.
    SpecialFile,
    /// It is in a directory that git takes for a repository: its settings and hooks would be used there.
    EmbeddedRepository,
    /// It is compiled code that an interpreter loads in place of its source.
    Bytecode,
    /// The setup command made or changed it, and the worker did not.
    Setup,
    /// Git refuses the name.
    GitName,
    /// It cannot be read.
    Unreadable,
    /// It lies below so many folders that no program can open it by its path.
    PathTooLong,
}

impl Reason {
    /// Whether the file comes back when a program is run again, so that nothing is lost with it.
    pub fn can_be_made_again(self) -> bool {
        matches!(self, Self::Ignored | Self::Bytecode | Self::Setup)
    }
}

/// What may be kept.
pub(crate) struct Rules {
    pub(crate) leave_out: GlobSet,
    pub(crate) keep: GlobSet,
    pub(crate) redactor: Arc<Redactor>,
    pub(crate) max_file_bytes: u64,
    pub(crate) max_total_bytes: u64,
    pub(crate) max_new_files: usize,
    pub(crate) submodules: Vec<String>,
    /// What the setup command left, by path.
    pub(crate) setup: BTreeMap<String, String>,
}

/// The changed files that may be kept.
#[derive(Debug, Default)]
pub(crate) struct Staged {
    /// The paths of copies in the stage.
    pub(crate) copied: Vec<Vec<u8>>,
    /// Paths that the index has and the checkout has not.
    pub(crate) deleted: Vec<Vec<u8>>,
    pub(crate) left_out: Vec<LeftOut>,
    pub(crate) counts: BTreeMap<Reason, u64>,
}

/// Most files that are listed by name for each reason.
const MOST_LISTED: u64 = 50;

impl Staged {
    fn leave_out(&mut self, path: &[u8], reason: Reason) {
        let count = self.counts.entry(reason).or_default();
        *count += 1;
        if *count <= MOST_LISTED {
            self.left_out.push(LeftOut { path: shown(path), reason });
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.copied.is_empty() && self.deleted.is_empty()
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.copied.iter().chain(&self.deleted)
    }
}

/// Checks the changed files of `from` and copies those that may be kept to `to`, an empty directory.
pub(crate) fn stage(from: &Path, to: &Path, scan: &Scan, rules: &Rules) -> Result<Staged, Error> {
    let mut staged = Staged::default();
    let top = File::open(from).map_err(Error::file("open", from))?;
    let mut stage =
        Stage { top: top.into(), to: to.to_owned(), rules, bytes: 0, repositories: EmbeddedRepositories::default() };
    let (of_setup, changed): (Vec<_>, Vec<_>) = scan.changed.iter().partition(|(path, _)| stage.is_of_setup(path));
    of_setup.iter().for_each(|(path, _)| staged.leave_out(path, Reason::Setup));
    let new = changed.iter().filter(|(_, tracked)| **tracked == Tracked::No).count();
    let too_many = new > rules.max_new_files;
    for (path, tracked) in changed {
        let kept = match (tracked, too_many) {
            (Tracked::No, true) => Err(Reason::TooMany),
            (Tracked::No | Tracked::Yes, _) => stage.one(path, *tracked)?,
        };
        match kept {
            Ok(Kept::Copied) => staged.copied.push(path.clone()),
            Ok(Kept::Deleted) => staged.deleted.push(path.clone()),
            Err(reason) => staged.leave_out(path, reason),
        }
    }
    if scan.has_too_many {
        staged.leave_out(b"", Reason::TooMany);
    }
    for path in &scan.special {
        if !scan.changed.contains_key(path) {
            staged.leave_out(path, Reason::SpecialFile);
        }
    }
    for path in &scan.ignored {
        staged.leave_out(path, Reason::Ignored);
    }
    for path in &scan.too_deep {
        staged.leave_out(path, Reason::PathTooLong);
    }
    staged.left_out.sort();
    Ok(staged)
}

/// What is kept of a path.
enum Kept {
    Copied,
    Deleted,
}

struct Stage<'a> {
    top: OwnedFd,
    to: PathBuf,
    rules: &'a Rules,
    /// How much was copied so far.
    bytes: u64,
    repositories: EmbeddedRepositories,
}

impl Stage<'_> {
    fn is_of_setup(&self, path: &[u8]) -> bool {
        let left = self.rules.setup.get(&shown(path));
        left.is_some_and(|left| *left == Seen::at(&self.top, path).text())
    }

    /// Copies one path, or says why it is left out.
    fn one(&mut self, path: &[u8], tracked: Tracked) -> Result<Result<Kept, Reason>, Error> {
        if self.rules.submodules.iter().any(|submodule| *submodule == shown(path)) {
            return Ok(Err(Reason::Submodule));
        }
        if path.ends_with(b"/") {
            return Ok(Err(Reason::NestedRepository));
        }
        if tracked == Tracked::No && is_too_long(&self.to, path) {
            return Ok(Err(Reason::PathTooLong));
        }
        let (parent, name) = match path.iter().rposition(|byte| *byte == b'/') {
            Some(at) => (&path[..at], &path[at + 1..]),
            None => (&b"."[..], path),
        };
        let name = OsStr::from_bytes(name);
        // Below the checkout, and through no link: git has no file behind a link.
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let found = openat2(&self.top, OsStr::from_bytes(parent), flags, Mode::empty(), beneath)
            .and_then(|parent| statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW).map(|stat| (parent, stat)));
        let (parent, stat) = match found {
            Ok(found) => found,
            // Gone, or something else is where its directory was: for git it is deleted.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) if tracked == Tracked::Yes => return Ok(Ok(Kept::Deleted)),
            Err(_) => return Ok(Err(Reason::Unreadable)),
        };
        let kind = FileType::from_raw_mode(stat.st_mode);
        if is_git_name(path, kind == FileType::Symlink) {
            return Ok(Err(Reason::GitName));
        }
        let is_file = matches!(kind, FileType::Symlink | FileType::RegularFile);
        if is_file && is_bytecode(path) {
            return Ok(Err(Reason::Bytecode));
        }
        if is_file && self.repositories.contain(&self.top, path) {
            return Ok(Err(Reason::EmbeddedRepository));
        }
        match kind {
            // A directory where the index has a file: the file is deleted. What is in the directory are other paths.
            FileType::Directory if tracked == Tracked::Yes => Ok(Ok(Kept::Deleted)),
            FileType::Symlink => self.link(path, &parent, name),
            FileType::RegularFile if self.is_secret_name(name) => Ok(Err(Reason::SecretName)),
            FileType::RegularFile => self.file(path, &parent, name),
            _ => Ok(Err(Reason::SpecialFile)),
        }
    }

    fn is_secret_name(&self, name: &OsStr) -> bool {
        let name = Path::new(name);
        self.rules.leave_out.is_match(name) && !self.rules.keep.is_match(name)
    }

    fn link(&self, path: &[u8], parent: &OwnedFd, name: &OsStr) -> Result<Result<Kept, Reason>, Error> {
        let Ok(target) = readlinkat(parent, name, Vec::new()) else { return Ok(Err(Reason::Unreadable)) };
        if leads_out(path, target.to_bytes()) || self.resolves_outside(path) {
            return Ok(Err(Reason::LeadsOut));
        }
        let to = self.place(path)?;
        std::os::unix::fs::symlink(OsStr::from_bytes(target.to_bytes()), &to).map_err(Error::file("create", to))?;
        Ok(Ok(Kept::Copied))
    }

    /// Whether the kernel leaves the checkout on the way to where a link leads, over other links too.
    fn resolves_outside(&self, path: &[u8]) -> bool {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let resolved = openat2(&self.top, OsStr::from_bytes(path), flags, Mode::empty(), beneath);
        matches!(resolved, Err(Errno::XDEV))
    }

    fn file(&mut self, path: &[u8], parent: &OwnedFd, name: &OsStr) -> Result<Result<Kept, Reason>, Error> {
        // Should a pipe have taken its place, opening must not wait.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Ok(file) = rustix::fs::openat(parent, name, flags, Mode::empty()) else {
            return Ok(Err(Reason::Unreadable));
        };
        let file = File::from(file);
        let Ok(metadata) = file.metadata() else { return Ok(Err(Reason::Unreadable)) };
        let most = self.rules.max_file_bytes.min(self.rules.max_total_bytes.saturating_sub(self.bytes));
        if !metadata.is_file() {
            return Ok(Err(Reason::SpecialFile));
        }
        if metadata.len() > most {
            return Ok(Err(Reason::TooLarge));
        }
        let mut content = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0));
        if file.take(most + 1).read_to_end(&mut content).is_err() {
            return Ok(Err(Reason::Unreadable));
        }
        if content.len() as u64 > most {
            return Ok(Err(Reason::TooLarge));
        }
        if self.rules.redactor.clean(String::from_utf8_lossy(&content).into_owned()).is_masked() {
            return Ok(Err(Reason::Secret));
        }
        self.bytes += content.len() as u64;
        let to = self.place(path)?;
        let mode =
            if std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o100 == 0 { 0o600 } else { 0o700 };
        let mut options = File::options();
        let written = options.write(true).create_new(true).mode(mode).open(&to);
        written
            .and_then(|mut file| std::io::Write::write_all(&mut file, &content))
            .map_err(Error::file("write", to))?;
        Ok(Ok(Kept::Copied))
    }

    /// Where the copy of a path goes; the directory is made.
    fn place(&self, path: &[u8]) -> Result<PathBuf, Error> {
        let to = self.to.join(OsStr::from_bytes(path));
        let directory = to.parent().expect("a path in the stage has a directory");
        fs::create_dir_all(directory).map_err(Error::file("create", directory))?;
        Ok(to)
    }
}

/// Whether a link at `path` leads out of the checkout, or into its git directory, by its text alone.
fn leads_out(path: &[u8], target: &[u8]) -> bool {
    if target.starts_with(b"/") || target.is_empty() {
        return true;
    }
    let mut depth = path.iter().filter(|byte| **byte == b'/').count();
    for part in target.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => match depth.checked_sub(1) {
                Some(less) => depth = less,
                None => return true,
            },
            part if is_git_name(part, false) => return true,
            _ => depth += 1,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_kept_only_when_they_stay_inside() {
        for (path, target) in [("a", "b"), ("a/b", "../c"), ("a/b/c", "../../d/e"), ("a", "b/../c"), ("a", "missing")] {
            assert!(!leads_out(path.as_bytes(), target.as_bytes()), "{path} -> {target}");
        }
        for (path, target) in [
            ("a", "/etc/passwd"),
            ("a", "../x"),
            ("a/b", "../../x"),
            ("a", "b/../../x"),
            ("a", ".git/config"),
            ("a", ""),
        ] {
            assert!(leads_out(path.as_bytes(), target.as_bytes()), "{path} -> {target}");
        }
    }
}
