//! Finding what changed in a checkout: git compares it with our index, and we look for what git does not see.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt as _, fs::FileTypeExt as _},
    path::{Path, PathBuf},
};

use crate::{
    checkouts::Checkouts,
    error::Error,
    git::{Repository, parts},
    places::blocking,
    state::Goal,
};

/// Most entries of a checkout that are looked at for special files.
const MOST_ENTRIES: usize = 1_000_000;

/// What changed in a checkout.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// Changed, new and deleted paths, and whether the index has them.
    pub(crate) changed: BTreeMap<Vec<u8>, Tracked>,
    /// Ignored files and directories.
    pub(crate) ignored: Vec<Vec<u8>>,
    /// Files that are neither regular files nor links.
    pub(crate) special: Vec<Vec<u8>>,
    /// Folders whose path is too long to look into. Git does not see what is in them.
    pub(crate) too_deep: Vec<Vec<u8>>,
    /// Whether there were more new files than can be listed.
    pub(crate) has_too_many: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tracked {
    Yes,
    No,
}

impl Checkouts {
    /// Compares the files in `work_tree` with the index, and lists what git does not see.
    pub(crate) async fn scan(
        &self,
        goal: &Goal,
        repository: Repository,
        work_tree: &Path,
        index: &Path,
    ) -> Result<Scan, Error> {
        let ignored = ["ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory"];
        let ignored = self.git(goal, repository).work_tree(work_tree, index).args(ignored).ok();
        let (scan, ignored) = tokio::join!(self.scan_changed(goal, repository, work_tree, index), ignored);
        let (mut scan, ignored) = (scan?, parts(&ignored?.stdout));
        let (top, skipped): (PathBuf, BTreeSet<Vec<u8>>) = (work_tree.to_owned(), ignored.iter().cloned().collect());
        scan.ignored = ignored;
        (scan.special, scan.too_deep) = blocking(move || unseen(&top, &skipped)).await;
        Ok(scan)
    }

    /// The changed, new and deleted files alone.
    pub(crate) async fn scan_changed(
        &self,
        goal: &Goal,
        repository: Repository,
        work_tree: &Path,
        index: &Path,
    ) -> Result<Scan, Error> {
        let git = || self.git(goal, repository).work_tree(work_tree, index);
        let asked = ["ls-files", "-z", "-t", "--modified", "--deleted", "--others", "--exclude-standard"];
        let listed = git().args(asked).ok().await?;
        let mut scan = Scan { has_too_many: listed.missing > 0, ..Scan::default() };
        let listed = match scan.has_too_many {
            true => git().args(["ls-files", "-z", "-t", "--modified", "--deleted"]).ok().await?.bytes()?,
            false => listed.stdout,
        };
        for entry in parts(&listed) {
            let (tag, path) = entry.split_at_checked(2).unwrap_or((&[], &entry));
            let tracked = if tag == b"? " { Tracked::No } else { Tracked::Yes };
            scan.changed.insert(path.to_vec(), tracked);
        }
        Ok(scan)
    }
}

/// The longest path that the kernel takes, in bytes, without its end.
const MAX_PATH: usize = 4_095;

/// Whether the kernel does not take the path of a file in a directory.
pub(crate) fn is_too_long(top: &Path, path: &[u8]) -> bool {
    top.as_os_str().len() + 1 + path.len() > MAX_PATH
}

/// What git does not see in a directory, except in ignored parts of it: pipes, sockets and devices, and folders with too long a path.
fn unseen(top: &Path, ignored: &BTreeSet<Vec<u8>>) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let (mut special, mut too_deep) = (Vec::new(), Vec::new());
    let (mut open, mut seen) = (vec![Vec::new()], 0);
    while let Some(directory) = open.pop() {
        let Ok(entries) = fs::read_dir(top.join(OsStr::from_bytes(&directory))) else { continue };
        for entry in entries.flatten() {
            seen += 1;
            if seen > MOST_ENTRIES {
                return (special, too_deep);
            }
            let (name, Ok(kind)) = (entry.file_name(), entry.file_type()) else { continue };
            let mut path = directory.clone();
            path.extend_from_slice(name.as_bytes());
            if kind.is_dir() {
                path.push(b'/');
                match name != ".git" && !ignored.contains(&path) {
                    true if is_too_long(top, &path) => too_deep.push(path),
                    true => open.push(path),
                    false => {}
                }
            } else if kind.is_fifo() || kind.is_socket() || kind.is_block_device() || kind.is_char_device() {
                special.push(path);
            }
        }
    }
    (special, too_deep)
}
