//! What ignore files say: `.gitignore`, `.ignore` and git's own exclude file, read through handles and within bounds.

use std::{
    ffi::{CStr, CString, OsStr},
    fs::File,
    io::Read,
    path::{Path, PathBuf},
    sync::Arc,
};

use ignore::{
    Match,
    gitignore::{Gitignore, GitignoreBuilder},
};
use rustix::{
    fd::OwnedFd,
    fs::{FileType, Mode, OFlags, fstat, openat},
};

/// The most of an ignore file that is read.
pub(crate) const MOST_BYTES: u64 = 1024 * 1024;

/// The rules of a directory and of those above it.
pub(crate) struct Ignored {
    /// Where they hold, from the volume's root.
    base: PathBuf,
    rules: Gitignore,
    above: Option<Arc<Ignored>>,
}

impl Ignored {
    /// The rules that hold in a directory, given what is in it: its own first, then those from above. A repository inside
    /// another one knows only its own.
    pub(super) fn of(
        dir: &OwnedFd,
        path: &Path,
        directories: &[CString],
        files: &[CString],
        above: Option<Arc<Self>>,
    ) -> Option<Arc<Self>> {
        let has = |names: &[CString], wanted: &CStr| names.iter().any(|name| name.as_c_str() == wanted);
        let repository = has(directories, c".git");
        let sources = [
            (repository, c".git/info/exclude"),
            (has(files, c".gitignore"), c".gitignore"),
            (has(files, c".ignore"), c".ignore"),
        ];
        let texts: Vec<String> =
            sources.iter().filter(|(there, _)| *there).filter_map(|(_, name)| read(dir, name)).collect();
        let above = above.filter(|_| !repository);
        if texts.is_empty() {
            return above;
        }
        Some(Arc::new(Self { base: path.to_owned(), rules: parse(&texts), above }))
    }

    /// The rules that hold in an open directory, whatever is in it.
    pub(crate) fn at(dir: &OwnedFd, path: &Path, above: Option<Arc<Self>>) -> Option<Arc<Self>> {
        let files = [c".gitignore".to_owned(), c".ignore".to_owned()];
        let is_repository =
            openat(dir, c".git", OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty()).is_ok();
        let directories = if is_repository { vec![c".git".to_owned()] } else { vec![] };
        Self::of(dir, path, &directories, &files, above)
    }

    /// Whether the rules name what `name` is in `above`. The innermost rule decides.
    pub(super) fn names(&self, above: &Path, name: &OsStr, is_dir: bool) -> bool {
        let path = above.join(name);
        let mut level = Some(self);
        while let Some(Self { base, rules, above }) = level {
            if let Ok(below) = path.strip_prefix(base) {
                match rules.matched(below, is_dir) {
                    Match::Ignore(_) => return true,
                    Match::Whitelist(_) => return false,
                    Match::None => {}
                }
            }
            level = above.as_deref();
        }
        false
    }
}

/// The rules of one directory; of two that fit, the later decides. A line that is no rule is none.
fn parse(texts: &[String]) -> Gitignore {
    let mut builder = GitignoreBuilder::new(".");
    for line in texts.iter().flat_map(|text| text.lines()) {
        let _ = builder.add_line(None, line);
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

/// An ignore file's text. Only a regular file is read: not a link, which may lead anywhere, and not a pipe.
fn read(dir: &OwnedFd, path: &CStr) -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut parts = path.to_str().ok()?.split('/').peekable();
    let mut at: Option<OwnedFd> = None;
    while let Some(part) = parts.next() {
        let kind = if parts.peek().is_some() { OFlags::DIRECTORY } else { OFlags::empty() };
        at = Some(openat(at.as_ref().unwrap_or(dir), part, flags | kind, Mode::empty()).ok()?);
    }
    let file = at?;
    let is_file = FileType::from_raw_mode(fstat(&file).ok()?.st_mode) == FileType::RegularFile;
    let mut bytes = Vec::new();
    is_file.then(|| File::from(file).take(MOST_BYTES).read_to_end(&mut bytes)).transpose().ok()??;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
