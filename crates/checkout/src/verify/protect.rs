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
    /// Globs that match no file of the base.
    pub(super) unused: Vec<String>,
}

/// A file that differs from the base.
struct Different {
    path: Vec<u8>,
    /// Mode and id in the base; absent when the base does not have it.
    base: Option<(String, String)>,
    is_in_commit: bool,
    status: Status,
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
        let mut found = Protected { tree: tree.clone(), tampered: Vec::new(), unused: Vec::new() };
        if verify.protect.is_empty() {
            return Ok(found);
        }
        let subdirectory = &goal.record.prepared.subdirectory;
        let wanted: Vec<String> =
            verify.protect.iter().map(|glob| rooted(glob, subdirectory)).collect::<Result<_, _>>()?;
        let protected = globs(&wanted)?;
        found.unused = self.unused(goal, base_tree, &wanted).await?;
        let asked = ["diff-tree", "-r", "-z", "--raw", "--no-renames", base_tree.as_str(), tree.as_str()];
        let all = read(&self.git(goal, Repository::Ours).args(asked).ok().await?.parts()?);
        let is_protected = |path: &[u8]| protected.is_match(Path::new(OsStr::from_bytes(path)));
        let mut restored: Vec<&Different> = all.iter().filter(|file| is_protected(&file.path)).collect();
        // Files of the commit where the base has a directory with protected files: they give way.
        let wanted = restored.iter().filter(|file| file.base.is_some());
        let above: BTreeSet<Vec<u8>> = wanted.flat_map(|file| directories(&file.path)).collect();
        restored.extend(
            all.iter().filter(|file| file.is_in_commit && above.contains(&file.path) && !is_protected(&file.path)),
        );
        if restored.is_empty() {
            return Ok(found);
        }
        let mut input = Vec::new();
        // Removals first: what is restored may be a directory where the commit has a file.
        for file in restored.iter().filter(|file| file.base.is_none()) {
            entry(&mut input, "0", &tree.zero(), &file.path);
        }
        for file in &restored {
            if let Some((mode, id)) = &file.base {
                entry(&mut input, mode, id, &file.path);
            }
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

    /// The globs that match no file of the base: a typing error, or files that do not exist yet.
    async fn unused(&self, goal: &Goal, base_tree: &Oid, wanted: &[String]) -> Result<Vec<String>, Error> {
        let listed = self.git(goal, Repository::Ours).args(["ls-tree", "-r", "-z", "--name-only", base_tree.as_str()]);
        let files = listed.ok().await?.parts()?;
        let mut unused = Vec::new();
        for glob in wanted {
            let one = globs(std::slice::from_ref(glob))?;
            if !files.iter().any(|file| one.is_match(Path::new(OsStr::from_bytes(file)))) {
                unused.push(glob.clone());
            }
        }
        Ok(unused)
    }
}

/// A line as `update-index --index-info` reads it.
fn entry(input: &mut Vec<u8>, mode: &str, id: &str, path: &[u8]) {
    input.extend_from_slice(format!("{mode} {id} 0\t").as_bytes());
    input.extend_from_slice(path);
    input.push(0);
}

/// The directories above a path.
fn directories(path: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| path[..at].to_vec())
}

/// Reads the answer of `diff-tree -z --raw --no-renames`.
fn read(parts: &[Vec<u8>]) -> Vec<Different> {
    let pairs = parts.chunks_exact(2);
    let read = pairs.filter_map(|pair| {
        let raw = std::str::from_utf8(pair[0].strip_prefix(b":")?).ok()?;
        let fields: Vec<&str> = raw.split(' ').collect();
        let [mode, new_mode, id, _, letter] = fields[..] else { return None };
        let status = match letter {
            "A" => Status::Added,
            "D" => Status::Deleted,
            "T" => Status::TypeChanged,
            _ => Status::Modified,
        };
        let base = (mode != "000000").then(|| (mode.to_owned(), id.to_owned()));
        Some(Different { path: pair[1].clone(), base, is_in_commit: new_mode != "000000", status })
    });
    read.collect()
}
