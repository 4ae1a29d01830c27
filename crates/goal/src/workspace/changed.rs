//! The changed files of a goal within a bound: as many as fit by name, the rest as folders with complete counts and sizes.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::{ChangedFile, Diffed};
use crate::bounds::json_bytes;

/// Maximum bytes of the JSON of all changed files and folders.
const MAX_BYTES: usize = 256 * 1024;

/// What the JSON of a folder has beside its path, at most.
const FOLDER_BYTES: usize = 160;

/// Changed files that are not listed one by one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedFolder {
    /// Their folder, with a slash at its end; empty for the top of the repository.
    pub path: String,
    pub files: u64,
    /// Their sizes together.
    pub bytes: u64,
    /// How many of them were deleted.
    #[serde(default)]
    pub deleted: u64,
    /// Whether files in folders below it are not among them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_flat: bool,
}

impl Diffed {
    /// How many files changed.
    pub fn count(&self) -> u64 {
        let listed = self.changes.len().max(self.files.len()) as u64;
        listed + self.folders.iter().map(|folder| folder.files).sum::<u64>()
    }

    /// The paths of the files that are listed one by one.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        let old = self.files.iter().filter(|_| self.changes.is_empty()).map(String::as_str);
        self.changes.iter().map(|change| change.path.as_str()).chain(old)
    }

    /// The same, with folders in place of files where there are too many.
    pub(crate) fn summarised(mut self) -> Self {
        if json_bytes(&self.changes) <= MAX_BYTES {
            return self;
        }
        let mut changes = std::mem::take(&mut self.changes);
        changes.sort_by(|one, other| one.path.cmp(&other.path));
        let (listed, folders) = Tree::new(&changes).within(MAX_BYTES);
        self.changes = listed.into_iter().map(|index| changes[index].clone()).collect();
        self.folders.extend(folders);
        self
    }
}

/// Changed files in the order of their paths.
struct Tree<'a> {
    files: &'a [ChangedFile],
    /// What all files before each one take as JSON, and after the last.
    costs: Vec<usize>,
}

/// A folder with everything below it.
struct Folder {
    files: Range<usize>,
    /// The length of its path, with the slash.
    prefix: usize,
}

/// A part of a folder.
enum Part {
    Folder(Folder),
    /// The files directly in it.
    Files(Vec<usize>),
}

impl<'a> Tree<'a> {
    fn new(files: &'a [ChangedFile]) -> Self {
        let mut costs = vec![0];
        let mut total = 0;
        for file in files {
            total += json_bytes(file) + 1;
            costs.push(total);
        }
        Self { files, costs }
    }

    /// Files to list, and folders for all others, in about `most` bytes. Small folders are listed before large ones, so that many files
    /// in one folder hide none in another.
    fn within(&self, most: usize) -> (Vec<usize>, Vec<ChangedFolder>) {
        let (mut listed, mut folders) = (Vec::new(), Vec::new());
        let mut open = vec![(Folder { files: 0..self.files.len(), prefix: 0 }, most)];
        while let Some((folder, share)) = open.pop() {
            if self.cost_of(&folder.files) <= share {
                listed.extend(folder.files);
                continue;
            }
            let parts = self.parts(&folder);
            let least: Vec<usize> = parts.iter().map(|part| self.least(part, &folder)).collect();
            let Some(spare) = share.checked_sub(least.iter().sum()) else {
                folders.push(self.summary(folder.files.clone(), &folder, false));
                continue;
            };
            let wanted: Vec<usize> = parts.iter().map(|part| self.cost(part)).collect();
            let shares = divide(&wanted, &least, spare);
            for ((part, share), wanted) in parts.into_iter().zip(shares).zip(wanted) {
                match part {
                    Part::Folder(part) => open.push((part, share)),
                    Part::Files(files) if wanted <= share => listed.extend(files),
                    Part::Files(files) => folders.push(self.summary(files, &folder, true)),
                }
            }
        }
        listed.sort_unstable();
        folders.sort_by(|one, other| one.path.cmp(&other.path));
        (listed, folders)
    }

    fn cost_of(&self, files: &Range<usize>) -> usize {
        self.costs[files.end] - self.costs[files.start]
    }

    fn cost(&self, part: &Part) -> usize {
        match part {
            Part::Folder(folder) => self.cost_of(&folder.files),
            Part::Files(files) => files.iter().map(|file| self.cost_of(&(*file..*file + 1))).sum(),
        }
    }

    /// What a part takes when it is not listed.
    fn least(&self, part: &Part, above: &Folder) -> usize {
        let path = match part {
            Part::Folder(folder) => self.path(folder),
            Part::Files(_) => self.path(above),
        };
        self.cost(part).min(json_bytes(path) + FOLDER_BYTES)
    }

