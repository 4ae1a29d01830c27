//! The file system that a command sees: an empty root with the system's directories, the volume, a private `/tmp` and little
//! else. What is not in the order is not there: no home directories, no `/run`, no sockets of other programs.

mod guard;

use std::{
    collections::HashMap,
    env,
    ffi::{CStr, OsStr, OsString},
    fs::{self, File},
    io::{self, Read},
    os::{
        fd::{AsFd, OwnedFd},
        unix::{ffi::OsStringExt, fs::symlink},
    },
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{
        CWD, FileType, Mode, OFlags, ResolveFlags, StatVfsMountFlags, fstat, fstatvfs, mkdirat, openat, openat2,
        statvfs,
    },
    io::Errno,
    mount::{
        FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags,
        UnmountFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen, mount, mount_change, mount_remount,
        move_mount, open_tree, unmount,
    },
    process::{chdir, pivot_root},
};

use super::namespaces::own_mounts;
use crate::{
    command::{Access, Network, Order},
    landlock::{DEVICES, RESOLVER, SETTINGS, SHARED_MEMORY, SYSTEM, TERMINALS},
    listed::ListedPath,
};

/// A directory or file of the machine in the new root.
struct Part {
    /// Where, as an absolute path.
    target: PathBuf,
    /// Where it really is on the machine.
    real: PathBuf,
    access: Access,
    /// The mount to put there, not yet anywhere.
    tree: OwnedFd,
    is_directory: bool,
}

/// Most bytes of memory that a command can use as files in `/dev/shm`.
const MOST_SHARED_MEMORY: &str = "mode=1777,size=64m";

/// Most memory that a command can use as files in its private home.
const MOST_HOME: &str = "25%";

/// Copies what is mounted somewhere, with all mounts below it.
const CLONE: OpenTreeFlags =
    OpenTreeFlags::OPEN_TREE_CLONE.union(OpenTreeFlags::AT_RECURSIVE).union(OpenTreeFlags::OPEN_TREE_CLOEXEC);

/// Pseudo-terminals of its own, and only some of those that the machine has.
const OWN_TERMINALS: &CStr = c"newinstance,ptmxmode=0666,mode=0620,max=64";

/// Moves this process into a new root and then to the directory that it is in now. Answers the guarded files that are in it.
pub(super) fn enter(order: &Order) -> Result<Vec<PathBuf>, String> {
    let volume = env::current_dir().map_err(said("cannot find the volume's path"))?;
    // First of all: what is cloned from a shared mount stays shared, and would carry every further mount to the machine's own.
    separate_mounts()?;
    let parts = parts(order, &volume)?;
    let root = &order.temporary;
    begin(root)?;
    devices(root)?;
    for part in &parts {
        attach(root, part)?;
    }
    for directory in SYSTEM.iter().map(Path::new) {
        let link = inside(root, directory);
        if let (Ok(to), false) = (fs::read_link(directory), link.exists()) {
            symlink(to, link).map_err(said("cannot create a system symlink"))?;
        }
    }
    make_read_only(root, &parts, order)?;
    let guarded = guard::all(root, &parts, &order.guarded)?;
    finish(root)?;
    chdir(&volume).map_err(said("cannot enter the volume in the new root"))?;
    Ok(guarded)
}

/// Mounts of its own that nothing carries to the machine's, nor from there.
fn separate_mounts() -> Result<(), String> {
    own_mounts().map_err(said("cannot create a mount namespace"))?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(said("cannot make mounts private"))
}

