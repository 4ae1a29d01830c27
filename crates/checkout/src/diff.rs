//! Differences between commits: which files, how many lines, and the text within a limit.

mod shares;

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::{
    checkouts::Checkouts,
    error::Error,
    git::{Repository, parts},
    names::shown,
    oid::Oid,
    state::Goal,
};
use shares::Section;

/// The most bytes of a whole difference that are read.
const MOST_PATCH: usize = 64 * 1024 * 1024;

/// Git compares no larger files: their sizes say what there is to know.
const LARGE: &str = "core.bigFileThreshold=1m";

/// A file that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Plain text, or quoted as git quotes it.
    pub path: String,
    pub status: Status,
    /// Where it was before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Its size now, in bytes; 0 when it was deleted. Absent in lists that leave sizes out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// How a file differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Added,
    Modified,
    Deleted,
    Renamed,
    Copied,
    /// A file became a link, or the other way round.
    TypeChanged,
}

/// The difference between two commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diff {
    /// The differences of the files, each within its share of the limit. What is missing of a file is said in its place. Secrets
    /// are masked.
    pub text: String,
    /// Whether something is missing.
    pub truncated: bool,
    /// All files that differ, with their sizes.
    pub files: Vec<Change>,
    pub insertions: u64,
    pub deletions: u64,
}

/// Which files differ, and by how many lines.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) files: Vec<Change>,
    pub(crate) insertions: u64,
    pub(crate) deletions: u64,
    /// The files and directories that the second tree has and the first has not.
    pub(crate) objects: Vec<Oid>,
}

impl Checkouts {
    /// What changed from one commit to another, with at most about `most_bytes` of text.
    pub async fn diff(&self, goal: &str, from: &Oid, to: &Oid, most_bytes: usize) -> Result<Diff, Error> {
        let goal = self.goal(goal).await?;
        let (from, to) = tokio::try_join!(self.tree_of(&goal, from), self.tree_of(&goal, to))?;
        let (sections, changes, sizes) = tokio::try_join!(
            self.sections(&goal, &from, &to),
            self.changes(&goal, &from, &to),
            self.sizes(&goal, &to)
        )?;
        let Changes { mut files, insertions, deletions, .. } = changes;
        for file in &mut files {
            file.bytes = Some(sizes.get(&file.path).copied().unwrap_or(0));
        }
        let text = shares::within(&files, sections, most_bytes);
        Ok(Diff { truncated: text.is_cut, text: text.text, files, insertions, deletions })
    }

    /// The sizes of the files of a tree.
    async fn sizes(&self, goal: &Goal, tree: &Oid) -> Result<HashMap<String, u64>, Error> {
        let listed = self.git(goal, Repository::Ours).args(["ls-tree", "-r", "-z", "-l", "--full-tree", tree.as_str()]);
        Ok(listed.ok().await?.parts()?.iter().filter_map(|line| size_of(line)).collect())
    }

    /// The difference of each file, in the order of [`Checkouts::changes`], as far as git writes it within bounds.
    async fn sections(&self, goal: &Goal, from: &Oid, to: &Oid) -> Result<Vec<Section>, Error> {
        let ran =
            self.git(goal, Repository::Shared).setting(LARGE).args(patch_of(from, to)).most(MOST_PATCH).ok().await?;
        // Of what is cut, the part before the cut is whole.
        let end = if ran.missing > 0 { MOST_PATCH / 2 } else { ran.stdout.len() };
        let mut sections = shares::sections(&ran.stdout[..end.min(ran.stdout.len())]);
        for section in &mut sections {
            let text = String::from_utf8_lossy(&section.bytes).into_owned();
            section.bytes = self.parts.redactor.clean(text).into_inner().into_bytes();
        }
        Ok(sections)
    }

    /// The tree of a commit.
    pub async fn tree(&self, goal: &str, commit: &Oid) -> Result<Oid, Error> {
        let goal = self.goal(goal).await?;
        self.tree_of(&goal, commit).await
    }

    /// The text of a difference, of some paths or of all, and whether it was cut.
    pub(crate) async fn patch(
        &self,
        goal: &Goal,
        from: &Oid,
        to: &Oid,
        paths: &[String],
        most: usize,
    ) -> Result<(String, bool), Error> {
        let ran = self.git(goal, Repository::Shared).args(patch_of(from, to)).args(paths).most(most).ok().await?;
        let (truncated, half) = (ran.missing > 0, most - most / 2);
        let tail = ran.stdout.get(half.min(ran.stdout.len())..).unwrap_or_default().to_vec();
        let head = ran.stdout[..ran.stdout.len() - tail.len()].to_vec();
        let captured = drawloom_process::Captured { head, tail, missing: ran.missing };
        let text = captured.whole_lines().into_text();
        Ok((self.parts.redactor.clean(text).into_inner(), truncated))
    }