    fn path(&self, folder: &Folder) -> &'a str {
        self.files.get(folder.files.start).map_or("", |file| &file.path[..folder.prefix])
    }

    fn summary(&self, files: impl IntoIterator<Item = usize>, folder: &Folder, is_flat: bool) -> ChangedFolder {
        let mut summary = ChangedFolder { path: self.path(folder).to_owned(), is_flat, ..ChangedFolder::default() };
        for file in files.into_iter().map(|index| &self.files[index]) {
            summary.files += 1;
            summary.bytes += file.bytes;
            summary.deleted += u64::from(file.status == "deleted");
        }
        summary
    }

    /// The folders in a folder and its own files. A folder that has one folder and nothing else counts as that.
    fn parts(&self, folder: &Folder) -> Vec<Part> {
        let (mut parts, mut own) = (Vec::new(), Vec::new());
        let mut at = folder.files.start;
        while at < folder.files.end {
            let path = &self.files[at].path;
            let Some(slash) = path[folder.prefix..].find('/') else {
                own.push(at);
                at += 1;
                continue;
            };
            let prefix = folder.prefix + slash + 1;
            let below = self.files[at..folder.files.end].partition_point(|file| file.path.starts_with(&path[..prefix]));
            parts.push(Part::Folder(Folder { files: at..at + below, prefix }));
            at += below;
        }
        if !own.is_empty() {
            parts.push(Part::Files(own));
        }
        parts
    }
}

/// Shares of what is spare over the least of each: the small ones get all that they want, the large ones as much as each other.
fn divide(wanted: &[usize], least: &[usize], mut spare: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by_key(|index| wanted[*index]);
    let mut shares = least.to_vec();
    for (done, index) in order.iter().enumerate() {
        let more = (wanted[*index] - least[*index]).min(spare / (wanted.len() - done));
        shares[*index] += more;
        spare -= more;
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(paths: impl Iterator<Item = String>) -> Vec<ChangedFile> {
        let mut files: Vec<ChangedFile> =
            paths.map(|path| ChangedFile { path, status: "added".into(), bytes: 10 }).collect();
        files.sort_by(|one, other| one.path.cmp(&other.path));
        files
    }

    #[test]
    fn many_files_of_one_folder_hide_no_other_and_every_file_is_counted_once() {
        let generated = (0..30_000).map(|number| format!("gen/{}/{number}.txt", number % 40));
        let top = ["README.md", "src/a.rs", "src/deep/er/b.rs"].map(str::to_owned).into_iter();
        let diff = Diffed { changes: files(generated.chain(top)), ..Diffed::default() }.summarised();
        assert!(json_bytes(&diff.changes) + json_bytes(&diff.folders) <= MAX_BYTES, "{}", diff.changes.len());
        for path in ["README.md", "src/a.rs", "src/deep/er/b.rs"] {
            assert!(diff.changes.iter().any(|change| change.path == path), "{path}");
        }
        assert_eq!(diff.count(), 30_003);
        assert!(diff.folders.iter().all(|folder| folder.path.starts_with("gen/") && folder.bytes == folder.files * 10));
        let listed = diff.changes.iter().filter(|change| change.path.starts_with("gen/")).count();
        assert_eq!(listed as u64 + diff.folders.iter().map(|folder| folder.files).sum::<u64>(), 30_000);
    }

    #[test]
    fn folders_that_are_too_many_are_one_and_deep_ones_need_no_deep_stack() {
        let wide = files((0..20_000).map(|number| format!("w/{number}/{number}/file")));
        let diff = Diffed { changes: wide, ..Diffed::default() }.summarised();
        assert_eq!(
            diff.folders.iter().map(|folder| (&*folder.path, folder.files)).collect::<Vec<_>>(),
            [("w/", 20_000)]
        );
        let deep = files((0..4_000).map(|depth| format!("{}file{depth}", "d/".repeat(depth))));
        let diff = Diffed { changes: deep, ..Diffed::default() }.summarised();
        assert_eq!(diff.count(), 4_000);
        assert!(json_bytes(&diff.changes) + json_bytes(&diff.folders) <= MAX_BYTES);
    }

    #[test]
    fn files_of_the_top_that_are_too_many_are_counted_as_such() {
        let diff = Diffed { changes: files((0..20_000).map(|number| format!("f{number}"))), ..Diffed::default() };
        let diff = diff.summarised();
        let top = ChangedFolder { files: 20_000, bytes: 200_000, is_flat: true, ..ChangedFolder::default() };
        assert_eq!(diff.folders, [top]);
    }
}
