//! The raw differences of two trees: modes and object ids, nothing of the content.

use crate::{checkouts::Checkouts, diff::Status, error::Error, git::Repository, oid::Oid, state::Goal};

/// A file as a tree has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) mode: String,
    pub(crate) id: String,
}

/// The mode of a link.
pub(crate) const LINK: &str = "120000";
/// The mode of a submodule.
pub(crate) const SUBMODULE: &str = "160000";
/// The mode of a missing file.
const ABSENT: &str = "000000";

/// A file that differs between two trees.
#[derive(Debug, Clone)]
pub(crate) struct RawChange {
    pub(crate) path: Vec<u8>,
    /// Absent when the first tree does not have it.
    pub(crate) old: Option<Entry>,
    /// Absent when the second tree does not have it.
    pub(crate) new: Option<Entry>,
    pub(crate) status: Status,
}

impl Checkouts {
    /// The files that differ between two trees. A renamed file is one that was deleted and one that was added.
    pub(crate) async fn raw_changes(
        &self,
        goal: &Goal,
        from: &Oid,
        to: &Oid,
        globs: &[&str],
    ) -> Result<Vec<RawChange>, Error> {
        let asked = ["diff-tree", "-r", "-z", "--raw", "--no-renames", from.as_str(), to.as_str(), "--"];
        let git = self.git(goal, Repository::Ours).with_globs().args(asked).args(globs);
        Ok(read(&git.ok().await?.parts()?))
    }

    /// All files of a tree, each with its path.
    pub(crate) async fn entries(&self, goal: &Goal, tree: &Oid) -> Result<Vec<(Vec<u8>, Entry)>, Error> {
        let asked = ["ls-tree", "-r", "-z", "--full-tree", tree.as_str()];
        let listed = self.git(goal, Repository::Ours).args(asked).ok().await?.parts()?;
        Ok(listed.iter().filter_map(|line| entry_of(line)).collect())
    }
}

/// Reads a line of `ls-tree -z`.
fn entry_of(line: &[u8]) -> Option<(Vec<u8>, Entry)> {
    let at = line.iter().position(|byte| *byte == b'\t')?;
    let fields: Vec<&str> = std::str::from_utf8(&line[..at]).ok()?.split(' ').collect();
    let [mode, _, id] = fields[..] else { return None };
    Some((line[at + 1..].to_vec(), Entry { mode: mode.to_owned(), id: id.to_owned() }))
}

/// Reads the answer of `diff-tree -z --raw --no-renames`.
fn read(parts: &[Vec<u8>]) -> Vec<RawChange> {
    let read = parts.chunks_exact(2).filter_map(|pair| {
        let raw = std::str::from_utf8(pair[0].strip_prefix(b":")?).ok()?;
        let fields: Vec<&str> = raw.split(' ').collect();
        let [old_mode, new_mode, old, new, letter] = fields[..] else { return None };
        let status = match letter {
            "A" => Status::Added,
            "D" => Status::Deleted,
            "T" => Status::TypeChanged,
            _ => Status::Modified,
        };
        let entry = |mode: &str, id: &str| (mode != ABSENT).then(|| Entry { mode: mode.to_owned(), id: id.to_owned() });
        Some(RawChange { path: pair[1].clone(), old: entry(old_mode, old), new: entry(new_mode, new), status })
    });
    read.collect()
}

/// Adds a line as `update-index -z --index-info` reads it. A file without an entry is removed.
pub(crate) fn index_line(input: &mut Vec<u8>, path: &[u8], entry: Option<&Entry>, zero: &str) {
    let (mode, id) = entry.map_or(("0", zero), |entry| (entry.mode.as_str(), entry.id.as_str()));
    input.extend_from_slice(format!("{mode} {id} 0\t").as_bytes());
    input.extend_from_slice(path);
    input.push(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_changes_are_read() {
        let zero = "0".repeat(40);
        let answer = format!(":100644 000000 {zero} {zero} D\0a\nb\0:000000 120000 {zero} {zero} A\0c");
        let parts: Vec<Vec<u8>> = answer.split('\0').map(|part| part.as_bytes().to_vec()).collect();
        let changes = read(&parts);
        assert_eq!((changes[0].path.as_slice(), changes[0].status), (&b"a\nb"[..], Status::Deleted));
        assert!(changes[0].new.is_none() && changes[1].old.is_none());
        assert_eq!(changes[1].new.as_ref().map(|entry| entry.mode.as_str()), Some(LINK));
    }
}
