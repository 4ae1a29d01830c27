//! Namespaces of its own for a command: processes, network, System V IPC, and users where that is needed to make the others.

use std::{
    fs::{self, File},
    io, process,
};

use fork::{Fork, fork};
use nix::sched::{CloneFlags, setns, unshare};
use rustix::{
    net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with},
    process::{Pid, getegid, geteuid},
    thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities},
};

/// Starts a copy of this process. Fails when this process has more than one thread: the copy would have one, and the locks that
/// the others held.
pub(super) fn copy() -> io::Result<Fork> {
    // The kernel refuses this to a process with several threads, and does nothing else for it.
    unshare(CloneFlags::CLONE_THREAD)?;
    fork()
}

/// Starts a copy of this process that is the first one in namespaces of its own, and ends with the code that `run` returns there.
pub(super) fn start_first(run: impl FnOnce() -> i32) -> io::Result<Pid> {
    enter()?;
    match copy()? {
        Fork::Child => process::exit(run()),
        Fork::Parent(first) => Pid::from_raw(first).ok_or_else(|| io::Error::other("process without a pid")),
    }
}

/// Puts the next child of this process into namespaces of its own.
fn enter() -> io::Result<()> {
    let flags = CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWIPC;
    // Root can make them without a user namespace, and then keeps its power over the files of others in a volume.
    if unshare(flags).is_ok() {
        return Ok(());
    }
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    unshare(flags | CloneFlags::CLONE_NEWUSER)?;
    // The kernel demands this before an unprivileged user maps a group.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}

/// What the keeper needs in its own namespaces: to mount, to raise the network, to limit powers, to look at processes.
const NEEDED: CapabilitySet = CapabilitySet::SYS_ADMIN
    .union(CapabilitySet::NET_ADMIN)
    .union(CapabilitySet::SETPCAP)
    .union(CapabilitySet::SYS_PTRACE);

/// Of the powers over new namespaces, keeps those that the keeper needs. Root keeps its own: the command needs some of them.
pub(super) fn limit_powers() -> io::Result<()> {
    if geteuid().is_root() {
        return Ok(());
    }
    let held = capabilities(None)?;
    let (effective, permitted) = (held.effective & NEEDED, held.permitted & NEEDED);
    Ok(set_capabilities(None, CapabilitySets { effective, permitted, inheritable: CapabilitySet::empty() })?)
}

/// Separates the mounts of this process from those of all others.
pub(super) fn own_mounts() -> io::Result<()> {
    Ok(unshare(CloneFlags::CLONE_NEWNS)?)
}

/// Moves this thread to a network of its own that has a loopback interface and nothing else. Other threads can join it.
pub(super) fn own_network() -> io::Result<File> {
    unshare(CloneFlags::CLONE_NEWNET)?;
    raise_loopback()?;
    File::open("/proc/thread-self/ns/net")
}

/// Moves this thread to that network.
pub(super) fn join_network(network: &File) -> io::Result<()> {
    Ok(setns(network, CloneFlags::CLONE_NEWNET)?)
}

/// Brings the loopback interface of a new network up: servers and clients inside the command can talk to each other.
fn raise_loopback() -> io::Result<()> {
    // A message for the routing protocol, number 0: its header (length, kind, flags, number, sender), then the interface (family and kind, index, flags,
    // and which of the flags to change).
    const NEW_LINK: u16 = 16;
    const REQUEST_AND_ANSWER: u16 = 5;
    const LOOPBACK: u32 = 1;
    const UP: u32 = 1;
    let mut message = Vec::with_capacity(32);
    message.extend(32_u32.to_ne_bytes());
    message.extend(NEW_LINK.to_ne_bytes());
    message.extend(REQUEST_AND_ANSWER.to_ne_bytes());
    for word in [1, 0, 0, LOOPBACK, UP, UP] {
        message.extend(u32::to_ne_bytes(word));
    }
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    send(&socket, &message, SendFlags::empty())?;
    let mut answer = [0; 64];
    let (received, _) = recv(&socket, &mut answer, RecvFlags::empty())?;
    // The answer has the same header, and an error number behind it.
    let error = answer[..received].get(16..20).and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes);
    match error {
        Some(0) => Ok(()),
        Some(error) => Err(io::Error::from_raw_os_error(-error)),
        None => Err(io::Error::other("the kernel's reply is too short")),
    }
}
