//! Protected files in the checkout of a verification: written from the blobs of the base, read-only for the commands, and compared
//! byte for byte after each of them.

use std::{
    ffi::OsStr,
    fs::{self, File},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use drawloom_process::{Confined, Guard, Guarded};

use super::ProtectedFile;
use crate::{
    attributes::NEUTRAL,
    checkouts::Checkouts,
    error::Error,
    git::Repository,
    names::shown,
    places::{Places, blocking},
    raw::{LINK, SUBMODULE},
    seen::Seen,
    state::Goal,
};

/// Maximum number of files that are mounted read-only one by one. Above it, none is: each mount costs time at every command.
const MAX_MOUNTED: usize = 2_000;

/// Maximum number of files whose attributes are set one by one.
const MAX_PATTERNS: usize = 1_000;

/// Maximum number of files that an error names.
const MAX_NAMED: usize = 5;

/// The protected files of a checkout.
pub(super) struct Held {
    /// The top of the checkout, open.
    top: Arc<File>,
    /// Each file as it must be.
    files: Arc<Vec<(Vec<u8>, Seen)>>,
    guarded: Vec<Guarded>,
}

impl Checkouts {
    /// Writes the protected files of a checkout that no program has used yet, and remembers them.
    pub(super) async fn hold(
        &self,
        goal: &Goal,
        work: &Path,
        index: &Path,
        protected: &[ProtectedFile],
    ) -> Result<Held, Error> {
        let files: Vec<ProtectedFile> = protected.iter().filter(|file| file.entry.mode != SUBMODULE).cloned().collect();
        let top = Arc::new(File::open(work).map_err(Error::file("open", work))?);
        if !files.is_empty() {
            let (places, path, paths) = (goal.places.clone(), work.to_owned(), paths_of(&files));
            let patterns = attributes_of(&files);
            blocking(move || {
                let attributes = path.join(".git/info/attributes");
                fs::write(&attributes, patterns).map_err(Error::file("write", attributes))?;
                remove_all(&places, &path, &paths)
            })
            .await?;
            let input = files.iter().flat_map(|file| file.path.iter().copied().chain([0])).collect();
            let git = self.git(goal, Repository::Plain).work_tree(work, index);
            git.args(["checkout-index", "-u", "-f", "-z", "--stdin"]).input(input).ok().await?;
            self.check_written(goal, work, index, &files).await?;
        }
        let (opened, paths) = (top.clone(), paths_of(&files));
        let seen = blocking(move || {
            let seen = paths.into_iter().map(|path| {
                let seen = Seen::at(&*opened, &path);
                (path, seen)
            });
            seen.collect::<Vec<_>>()
        });
        Ok(Held { top, files: Arc::new(seen.await), guarded: self.guarded(work, &files)? })
    }

    /// Compares the bytes of the files, before any command, with the ids of the base.
    async fn check_written(
        &self,
        goal: &Goal,
        work: &Path,
        index: &Path,
        files: &[ProtectedFile],
    ) -> Result<(), Error> {
        let regular: Vec<&ProtectedFile> = files.iter().filter(|file| file.entry.mode != LINK).collect();
        let input = regular.iter().map(|file| quoted(&file.path) + "\n").collect::<String>();
        let git = self.git(goal, Repository::Plain).work_tree(work, index);
        let asked = git.args(["hash-object", "--no-filters", "--stdin-paths"]);
        let ids = asked.input(input.into_bytes()).ok().await?.text()?;
        let (mut ids, mut regular) = (ids.lines(), regular.into_iter());
        match regular.find(|file| ids.next() != Some(file.entry.id.as_str())) {
            None => Ok(()),
            Some(file) => Err(Error::NotProtected { path: shown(&file.path) }),
        }
    }

    /// The files that the sandbox mounts read-only. Links are compared only: what they lead to may be ordinary files.
    fn guarded(&self, work: &Path, files: &[ProtectedFile]) -> Result<Vec<Guarded>, Error> {
        let has_mounts = || Ok::<_, Error>(self.parts.launcher.confinement()?.namespaces.is_on());
        if self.parts.sandbox.confined == Confined::No || files.len() > MAX_MOUNTED || !has_mounts()? {
            return Ok(Vec::new());
        }
        let regular = files.iter().filter(|file| file.entry.mode != LINK);
        let names = regular.filter_map(|file| std::str::from_utf8(&file.path).ok());
        Ok(names.map(|name| Guarded { path: work.join(name), rule: Guard::ReadOnly }).collect())
    }
}

impl Held {
    pub(super) fn guarded(&self) -> Vec<Guarded> {
        self.guarded.clone()
    }

    /// The files that are not as the base has them.
    pub(super) async fn altered(&self) -> Vec<String> {
        let (top, files) = (self.top.clone(), self.files.clone());
        blocking(move || {
            let altered = files.iter().filter(|(path, expected)| Seen::at(&*top, path) != *expected);
            altered.map(|(path, _)| shown(path)).collect()
        })
        .await
    }
}

/// What a command did that altered protected files.
pub(super) fn altered_by_it(altered: &[String]) -> String {
    let named = altered.iter().take(MAX_NAMED).cloned().collect::<Vec<_>>().join(", ");
    let more = altered.len().saturating_sub(MAX_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let files = if altered.len() == 1 { "the protected file" } else { "the protected files" };
    format!("it changed {files} {named}{more}")
}

fn paths_of(files: &[ProtectedFile]) -> Vec<Vec<u8>> {
    files.iter().map(|file| file.path.clone()).collect()
}

/// Git writes no file that it takes for unchanged.
fn remove_all(places: &Places, work: &Path, paths: &[Vec<u8>]) -> Result<(), Error> {
    paths.iter().map(|path| work.join(OsStr::from_bytes(path))).try_for_each(|path: PathBuf| places.remove(&path))
}

/// Attributes for the clone of the checkout: a git that a command runs there changes no byte of a protected file either.
fn attributes_of(files: &[ProtectedFile]) -> String {
    if files.len() > MAX_PATTERNS {
        return format!("* {NEUTRAL}\n");
    }
    let lines = files.iter().map(|file| {
        let mut pattern = b"/".to_vec();
        for byte in &file.path {
            if matches!(byte, b'*' | b'?' | b'[' | b'\\') {
                pattern.push(b'\\');
            }
            pattern.push(*byte);
        }
        format!("{} {NEUTRAL}\n", quoted(&pattern))
    });
    lines.collect()
}

/// A path in quotes, as git reads it.
fn quoted(path: &[u8]) -> String {
    let mut quoted = String::from("\"");
    for byte in path {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', char::from(*byte)]),
            0x20..=0x7e => quoted.push(char::from(*byte)),
            other => quoted.push_str(&format!("\\{other:03o}")),
        }
    }
    quoted.push('"');
    quoted
}
