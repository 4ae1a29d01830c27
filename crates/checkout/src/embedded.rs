//! What is never part of a commit although it looks like ordinary files: git repositories without `.git`, and compiled code that
//! is loaded in place of its source.

use std::{
    collections::HashMap,
    ffi::OsStr,
    os::{fd::AsFd, unix::ffi::OsStrExt as _},
};

use rustix::fs::{Dir, Mode, OFlags, ResolveFlags, openat2};

use crate::names::plain_name;

/// Ends of the names of compiled files. Interpreters load them without a look at the source, or rather than the source.
const BYTECODE: &[&str] = &[".pyc", ".pyo", ".elc", ".zwc", ".luac", ".rbc", ".beam", ".class", ".ji", ".hbc", ".jsc"];

/// The directory that Python keeps compiled files in.
const CACHE: &[u8] = b"__pycache__";

pub(crate) fn is_bytecode(path: &[u8]) -> bool {
    let mut parts = path.split(|byte| *byte == b'/').map(plain_name).peekable();
    let mut is_cached = false;
    while let Some(part) = parts.next() {
        is_cached |= part == CACHE;
        if parts.peek().is_none() && BYTECODE.iter().any(|end| part.ends_with(end.as_bytes())) {
            return true;
        }
    }
    is_cached
}

/// What git directories have beside `HEAD`.
const PARTS: &[&[u8]] = &[b"objects", b"refs", b"commondir", b"config"];

/// Whether git may take a directory with these entries for a repository. `commondir` leads to the rest.
pub(crate) fn is_git_directory(mut entries: impl Iterator<Item = Vec<u8>>) -> bool {
    let (mut has_head, mut has_part) = (false, false);
    entries.any(|name| {
        let name = plain_name(&name);
        has_head |= name == b"head";
        has_part |= PARTS.contains(&&name[..]);
        has_head && has_part
    })
}

/// Whether a path leads into something that git directories have, in a directory that is not the top: answers the directories.
pub(crate) fn possible_git_directories(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    slashes.filter_map(|at| {
        let next = path[at + 1..].split(|byte| *byte == b'/').next().unwrap_or_default();
        let next = plain_name(next);
        (next == b"head" || PARTS.contains(&&next[..])).then_some(&path[..at])
    })
}

/// The directories of a checkout that git takes for repositories.
#[derive(Debug, Default)]
pub(crate) struct EmbeddedRepositories(HashMap<Vec<u8>, bool>);

impl EmbeddedRepositories {
    /// Whether a file lies in one. The top of a checkout has a `.git`, which git finds first.
    pub(crate) fn contain(&mut self, top: impl AsFd, path: &[u8]) -> bool {
        let above = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| &path[..at]);
        let mut is_in = false;
        for directory in above {
            is_in |= match self.0.get(directory) {
                Some(known) => *known,
                None => {
                    let found = look(&top, directory);
                    self.0.insert(directory.to_vec(), found);
                    found
                }
            };
        }
        is_in
    }
}

fn look(top: impl AsFd, directory: &[u8]) -> bool {
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = openat2(top, OsStr::from_bytes(directory), flags, Mode::empty(), beneath).and_then(Dir::new);
    let Ok(entries) = opened else { return false };
    is_git_directory(entries.flatten().map(|entry| entry.file_name().to_bytes().to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compiled_files_are_told_from_their_sources() {
        for path in ["a.pyc", "lib/__pycache__/x.py", "a/B.PYC", "x.elc", "A.class", "__PyCache__/x", "a.pyc."] {
            assert!(is_bytecode(path.as_bytes()), "{path}");
        }
        for path in ["a.py", "pycache/x", "class", "a.pyc.txt", "x.class/y.java", "elc"] {
            assert!(!is_bytecode(path.as_bytes()), "{path}");
        }
    }

    #[test]
    fn git_directories_are_known_by_what_git_looks_for() {
        let is_git = |names: &[&str]| is_git_directory(names.iter().map(|name| name.as_bytes().to_vec()));
        for names in [["HEAD", "objects", "refs"], ["HEAD", "commondir", "x"], ["x", "config", "head"]] {
            assert!(is_git(&names), "{names:?}");
        }
        for names in [["HEAD", "x", "y"], ["objects", "refs", "config"], ["HEADER", "refs", "z"]] {
            assert!(!is_git(&names), "{names:?}");
        }
        let possible: Vec<&[u8]> = possible_git_directories(b"HEAD/a/refs/heads/config").collect();
        assert_eq!(possible, [&b"HEAD/a"[..], b"HEAD/a/refs/heads"]);
    }
}
