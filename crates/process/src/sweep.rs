//! Clearing up after a drawloom that could not.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{launcher::remove_group, lock, remove::remove_tree};

/// What was found in the place for temporary directories.
#[derive(Debug, Default)]
pub struct Swept {
    /// How many leftovers were removed.
    pub removed: u32,
    /// How many were left to launchers that are still ending their commands.
    pub busy: u32,
    /// What could not be removed, and why.
    pub kept: Vec<(PathBuf, io::Error)>,
}

/// Removes what is in `temporary`: the directories and locks of commands whose launcher was killed before it could. Those of
/// launchers that are still at work stay. Call it before the first command, and only for a directory that no other instance
/// uses. Links are removed, never followed; a missing directory is fine.
pub fn sweep(temporary: &Path) -> io::Result<Swept> {
    let entries = match fs::read_dir(temporary) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Swept::default()),
        Err(error) => return Err(error),
    };
    let mut swept = Swept::default();
    let (locks, others): (Vec<PathBuf>, Vec<PathBuf>) = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<Vec<_>>>()?
        .into_iter()
        .partition(|path| path.extension().is_some_and(|extension| extension == "lock"));
    // The locks last: a launcher that still works needs both.
    for path in others.into_iter().chain(locks) {
        let of = if path.extension().is_some_and(|extension| extension == "lock") {
            path.with_extension("")
        } else {
            path.clone()
        };
        if lock::is_held(&of)? {
            swept.busy += 1;
            continue;
        }
        let removed = match path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
            true => {
                remove_group(&path);
                remove_tree(&path)
            }
            false => fs::remove_file(&path),
        };
        match removed {
            Ok(()) => swept.removed += 1,
            // A launcher that is still at it was quicker.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => swept.kept.push((path, error)),
        }
    }
    Ok(swept)
}

/// Removes what the command with this temporary directory left, unless its launcher is still at work.
pub(crate) fn remove(temporary: &Path) -> io::Result<()> {
    if lock::is_held(temporary)? {
        return Ok(());
    }
    remove_group(temporary);
    match fs::remove_dir_all(temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => fs::remove_file(lock::path(temporary)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_go_and_what_they_link_to_stays() {
        let (temporary, outside) = (tempfile::tempdir().expect("one"), tempfile::tempdir().expect("another"));
        fs::write(outside.path().join("kept"), "x").expect("a file");
        fs::create_dir_all(temporary.path().join("bash-1-2/deep")).expect("a directory");
        fs::write(temporary.path().join("bash-1-2/deep/file"), "x").expect("a file");
        fs::write(temporary.path().join("file"), "x").expect("a file");
        for link in ["link", "bash-1-2/link"] {
            std::os::unix::fs::symlink(outside.path(), temporary.path().join(link)).expect("a link");
        }
        let swept = sweep(temporary.path()).expect("it can be read");
        assert_eq!((swept.removed, swept.kept.len()), (3, 0));
        assert_eq!(fs::read_dir(temporary.path()).expect("the directory").count(), 0);
        assert!(outside.path().join("kept").exists());
        assert_eq!(sweep(&temporary.path().join("none")).expect("nothing to do").removed, 0);
    }
}
