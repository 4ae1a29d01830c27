//! Who belongs to a command: our children, whom nobody else can take in, and what is below them.

use std::{collections::BTreeSet, fs};

use rustix::process::{
    Pid, PidfdFlags, Signal, getpgid, getpgrp, getpid, kill_process, kill_process_group, pidfd_open, pidfd_send_signal,
};

/// Signals everybody who is still able to move; false when there was nobody.
pub(super) fn signal_all(signal: Signal) -> bool {
    let (own, ours) = (getpid(), getpgrp());
    let children = children();
    let mut groups = BTreeSet::new();
    // Until we take them in, our children's numbers and their groups' numbers mean nobody else.
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
    let mut anybody = false;
    let mut below = Vec::new();
    for pid in children {
        if let Some(doing) = state(pid, own) {
            anybody |= moves(doing, signal);
            below.extend(children_of(pid).into_iter().map(|child| (child, pid)));
        }
    }
    while let Some((pid, parent)) = below.pop() {
        // The handle keeps meaning this process, and its parent says that it is one of the family.
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        let Some(doing) = state(pid, parent) else { continue };
        anybody |= moves(doing, signal);
        let _ = pidfd_send_signal(process, signal);
        below.extend(children_of(pid).into_iter().map(|child| (child, pid)));
    }
    anybody
}

/// Our children.
pub(super) fn children() -> Vec<Pid> {
    children_of(getpid())
}

/// The children of a process: from the kernel's lists, or where those are not built in, from everybody's parent.
fn children_of(parent: Pid) -> Vec<Pid> {
    let tasks = format!("/proc/{parent}/task");
    let mut lists = numbers_in(&tasks).map(|task| fs::read_to_string(format!("{tasks}/{task}/children"))).peekable();
    let numbers: Vec<i32> = match lists.peek() {
        Some(Err(_)) => numbers_in("/proc").filter(|pid| is_child(*pid, parent)).collect(),
        Some(Ok(_)) | None => {
            let lists: Vec<String> = lists.filter_map(Result::ok).collect();
            lists.iter().flat_map(|list| list.split_whitespace()).filter_map(|pid| pid.parse().ok()).collect()
        }
    };
    numbers.into_iter().filter_map(Pid::from_raw).collect()
}

/// The names in a directory that are numbers.
fn numbers_in(path: &str) -> impl Iterator<Item = i32> + use<> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Whether somebody who does this has still to be told: not when he is stopped, and that is all that is wanted.
fn moves(doing: char, signal: Signal) -> bool {
    !(signal == Signal::STOP && matches!(doing, 'T' | 't'))
}

fn is_child(pid: i32, parent: Pid) -> bool {
    Pid::from_raw(pid).is_some_and(|pid| stat(pid).is_some_and(|(_, of)| Pid::from_raw(of) == Some(parent)))
}

/// What a child of `parent` does, as the kernel's letter; nothing when it has ended or is somebody else's.
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