    /// Which files differ between two trees.
    pub(crate) async fn changes(&self, goal: &Goal, from: &Oid, to: &Oid) -> Result<Changes, Error> {
        let asked = [
            "diff-tree",
            "-r",
            "-t",
            "-z",
            "-M",
            "--raw",
            "--numstat",
            "--no-ext-diff",
            "--no-textconv",
            from.as_str(),
            to.as_str(),
        ];
        let answer = self.git(goal, Repository::Shared).args(asked).ok().await?.bytes()?;
        parse(&answer).ok_or_else(|| Error::GitAnswer {
            command: "diff-tree".into(),
            answer: String::from_utf8_lossy(&answer[..answer.len().min(200)]).into_owned(),
        })
    }
}

/// The command that writes a difference, before the paths.
fn patch_of<'a>(from: &'a Oid, to: &'a Oid) -> [&'a str; 10] {
    ["diff-tree", "-r", "-p", "-M", "--no-color", "--no-ext-diff", "--no-textconv", from.as_str(), to.as_str(), "--"]
}

/// Reads the path and the size of a file in a line of `ls-tree -z -l`.
fn size_of(line: &[u8]) -> Option<(String, u64)> {
    let at = line.iter().position(|byte| *byte == b'\t')?;
    let size = std::str::from_utf8(&line[..at]).ok()?.rsplit(' ').next()?.parse().ok()?;
    Some((shown(&line[at + 1..]), size))
}

/// The mode of what is not there.
const ABSENT: &str = "000000";
const SUBMODULE: &str = "160000";
/// The modes of a directory, and of none.
const DIRECTORY: [&str; 2] = ["040000", ABSENT];

/// Reads the answer of `diff-tree -t -z --raw --numstat`.
fn parse(answer: &[u8]) -> Option<Changes> {
    let mut changes = Changes::default();
    let mut parts = parts(answer).into_iter();
    while let Some(part) = parts.next() {
        if let Some(raw) = part.strip_prefix(b":") {
            let fields: Vec<&str> = std::str::from_utf8(raw).ok()?.split(' ').collect();
            let [old_mode, mode, _, id, letter] = fields[..] else { return None };
            if mode != ABSENT && mode != SUBMODULE {
                changes.objects.push(Oid::parse(id).ok()?);
            }
            let first = parts.next()?;
            let letter = *letter.as_bytes().first()?;
            if DIRECTORY.contains(&old_mode) && DIRECTORY.contains(&mode) {
                // A directory that was moved has two paths too.
                if matches!(letter, b'R' | b'C') {
                    parts.next()?;
                }
                continue;
            }
            let (status, moved) = match letter {
                b'A' => (Status::Added, false),
                b'D' => (Status::Deleted, false),
                b'T' => (Status::TypeChanged, false),
                b'R' => (Status::Renamed, true),
                b'C' => (Status::Copied, true),
                _ => (Status::Modified, false),
            };
            let (path, from) = if moved { (parts.next()?, Some(shown(&first))) } else { (first, None) };
            changes.files.push(Change { path: shown(&path), status, from, bytes: None });
        } else {
            let mut fields = part.splitn(3, |byte| *byte == b'\t');
            // A binary file has hyphens in place of numbers.
            let mut number = || Some(std::str::from_utf8(fields.next()?).ok()?.parse::<u64>().unwrap_or(0));
            changes.insertions += number()?;
            changes.deletions += number()?;
            if fields.next()?.is_empty() {
                parts.next()?;
                parts.next()?;
            }
        }
    }
    Some(changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_changes_are_read() {
        let zero = "0".repeat(40);
        let answer = format!(
            ":040000 040000 {zero} {zero} M\0directory\0:040000 040000 {zero} {zero} R100\0from\0to\0:000000 100644 {zero} {zero} A\0new\nline\0:100644 100644 {zero} {zero} R096\0old\0moved\0\
             3\t0\tnew\nline\x001\t2\t\0old\0moved\0-\t-\tbinary\0"
        );
        let changes = parse(answer.as_bytes()).expect("it can be read");
        assert_eq!((changes.insertions, changes.deletions, changes.objects.len()), (4, 2, 4));
        assert_eq!(
            changes.files,
            [
                Change { path: "\"new\\nline\"".into(), status: Status::Added, from: None, bytes: None },
                Change { path: "moved".into(), status: Status::Renamed, from: Some("old".into()), bytes: None },
            ]
        );
        assert_eq!(parse(b":broken\0"), None);
    }
}
