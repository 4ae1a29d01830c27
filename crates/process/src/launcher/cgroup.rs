//! A control group for each command, where a part of the hierarchy was delegated to drawloom: there the kernel itself counts
//! memory and processes, exactly and all of them.
//!
//! Only a delegated parent of our own group is used (systemd: `Delegate=yes` with `DelegateSubgroup=`, for the system and for a
//! user): groups that belong to others are left alone, also when we could write them.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::getxattr,
    process::Pid,
};

use crate::{
    command::Limits,
    usage::{Exceeded, Resource},
};

/// What systemd marks a delegated group with: for users, and for root.
const MARKS: [&str; 2] = ["user.delegate", "trusted.delegate"];

/// The controllers that count.
const CONTROLLERS: [&str; 2] = ["memory", "pids"];

/// A control group that was made for one command, removed with this value.
pub(super) struct Group {
    path: PathBuf,
    limits: Limits,
}

impl Group {
    /// A new group beside our own, with these limits.
    pub(super) fn make(name: &str, limits: Limits) -> Result<Self, String> {
        let path = parent()?.join(name);
        fs::create_dir(&path).map_err(|error| format!("cannot create a cgroup in the delegated one: {error}"))?;
        let group = Self { path, limits };
        // The keeper is one more process.
        let processes = limits.processes.map(|most| most.saturating_add(1));
        for (file, most) in [("memory.max", limits.memory_bytes), ("pids.max", processes)] {
            if let Some(most) = most {
                group.write(file, &most.to_string()).map_err(|error| format!("cannot set {file}: {error}"))?;
            }
        }
        if limits.memory_bytes.is_some() {
            // Not on every kernel; then memory that is swapped out is not counted.
            let _ = group.write("memory.swap.max", "0");
            group.write("memory.oom.group", "1").map_err(|error| format!("cannot set memory.oom.group: {error}"))?;
        }
        Ok(group)
    }

    /// Puts a process into the group, and so all that it will start.
    pub(super) fn add(&self, pid: Pid) -> io::Result<()> {
        self.write("cgroup.procs", &pid.to_string())
    }

    /// Why the kernel killed the group for its memory, if it did.
    pub(super) fn out_of_memory(&self) -> Option<OutOfMemory> {
        let events = fs::read_to_string(self.path.join("memory.events")).ok()?;
        if count(&events, "oom_kill") == 0 {
            return None;
        }
        // The kernel counts `oom` only where the group's own limit, or one above it, was reached.
        Some(match self.limits.memory_bytes.filter(|_| count(&events, "oom") > 0) {
            // What did not fit is not counted, so that the limit is the most that there was.
            Some(most) => OutOfMemory::Group(Exceeded { resource: Resource::Memory, used: most, most }),
            None => OutOfMemory::Machine,
        })
    }

    /// The limit of processes, if the kernel refused to start one more.
    pub(super) fn limited(&self) -> Option<Exceeded> {
        let events = fs::read_to_string(self.path.join("pids.events")).ok()?;
        let most = self.limits.processes.filter(|_| count(&events, "max") > 0)?;
        Some(Exceeded { resource: Resource::Processes, used: most, most })
    }

    fn write(&self, file: &str, value: &str) -> io::Result<()> {
        fs::write(self.path.join(file), value)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Where something still ends in it, it stays, empty and harmless.
        let _ = fs::remove_dir(&self.path);
    }
}

/// Whose memory ran out when the kernel killed a group.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum OutOfMemory {
    /// The group's.
    Group(Exceeded),
    /// The machine's.
    Machine,
}

/// How often something happened, by a file of events.
fn count(events: &str, name: &str) -> u64 {
    let of_line = |line: &str| line.split_once(' ').filter(|(named, _)| *named == name)?.1.parse().ok();
    events.lines().find_map(of_line).unwrap_or(0)
}

/// How long to wait for processes that are just leaving a group.
const LEFT_WITHIN: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };

/// Removes the group of a command whose launcher was killed before it could. One that is in use stays.
pub(super) fn remove(name: &OsStr) {
    let Ok(path) = delegated().map(|delegated| delegated.join(name)) else { return };
    // A process lets go of its files, and so of the command's lock, before it leaves its group.
    let _ = until_empty(&path);
    let _ = fs::remove_dir(&path);
}

/// Waits, not for long, until no process is in the group.
fn until_empty(path: &Path) -> io::Result<()> {
    let mut events = File::open(path.join("cgroup.events"))?;
    let mut text = String::new();
    events.read_to_string(&mut text)?;
    if count(&text, "populated") > 0 {
        // The kernel tells a change of what was read.
        poll(&mut [PollFd::new(&events, PollFlags::PRI)], Some(&LEFT_WITHIN))?;
    }
    Ok(())
}

/// Whether groups can be made for commands here.
pub(super) fn try_out() -> Result<(), String> {
    let limits = Limits { memory_bytes: Some(1 << 30), processes: Some(16), ..Limits::default() };
    Group::make(&format!("probe-{}", std::process::id()), limits).map(drop)
}

