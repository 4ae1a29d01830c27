//! Files that a command must not change or see, although they lie in a directory that it may use.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs::{self, File},
    io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat2, readlinkat},
    io::Errno,
    mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree},
};

use super::{Part, inside, remount_read_only};
use crate::command::{Access, Guard, Guarded};

/// Guards every one of `guarded` that the command can reach through `parts`; answers where they are in the new root.
pub(super) fn all(root: &Path, parts: &[Part], guarded: &[Guarded]) -> Result<Vec<PathBuf>, String> {
    let empty = root.join(".empty");
    let (mut held, mut ways) = (BTreeSet::new(), BTreeSet::new());
    for Guarded { path, rule } in guarded {
        for part in parts {
            // By its real path: a part may be known by another one.
            let Ok(relative) = path.strip_prefix(&part.real) else { continue };
            if part.access == Access::ReadOnly && *rule == Guard::ReadOnly {
                continue;
            }
            // Parts can have the same place.
            if held.contains(&part.target.join(relative)) {
                continue;
            }
            let at = inside(root, &part.target);
            let covered = guard(&at, relative, *rule, &empty, &mut ways).and_then(|covered| {
                check_target(&covered, path, parts, guarded)?;
                Ok(covered != Covered::Nothing)
            });
            let covered = covered.map_err(|reason| {
                let what = match rule {
                    Guard::ReadOnly => "must be read-only",
                    Guard::Hidden => "must be hidden",
                };
                format!("{} {what}, but this cannot be enforced: {reason}", path.display())
            })?;
            held.extend(covered.then(|| part.target.join(relative)));
        }
    }
    let _ = fs::remove_file(empty);
    Ok(held.into_iter().collect())
}

/// What was mounted over.
#[derive(PartialEq, Eq)]
enum Covered {
    /// The file does not exist.
    Nothing,
    File,
    /// A link, with the path in it.
    Link(PathBuf),
}

/// Refuses a link that leads to something the command could change: whoever changes that changes the guarded file.
fn check_target(covered: &Covered, link: &Path, parts: &[Part], guarded: &[Guarded]) -> Result<(), String> {
    let (Covered::Link(to), Some(folder)) = (covered, link.parent()) else { return Ok(()) };
    let to = folder.join(to);
    let (Some(parent), Some(name)) = (to.parent(), to.file_name()) else {
        return Err(format!("it is a symlink to {}", to.display()));
    };
    let Ok(parent) = parent.canonicalize() else { return Ok(()) };
    let to = parent.join(name);
    let is_reachable = parts.iter().any(|part| part.access == Access::ReadWrite && to.starts_with(&part.real));
    match is_reachable && !guarded.iter().any(|guarded| guarded.path == to) {
        true => Err(format!("it is a symlink to {}, which is not protected", to.display())),
        false => Ok(()),
    }
}

/// Mounts over a guarded file. A link is mounted on itself: it still leads where it did, and cannot be replaced. `ways` are the
/// directories that something is mounted on already: again for each file, their mounts would grow with its square.
fn guard(
    part: &Path,
    relative: &Path,
    rule: Guard,
    empty: &Path,
    ways: &mut BTreeSet<PathBuf>,
) -> Result<Covered, String> {
    let found = match open(part, relative) {
        Ok(found) => found,
        // drawloom does not read it, so that a command may make one.
        Err(Errno::NOENT) if rule == Guard::Hidden => return Ok(Covered::Nothing),
        Err(Errno::NOENT) => return Err("it no longer exists".into()),
        Err(Errno::LOOP) => return Err("its path contains a symlink".into()),
        Err(error) => return Err(error.to_string()),
    };
    let stat = fstat(&found).map_err(|error| error.to_string())?;
    // A directory has a link for each directory in it, and no second name.
    if stat.st_nlink > 1 && FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return Err("it has another hard link".into());
    }
    // A directory that something is mounted on cannot be renamed, so that none on the way can be exchanged for another.
    let mut way: Vec<PathBuf> = relative.ancestors().skip(1).map(Path::to_owned).collect();
    way.retain(|directory| !directory.as_os_str().is_empty());
    for directory in way.iter().rev().filter(|directory| ways.insert(part.join(directory))) {
        cover(part, directory, None).map_err(|error| format!("{}: {error}", directory.display()))?;
    }
    let over = match rule {
        Guard::ReadOnly => None,
        Guard::Hidden => {
            File::options().create(true).truncate(false).write(true).open(empty).map_err(|error| error.to_string())?;
            Some(empty)
        }
    };
    cover(part, relative, over).map_err(|error| error.to_string())?;
    let covered = open(part, relative).map_err(|error| error.to_string())?;
    remount_read_only(&by_descriptor(&covered)).map_err(|error| error.to_string())?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink if rule == Guard::ReadOnly => {
            let to = readlinkat(&found, "", Vec::new()).map_err(|error| error.to_string())?;
            Ok(Covered::Link(OsStr::from_bytes(to.as_bytes()).into()))
        }
        _ => Ok(Covered::File),
    }
}

/// Mounts `over` on the path `relative`, or the path itself when `over` is absent.
fn cover(part: &Path, relative: &Path, over: Option<&Path>) -> io::Result<()> {
    let here = open(part, relative)?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::AT_RECURSIVE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let tree = match over {
        Some(path) => open_tree(CWD, path, flags)?,
        None => open_tree(&here, "", flags | OpenTreeFlags::AT_EMPTY_PATH)?,
    };
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(&tree, "", &here, "", flags)?)
}

/// What is at `relative` in a part, which may be a link, with no link on the way.
fn open(part: &Path, relative: &Path) -> rustix::io::Result<OwnedFd> {
    let root = openat2(CWD, part, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::empty())?;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    openat2(&root, relative, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty(), resolve)
}

fn by_descriptor(file: &OwnedFd) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}