/// The first of these files that is not guarded any more: it was replaced or removed outside, which takes a mount off it.
pub(super) fn unguarded(guarded: &[PathBuf]) -> Option<&PathBuf> {
    // A guarded link is looked at, not followed.
    let look =
        |path: &PathBuf| fstatvfs(openat(CWD, path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?);
    let is_held = |path: &&PathBuf| look(path).is_ok_and(|mount| mount.f_flag.contains(StatVfsMountFlags::RDONLY));
    guarded.iter().find(|path| !is_held(path))
}

/// Builds a root with nothing in it, to see whether that works here.
pub(super) fn try_out() -> Result<(), String> {
    separate_mounts()?;
    let root = Path::new("/usr");
    begin(root)?;
    finish(root)
}

/// What went wrong, for the report.
fn said<E: std::fmt::Display>(what: &str) -> impl Fn(E) -> String {
    move |error| format!("{what}: {error}")
}

/// A path of the new root before it is the root.
fn inside(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// Everything that the order lets the command see, those that contain others first.
fn parts(order: &Order, volume: &Path) -> Result<Vec<Part>, String> {
    let inner = &order.inner;
    let mut parts = Vec::new();
    let system = SYSTEM.iter().map(PathBuf::from).filter(|path| !path.is_symlink() && *path != Path::new("/proc"));
    // Landlock hides settings that only root may read. Without it they are left out here.
    let settings = if inner.landlock { vec![SETTINGS.into()] } else { inner.settings.clone() };
    for path in system.chain(settings).filter(|path| path.exists()) {
        parts.push(part(&path, Access::ReadOnly)?);
    }
    let readable = inner.readable.iter().map(|path| (path, Access::ReadOnly));
    let writable = inner.writable.iter().map(|path| (path, Access::ReadWrite));
    for (path, access) in readable.chain(writable) {
        parts.extend(listed(path, access)?);
    }
    parts.extend(order.home.as_deref().map(private_home).transpose()?);
    let temporary = part(&order.temporary, Access::ReadWrite)?;
    if temporary.real != order.temporary {
        parts.push(part(&temporary.real, Access::ReadWrite)?);
    }
    parts.push(temporary);
    if inner.network == Network::Host {
        for path in RESOLVER.iter().map(Path::new).filter(|path| path.exists()) {
            parts.push(part(path, Access::ReadOnly)?);
        }
    }
    parts.push(Part { target: "/tmp".into(), ..part(&order.temporary, Access::ReadWrite)? });
    // Last, so that it lies over everything else with the same path.
    parts.push(Part { target: volume.to_owned(), real: volume.to_owned(), ..part(Path::new("."), inner.access)? });
    parts.sort_by_key(|part| part.target.components().count());
    Ok(parts)
}

/// A home that is empty but for the listed parts of the real one. Programs can write there, and it goes with the command. It is in
/// memory: to remove a directory from a disk that something was mounted on takes the kernel as long as to start a program.
fn private_home(home: &Path) -> Result<Part, String> {
    let make = || {
        let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        for (key, value) in [("mode", "0700"), ("size", MOST_HOME)] {
            fsconfig_set_string(context.as_fd(), key, value)?;
        }
        fsconfig_create(context.as_fd())?;
        let flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
        fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, flags)
    };
    let tree = make().map_err(said("cannot make a private home"))?;
    // It has no real path, so that no guarded file is looked for in it.
    Ok(Part {
        target: home.to_owned(),
        real: PathBuf::from("/proc/self/none"),
        access: Access::ReadWrite,
        tree,
        is_directory: true,
    })
}

/// A path that the operator listed: where it really is, and under the path that it is known by.
fn listed(listed: &ListedPath, access: Access) -> Result<Vec<Part>, String> {
    let opened = listed.open()?;
    let failed = |error: Errno| format!("cannot mount {} for the command: {error}", listed.real().display());
    let is_directory = FileType::from_raw_mode(fstat(&opened).map_err(failed)?.st_mode) == FileType::Directory;
    let mut targets = vec![listed.real(), listed.path()];
    targets.dedup();
    let shown = targets.into_iter().map(|target| {
        let tree = open_tree(&opened, "", CLONE | OpenTreeFlags::AT_EMPTY_PATH).map_err(failed)?;
        Ok(Part { target: target.clone(), real: listed.real().clone(), access, tree, is_directory })
    });
    shown.collect()
}

fn part(path: &Path, access: Access) -> Result<Part, String> {
    let shown = path.display();
    let is_directory = path.metadata().map_err(|error| format!("cannot access {shown}: {error}"))?.is_dir();
    let tree = clone_of(path).map_err(|error| format!("cannot mount {shown} for the command: {error}"))?;
    let real = path.canonicalize().map_err(|error| format!("cannot access {shown}: {error}"))?;
    Ok(Part { target: path.to_owned(), real, access, tree, is_directory })
}

/// A copy of what is mounted at `path`, with all mounts below it.
fn clone_of(path: &Path) -> io::Result<OwnedFd> {
    Ok(open_tree(CWD, path, CLONE)?)
}

/// Puts an empty file system over `root`, with `/proc` in it.
fn begin(root: &Path) -> Result<(), String> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("tmpfs", root, "tmpfs", flags, Some(c"mode=0755,size=1m")).map_err(said("cannot mount an empty root"))?;
    let proc = root.join("proc");
    fs::create_dir(&proc).map_err(said("cannot create a directory for /proc"))?;
    let flags = flags | MountFlags::NOEXEC | MountFlags::RDONLY;
    mount("proc", &proc, "proc", flags, None).map_err(said("cannot mount /proc"))
}

fn attach(root: &Path, part: &Part) -> Result<(), String> {
    let attach = || {
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        move_mount(&part.tree, "", &mount_point(root, part)?, "", flags)
    };
    match attach() {
        // The path that it is known by leads over a link in the new root too; the command follows that to where it really is.
        Err(Errno::LOOP) if part.target != part.real => Ok(()),
        done => done.map_err(|error| format!("cannot mount {} for the command: {error}", part.target.display())),
    }
}

/// Where a part goes in the new root, made as far as it is missing. Links on the way are refused: a command that runs in the
/// same volume could make them.
fn mount_point(root: &Path, part: &Part) -> rustix::io::Result<OwnedFd> {
    let path = OFlags::PATH | OFlags::CLOEXEC;
    let open = |from: &OwnedFd, name: &OsStr| {
        openat2(from, name, path, Mode::empty(), ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS)
    };
    let mut here = openat(CWD, root, path, Mode::empty())?;
    let mut names = part
        .target
        .components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name),
            _ => None,
        })
        .peekable();
    while let Some(name) = names.next() {
        let is_directory = part.is_directory || names.peek().is_some();
        here = match open(&here, name) {
            Err(Errno::NOENT) if is_directory => {
                mkdirat(&here, name, Mode::from_raw_mode(0o777))?;
                open(&here, name)?
            }
            Err(Errno::NOENT) => {
                openat(
                    &here,
                    name,
                    OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC,
                    Mode::from_raw_mode(0o666),
                )?;
                open(&here, name)?
            }
            found => found?,
        };
    }
    Ok(here)
}

