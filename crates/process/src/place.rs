//! A place in a volume, as a command sees it: its path, and the files there that are kept from commands.

use std::{
    fs::{self, File},
    io,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
};

use drawloom_contract::tool::{self, Place};

use crate::command::{Guard, Guarded};

/// Where an open directory is now.
pub fn path_of(directory: &File) -> io::Result<PathBuf> {
    fs::read_link(format!("/proc/self/fd/{}", directory.as_raw_fd()))
}

/// The guarded files of `place` that lie in it or in one of `used`. A hidden file that does not exist needs no guard: drawloom
/// does not read it. Nor does one that was absent at the start and still is.
pub fn guarded_in(place: &Place, used: &[&Path]) -> io::Result<Vec<Guarded>> {
    let volume = path_of(&place.root)?;
    let mut files = Vec::new();
    for file in place.guarded.iter() {
        files.push((file.rule, path_of(&file.directory)?.join(&file.name)));
        // The volume may show the file at another place than its own, through a mount.
        files.extend(file.path.as_ref().map(|path| (file.rule, volume.join(path))));
    }
    files.dedup();
    let mut guarded = Vec::new();
    for (rule, path) in files {
        let rule = match rule {
            tool::Guard::Absent if path.symlink_metadata().is_err() => continue,
            tool::Guard::ReadOnly | tool::Guard::Absent => Guard::ReadOnly,
            tool::Guard::Hidden if !path.exists() => continue,
            tool::Guard::Hidden => Guard::Hidden,
        };
        if path.starts_with(&volume) || used.iter().any(|used| path.starts_with(used)) {
            guarded.push(Guarded { path, rule });
        }
    }
    Ok(guarded)
}
