//! Removing what a command left, however deep. Directories that are deep inside others are moved up to the top before they are emptied, so
//! that a few open directories and a little stack are enough: a command can nest directories deeper than descriptors or a stack would
//! last.

use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
    path::Path,
};

use rustix::{
    fs::{AtFlags, CWD, Dir, Mode, OFlags, chmod, fstat, openat, renameat, rmdir, unlinkat},
    io::Errno,
    path::Arg,
};

/// Removes a directory and everything in it. Links are removed, never followed. What cannot be removed stays with the
/// directories above it; everything else goes, and the answer is an error.
pub(crate) fn remove_tree(path: &Path) -> io::Result<()> {
    let mut removal = Removal { top: open(CWD, path)?, number: 0, steps: 0, failed: None };
    loop {
        let before = removal.steps;
        removal.failed = None;
        removal.pass()?;
        if removal.steps == before {
            return removal.failed.map_or_else(|| Ok(rmdir(path)?), |error| Err(error.into()));
        }
    }
}

/// How deep directories are emptied where they are. What is deeper is moved up first, which costs more.
const MAX_DEPTH: usize = 8;

struct Removal {
    top: OwnedFd,
    /// The next name at the top.
    number: u64,
    /// How much was removed or moved. A pass that gets nowhere is the last one.
    steps: u64,
    /// The last failure of this pass.
    failed: Option<Errno>,
}

impl Removal {
    /// Removes what is in the top, and takes apart what is deeper than [`MAX_DEPTH`].
    fn pass(&mut self) -> rustix::io::Result<()> {
        let top = self.top.try_clone().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        self.empty(&top, 1)
    }

    /// Removes what is in a directory that is so deep below the top.
    fn empty(&mut self, directory: &OwnedFd, depth: usize) -> rustix::io::Result<()> {
        self.each(directory, |removal, name| {
            if depth == MAX_DEPTH {
                return removal.move_up(directory, name);
            }
            removal.empty(&open(directory, name)?, depth + 1)?;
            unlinkat(directory, name, AtFlags::REMOVEDIR)
        })
    }

    /// Removes the files and empty directories of a directory and does `rest` with its other directories.
    fn each(
        &mut self,
        directory: &OwnedFd,
        rest: impl Fn(&mut Self, &std::ffi::CStr) -> rustix::io::Result<()>,
    ) -> rustix::io::Result<()> {
        for entry in Dir::read_from(directory)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let removed = unlinkat(directory, name, AtFlags::empty()).or_else(|error| match error {
                Errno::ISDIR => unlinkat(directory, name, AtFlags::REMOVEDIR).or_else(|_| rest(self, name)),
                error => Err(error),
            });
            match removed {
                Ok(()) => self.steps += 1,
                // Another process was quicker.
                Err(Errno::NOENT) => {}
                Err(error) => self.failed = Some(error),
            }
        }
        Ok(())
    }

    /// Moves a directory to the top, under a name that is free there.
    fn move_up(&mut self, from: &OwnedFd, name: &std::ffi::CStr) -> rustix::io::Result<()> {
        // Only a directory that may be changed can be moved.
        open(from, name)?;
        loop {
            self.number += 1;
            match renameat(from, name, &self.top, format!(".{}", self.number)) {
                Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => {}
                moved => return moved,
            }
        }
    }
}

/// Opens a directory, made accessible to its owner if it was not.
fn open(from: impl std::os::fd::AsFd, name: impl Arg) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = openat(from, name, flags | OFlags::PATH, Mode::empty())?;
    if !Mode::from_raw_mode(fstat(&found)?.st_mode).contains(Mode::RWXU) {
        chmod(format!("/proc/self/fd/{}", found.as_raw_fd()), Mode::RWXU)?;
    }
    openat(&found, c".", flags | OFlags::RDONLY, Mode::empty())
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use rustix::fs::mkdirat;

    use super::*;

    /// With `std::fs::remove_dir_all`, which recurses with an open directory for each level, this overflows the stack.
    #[test]
    fn a_deep_tree_is_removed_with_little_stack() {
        let place = tempfile::tempdir().expect("a directory");
        let tree = place.path().join("tree");
        fs::create_dir(&tree).expect("a directory");
        let mut here = open(CWD, &tree).expect("it is there");
        for _ in 0..2_000 {
            mkdirat(&here, "d", Mode::RWXU).expect("made");
            here = open(&here, "d").expect("opened");
        }
        let (thread, deep) = (std::thread::Builder::new().stack_size(128 * 1024), tree.clone());
        thread.spawn(move || remove_tree(&deep).expect("removed")).expect("a thread").join().expect("no panic");
        assert!(!tree.exists());
    }

    #[test]
    fn directories_without_rights_go_and_what_links_lead_to_stays() {
        let (place, outside) = (tempfile::tempdir().expect("one"), tempfile::tempdir().expect("another"));
        fs::write(outside.path().join("kept"), "x").expect("a file");
        let tree = place.path().join("tree");
        for path in ["a/b/c", "a/b/.1", ".1/full", ".2"] {
            fs::create_dir_all(tree.join(path)).expect("a directory");
        }
        for (number, path) in
            ["a/file", "a/b/file", "a/b/c/file", "a/b/.1/file", ".3", ".1/full/file"].iter().enumerate()
        {
            fs::write(tree.join(path), number.to_string()).expect("a file");
        }
        symlink(outside.path(), tree.join("a/b/c/link")).expect("a link");
        for path in ["a/b/c", "a/b", "a"] {
            chmod(tree.join(path), Mode::empty()).expect("closed");
        }
        remove_tree(&tree).expect("removed");
        assert!(!tree.exists() && outside.path().join("kept").exists());
    }
}