/// The few devices that programs need, shared memory and pseudo-terminals of its own, and the usual links.
fn devices(root: &Path) -> Result<(), String> {
    for device in DEVICES.iter().map(Path::new).filter(|device| device.exists()) {
        attach(root, &part(device, Access::ReadWrite)?)?;
    }
    let shared = inside(root, Path::new(SHARED_MEMORY));
    fs::create_dir_all(&shared).map_err(said("cannot create a directory for shared memory"))?;
    let size = std::ffi::CString::new(MOST_SHARED_MEMORY).map_err(said("invalid size"))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("tmpfs", &shared, "tmpfs", flags, Some(size.as_c_str())).map_err(said("cannot mount shared memory"))?;
    let terminals = inside(root, Path::new(TERMINALS));
    fs::create_dir(&terminals).map_err(said("cannot create a directory for terminals"))?;
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    mount("devpts", &terminals, "devpts", flags, Some(OWN_TERMINALS)).map_err(said("cannot mount terminals"))?;
    for (name, to) in
        [("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2"), ("ptmx", "pts/ptmx")]
    {
        symlink(to, root.join("dev").join(name)).map_err(said("cannot create a symlink in /dev"))?;
    }
    Ok(())
}

/// Makes every mount read-only whose part is, those inside it included. Landlock holds them too, so that with it a mount that
/// does not allow the change is left; but not in a private home, all of which Landlock lets the command change.
fn make_read_only(root: &Path, parts: &[Part], order: &Order) -> Result<(), String> {
    // Of two with the same path, the later one lies over the other.
    let by_target: HashMap<&Path, Access> = parts.iter().map(|part| (part.target.as_path(), part.access)).collect();
    // The kernel does not say how long the list is. With a large buffer it is read at once.
    let mut mounts = Vec::with_capacity(64 * 1024);
    let mut list = File::open("/proc/self/mountinfo").map_err(said("cannot list mounts"))?;
    list.read_to_end(&mut mounts).map_err(said("cannot list mounts"))?;
    let mounts = mounts.split(|byte| *byte == b'\n').filter_map(|line| line.split(|byte| *byte == b' ').nth(4));
    for mounted in mounts.map(unescaped) {
        let Ok(target) = Path::new(&mounted).strip_prefix(root) else { continue };
        let target = Path::new("/").join(target);
        let Some(nearest) = target.ancestors().find_map(|above| by_target.get(above)) else { continue };
        if *nearest == Access::ReadOnly {
            let done = remount_read_only(Path::new(&mounted));
            let in_home = order.home.as_ref().is_some_and(|home| target.starts_with(home));
            if !order.inner.landlock || in_home {
                done.map_err(|error| format!("cannot make {} read-only: {error}", target.display()))?;
            }
        }
    }
    Ok(())
}

/// Makes a mount read-only and keeps its other flags, which only its owner may drop.
fn remount_read_only(target: &Path) -> io::Result<()> {
    let has = statvfs(target)?.f_flag;
    let kept = [
        (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        (StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
        (StatVfsMountFlags::NODIRATIME, MountFlags::NODIRATIME),
        (StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
    ];
    let kept = kept.into_iter().filter(|(flag, _)| has.contains(*flag)).map(|(_, flag)| flag);
    let flags = kept.fold(MountFlags::BIND | MountFlags::RDONLY, |flags, flag| flags | flag);
    Ok(mount_remount(target, flags, "")?)
}

/// A path as the kernel lists it: blanks, tabs, line ends and backslashes are a backslash and three octal digits there.
fn unescaped(path: &[u8]) -> OsString {
    let (mut plain, mut rest) = (Vec::with_capacity(path.len()), path);
    while let Some((first, behind)) = rest.split_first() {
        let octal = behind.get(..3).filter(|_| *first == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                plain.push(byte);
                rest = &behind[3..];
            }
            None => {
                plain.push(*first);
                rest = behind;
            }
        }
    }
    OsString::from_vec(plain)
}

/// Makes `root` the root of this process, and the only one that it can reach.
fn finish(root: &Path) -> Result<(), String> {
    remount_read_only(root).map_err(said("cannot make the new root read-only"))?;
    chdir(root).map_err(said("cannot enter the new root"))?;
    // The old root comes to lie over the new one, from where it is taken away with all that is in it.
    pivot_root(".", ".").map_err(said("cannot change the root"))?;
    unmount(".", UnmountFlags::DETACH).map_err(said("cannot unmount the old root"))?;
    chdir("/").map_err(said("cannot enter the new root"))
}
