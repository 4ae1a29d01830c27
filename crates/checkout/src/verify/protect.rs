//! Protected paths: the tree of a commit, with these paths as the base has them.

use std::{collections::BTreeSet, ffi::OsStr, fs, os::unix::ffi::OsStrExt as _, path::Path};

use serde::{Deserialize, Serialize};

use super::Verify;
use crate::{
    checkouts::{Checkouts, globs},
    diff::Status,
    error::Error,
    git::Repository,
    names::{rooted, shown},
    oid::Oid,
    places::{blocking, make_directory},
    raw::{Entry, RawChange, index_line},
    state::Goal,
};

/// A protected path that a commit changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tampered {
    pub path: String,
    pub status: Status,
}

impl Tampered {
    pub(crate) fn how(&self) -> &'static str {
        match self.status {
            Status::Added => "added",
            Status::Deleted => "deleted",
            Status::TypeChanged => "replaced by another kind of file",
            Status::Modified | Status::Renamed | Status::Copied => "changed",
        }
    }
}

/// What protected paths mean for a commit.
pub(super) struct Protected {
    /// The tree to verify.
    pub(super) tree: Oid,
    pub(super) tampered: Vec<Tampered>,
    /// The protected files of the base.
    pub(super) files: Vec<ProtectedFile>,
    /// Globs that match no file of the base.
    pub(super) unused: Vec<String>,
}

/// A protected file, as the base has it.
#[derive(Debug, Clone)]
pub(super) struct ProtectedFile {
    pub(super) path: Vec<u8>,
    pub(super) entry: Entry,
}

impl Checkouts {
    /// The tree to verify, and what was restored for it.
    pub(super) async fn protect(
        &self,
        goal: &Goal,
        verify: &Verify,
        tree: &Oid,
        base_tree: &Oid,
    ) -> Result<Protected, Error> {
        let mut found = Protected { tree: tree.clone(), tampered: Vec::new(), files: Vec::new(), unused: Vec::new() };
        if verify.protect.is_empty() {
            return Ok(found);
        }
        let subdirectory = &goal.record.prepared.subdirectory;
        let wanted: Vec<String> =
            verify.protect.iter().map(|glob| rooted(glob, subdirectory)).collect::<Result<_, _>>()?;
        let protected = globs(&wanted)?;
        let files = self.entries(goal, base_tree).await?;
        found.unused = unused(&files, &wanted)?;
        let all = self.raw_changes(goal, base_tree, tree, &[]).await?;
        let is_protected = |path: &[u8]| protected.is_match(Path::new(OsStr::from_bytes(path)));
        let files = files.into_iter().filter(|(path, _)| is_protected(path));
        found.files = files.map(|(path, entry)| ProtectedFile { path, entry }).collect();
        let mut restored: Vec<&RawChange> = all.iter().filter(|file| is_protected(&file.path)).collect();
        // Files of the commit where the base has a directory with protected files: they give way.
        let wanted = restored.iter().filter(|file| file.old.is_some());
        let above: BTreeSet<Vec<u8>> = wanted.flat_map(|file| directories(&file.path)).collect();
        restored.extend(
            all.iter().filter(|file| file.new.is_some() && above.contains(&file.path) && !is_protected(&file.path)),
        );
        if restored.is_empty() {
            return Ok(found);
        }
        let (mut input, zero) = (Vec::new(), tree.zero());
        // Removals first: what is restored may be a directory where the commit has a file.
        for file in restored.iter().filter(|file| file.old.is_none()) {
            index_line(&mut input, &file.path, None, &zero);
        }
        for file in restored.iter().filter(|file| file.old.is_some()) {
            index_line(&mut input, &file.path, file.old.as_ref(), &zero);
        }
        let indexes = goal.places.indexes(&format!(".protect-{}", verify.key));
        let (index, places) = (indexes.join("next"), goal.places.clone());
        let again = indexes.clone();
        blocking(move || places.remove(&again).and_then(|()| make_directory(&again))).await?;
        let git = || self.git(goal, Repository::Ours).index(&index);
        git().args(["read-tree", tree.as_str()]).ok().await?;
        git().args(["update-index", "-z", "--add", "--replace", "--index-info"]).input(input).ok().await?;
        found.tree = git().args(["write-tree"]).ok().await?.oid()?;
        fs::remove_dir_all(&indexes).map_err(Error::file("remove", indexes))?;
        let tampered = restored.iter().map(|file| Tampered { path: shown(&file.path), status: file.status });
        found.tampered = tampered.collect();
        Ok(found)
    }
}

/// The globs that match no file of the base: a typing error, or files that do not exist yet.
fn unused(files: &[(Vec<u8>, Entry)], wanted: &[String]) -> Result<Vec<String>, Error> {
    let mut unused = Vec::new();
    for glob in wanted {
        let one = globs(std::slice::from_ref(glob))?;
        if !files.iter().any(|(file, _)| one.is_match(Path::new(OsStr::from_bytes(file)))) {
            unused.push(glob.clone());
        }
    }
    Ok(unused)
}

/// The directories above a path.
fn directories(path: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| path[..at].to_vec())
}