/// The group in which groups for commands may be made, with the controllers that count.
fn parent() -> Result<PathBuf, String> {
    let parent = delegated()?;
    let active = fs::read_to_string(parent.join("cgroup.subtree_control")).unwrap_or_default();
    for controller in CONTROLLERS {
        if !active.split_whitespace().any(|name| name == controller) {
            fs::write(parent.join("cgroup.subtree_control"), format!("+{controller}"))
                .map_err(|error| format!("cannot use the controller {controller}: {error}"))?;
        }
    }
    Ok(parent)
}

/// The delegated group that our own is in.
fn delegated() -> Result<PathBuf, String> {
    let own = fs::read_to_string("/proc/self/cgroup")
        .map_err(|error| format!("cannot read drawloom's own cgroup: {error}"))?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::/")).ok_or("this machine has no cgroup v2")?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").map_err(|error| format!("cannot list mounts: {error}"))?;
    let root = mounts.lines().find_map(|line| {
        let (before, behind) = line.split_once(" - ")?;
        behind.starts_with("cgroup2 ").then(|| before.split(' ').nth(4))?
    });
    let root = Path::new(root.ok_or("cgroup v2 is not mounted")?);
    let marked = |group: &Path| MARKS.iter().any(|mark| getxattr(root.join(group), *mark, &mut [0_u8; 8][..]).is_ok());
    match own {
        "" => Err("drawloom is in the root cgroup".into()),
        own => match delegated_above(Path::new(own), marked) {
            Some(parent) => Ok(root.join(parent)),
            None => Err("drawloom's cgroup is not inside a delegated one".into()),
        },
    }
}

/// The group above `own` if it was delegated to us: a unit of systemd in which our group has a name of its own. A group that is a
/// unit itself lies in one that systemd manages, also where that one is marked, as the user manager's is. Only the system's
/// manager marks groups; what the user manager delegates lies inside its own.
fn delegated_above(own: &Path, marked: impl Fn(&Path) -> bool) -> Option<&Path> {
    let is = |path: &Path, kinds: &[&str]| {
        path.extension().is_some_and(|extension| kinds.iter().any(|kind| extension == *kind))
    };
    let parent = own.parent().filter(|parent| is(parent, &["service", "scope"]))?;
    let ours = !is(own, &["service", "scope", "slice"]) && parent.ancestors().any(marked);
    ours.then_some(parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory that stands for a group, with these files.
    fn group(directory: &Path, memory: &str, pids: &str) -> Group {
        fs::write(directory.join("memory.events"), memory).expect("a file");
        fs::write(directory.join("pids.events"), pids).expect("a file");
        let limits = Limits { memory_bytes: Some(100), processes: Some(7), ..Limits::default() };
        Group { path: directory.to_owned(), limits }
    }

    #[test]
    fn only_a_group_that_was_delegated_to_us_is_used() {
        let user = "user.slice/user-1000.slice/user@1000.service";
        let marks =
            |group: &Path| [user, "system.slice/drawloom.service"].iter().any(|marked| group == Path::new(marked));
        for (own, expected) in [
            ("system.slice/drawloom.service/server".to_owned(), Some("system.slice/drawloom.service".to_owned())),
            ("system.slice/drawloom.service".into(), None),
            ("system.slice/other.service/server".into(), None),
            (format!("{user}/app.slice/run-1.service/main"), Some(format!("{user}/app.slice/run-1.service"))),
            (format!("{user}/app.slice/run-1.scope"), None),
            (format!("{user}/app.slice"), None),
            (format!("{user}/run-1.scope"), None),
            (format!("{user}/init.scope"), None),
            ("user.slice/user-1000.slice/session-2.scope".into(), None),
            ("server".into(), None),
        ] {
            assert_eq!(delegated_above(Path::new(&own), marks), expected.as_deref().map(Path::new), "{own}");
        }
    }

    #[test]
    fn what_the_kernel_says_of_a_group_is_told_by_its_own_limits() {
        let directory = tempfile::tempdir().expect("a directory");
        let none = group(directory.path(), "low 0\nhigh 0\nmax 12\noom 0\noom_kill 0\noom_group_kill 0\n", "max 0\n");
        assert_eq!((none.out_of_memory(), none.limited()), (None, None));
        let own = group(directory.path(), "low 0\nhigh 0\nmax 31\noom 1\noom_kill 3\noom_group_kill 1\n", "max 4\n");
        let memory = Exceeded { resource: Resource::Memory, used: 100, most: 100 };
        assert_eq!(own.out_of_memory(), Some(OutOfMemory::Group(memory)));
        assert_eq!(own.limited(), Some(Exceeded { resource: Resource::Processes, used: 7, most: 7 }));
        let machine = group(directory.path(), "low 0\nhigh 0\nmax 0\noom 0\noom_kill 3\noom_group_kill 1\n", "");
        assert_eq!((machine.out_of_memory(), machine.limited()), (Some(OutOfMemory::Machine), None));
    }
}
