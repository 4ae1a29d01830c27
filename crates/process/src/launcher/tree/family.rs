//! Which processes belong to a command: our children, which no other process can adopt, and what is below them.

use std::{collections::BTreeSet, fs, io};

use rustix::process::{
    Pid, PidfdFlags, Signal, getpgid, getpgrp, getpid, kill_process, kill_process_group, pidfd_open, pidfd_send_signal,
};

use super::Reach;

/// Signals everything in our namespace but ourselves, in one step: not even a fork comes in between. Only for the first
/// process of a namespace.
pub(super) fn signal_namespace(signal: Signal) {
    if getpid() == Pid::INIT {
        // The group of number 1 means every process that there is.
        let _ = kill_process_group(Pid::INIT, signal);
    }
}

/// Signals all descendants that are still able to move; false when there were none.
pub(super) fn signal_descendants(signal: Signal) -> io::Result<bool> {
    let (own, ours) = (getpid(), getpgrp());
    let children = children()?;
    let mut groups = BTreeSet::new();
    // Until we take them in, the numbers of our children and of their groups belong to no other process.
    for pid in &children {
        if let Ok(group) = getpgid(Some(*pid))
            && group != ours
            && groups.insert(group.as_raw_nonzero())
        {
            // A whole group is signalled in one step: not even a fork comes in between.
            let _ = kill_process_group(group, signal);
        }
        let _ = kill_process(*pid, signal);
    }
    let mut any = false;
    let mut below = Vec::new();
    for pid in children {
        if let Some(doing) = state(pid, own) {
            any |= moves(doing, signal);
            below.extend(children_of(pid)?.into_iter().map(|child| (child, pid)));
        }
    }
    while let Some((pid, parent)) = below.pop() {
        // The handle keeps meaning this process, and its parent says that it is one of ours.
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        let Some(doing) = state(pid, parent) else { continue };
        any |= moves(doing, signal);
        let _ = pidfd_send_signal(process, signal);
        below.extend(children_of(pid)?.into_iter().map(|child| (child, pid)));
    }
    Ok(any)
}

/// The processes of the command.
pub(in crate::launcher) fn members(reach: Reach) -> io::Result<Vec<Pid>> {
    let own = getpid();
    if reach == Reach::Namespace {
        let pids = numbers_in("/proc")?.into_iter().filter_map(Pid::from_raw);
        return Ok(pids.filter(|pid| *pid != own).collect());
    }
    let mut found = children()?;
    let mut next = 0;
    while let Some(pid) = found.get(next).copied() {
        found.extend(children_of(pid)?);
        next += 1;
    }
    Ok(found)
}

/// Our children.
pub(super) fn children() -> io::Result<Vec<Pid>> {
    children_of(getpid())
}

/// The children of a process, none when it is gone: from the kernel's lists, or where those are not built in, from the parent
/// of every process.
fn children_of(parent: Pid) -> io::Result<Vec<Pid>> {
    let mut numbers = Vec::new();
    if fs::exists("/proc/thread-self/children")? {
        let tasks = format!("/proc/{parent}/task");
        for thread in or_gone(numbers_in(&tasks))? {
            let list = or_gone(fs::read_to_string(format!("{tasks}/{thread}/children")))?;
            numbers.extend(list.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
        }
    } else {
        numbers.extend(numbers_in("/proc")?.into_iter().filter(|pid| is_child(*pid, parent)));
    }
    Ok(numbers.into_iter().filter_map(Pid::from_raw).collect())
}

/// Nothing, when the process that was asked about is gone. Any other failure says nothing about it.
fn or_gone<T: Default>(read: io::Result<T>) -> io::Result<T> {
    match read {
        Err(error) if is_gone(&error) => Ok(T::default()),
        read => read,
    }
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

/// The names in a directory that are numbers.
fn numbers_in(path: &str) -> io::Result<Vec<i32>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(path)? {
        numbers.extend(entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok()));
    }
    Ok(numbers)
}

/// Whether a process in this state has still to be told: not when it is stopped, and that is all that is wanted.
fn moves(doing: char, signal: Signal) -> bool {
    !(signal == Signal::STOP && matches!(doing, 'T' | 't'))
}

fn is_child(pid: i32, parent: Pid) -> bool {
    Pid::from_raw(pid).is_some_and(|pid| stat(pid).is_some_and(|(_, of)| Pid::from_raw(of) == Some(parent)))
}

/// What a child of `parent` does, as the kernel's letter; nothing when it has ended or is not a child of it.
fn state(pid: Pid, parent: Pid) -> Option<char> {
    let (doing, of) = stat(pid)?;
    (Pid::from_raw(of) == Some(parent) && !matches!(doing, 'Z' | 'X')).then_some(doing)
}

/// What a process does, and its parent.
fn stat(pid: Pid) -> Option<(char, i32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in brackets and may hold anything; behind the last bracket come the state and the parent.
    let mut fields = stat.rsplit_once(") ")?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}
