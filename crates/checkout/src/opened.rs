//! The repository that git opened. It may lie elsewhere than the directory that a caller named, and another one may take its place
//! later.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use crate::{checkouts::Checkouts, error::Error, prepare::Facts, state::Record};

/// Directories of a repository whose entries git follows when they are links.
const FOLLOWED: &[&str] = &[".", "info", "objects", "objects/info", "objects/pack", "refs", "refs/heads"];

/// The repository of a goal.
#[derive(Debug, Clone)]
pub(crate) struct OpenedRepository {
    common: PathBuf,
    inode: Option<u64>,
    /// Whether it may lie outside of the directories that are allowed today.
    is_cleaned: bool,
}

impl Record {
    pub(crate) fn opened(&self) -> OpenedRepository {
        OpenedRepository { common: self.common.clone(), inode: self.inode, is_cleaned: self.is_cleaned }
    }
}

/// What tells a directory from another one at the same path.
pub(crate) fn inode_of(directory: &Path) -> Result<u64, Error> {
    fs::metadata(directory).map(|found| found.ino()).map_err(Error::file("read", directory))
}

impl Checkouts {
    /// Refuses a repository that is, or borrows from, something outside of the allowed directories: a `.git` file, `commondir`,
    /// alternates, `core.worktree` and links all lead elsewhere.
    pub(crate) fn check_opened(&self, directory: &Path, facts: &Facts, borrowed: &[PathBuf]) -> Result<(), Error> {
        let real = directory.canonicalize().map_err(Error::file("resolve", directory))?;
        if real != directory {
            return Err(Error::OtherDirectory { path: directory.to_owned(), reason: "a part of its path is a link" });
        }
        if self.parts.directories.is_empty() {
            return Ok(());
        }
        let top = facts.work_tree.iter().map(|(top, _)| top.clone());
        let opened = [real, facts.git_directory.clone(), facts.common.clone(), facts.objects.clone()];
        let all = top.chain(opened).chain(borrowed.iter().cloned());
        let found = all.chain(links(&facts.common)).find(|path| !self.may_read(path));
        match found {
            None => Ok(()),
            Some(outside) => Err(Error::NotAllowed { directory: directory.to_owned(), outside }),
        }
    }

    /// Refuses what is at the path of a goal's repository now, when it is not the one that the goal was prepared for.
    pub(crate) fn check_opened_again(&self, repository: &OpenedRepository) -> Result<(), Error> {
        let OpenedRepository { common, inode, is_cleaned } = repository;
        let replaced = |reason| Err(Error::OtherDirectory { path: common.clone(), reason });
        match common.canonicalize() {
            Ok(real) if real != *common => return replaced("a part of its path is a link now"),
            Ok(_) => {}
            Err(error) => return Err(Error::file("resolve", common)(error)),
        }
        if inode.is_some_and(|inode| inode_of(common).is_ok_and(|found| found != inode)) {
            return replaced("another directory is there now");
        }
        match *is_cleaned || self.may_read(common) {
            true => Ok(()),
            false => Err(Error::NotAllowed { directory: common.clone(), outside: common.clone() }),
        }
    }

    /// Whether a path is in a directory that goals may work in.
    pub(crate) fn may_read(&self, path: &Path) -> bool {
        let allowed = &self.parts.directories;
        let Ok(real) = path.canonicalize() else { return true };
        allowed.is_empty()
            || allowed.iter().filter_map(|allowed| allowed.canonicalize().ok()).any(|allowed| real.starts_with(allowed))
    }
}

/// What no git of ours follows.
const NOT_FOLLOWED: &str = "hooks";

/// The links in a git directory that git follows.
fn links(common: &Path) -> Vec<PathBuf> {
    let entries = FOLLOWED.iter().flat_map(|part| fs::read_dir(common.join(part)).into_iter().flatten().flatten());
    let links = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
    links.filter(|entry| entry.file_name() != NOT_FOLLOWED).map(|entry| entry.path()).collect()
}
