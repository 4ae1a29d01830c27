//! Namespaces of its own for a command: processes, network, System V IPC, and users where that is needed to make the others.

use std::{fs, io};

use nix::sched::{CloneFlags, unshare};
use rustix::{
    net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with},
    process::{getegid, geteuid},
    thread::{CapabilitySet, CapabilitySets, capabilities, configure_capability_in_ambient_set, set_capabilities},
};

use crate::command::Network;

/// Puts the next child of this process into namespaces of its own; it will be their first process. This process must have one
/// thread only.
pub(super) fn enter(network: Network) -> io::Result<()> {
    let mut flags = CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWIPC;
    if network == Network::None {
        flags |= CloneFlags::CLONE_NEWNET;
    }
    // Root can make them without a user namespace, and then keeps its power over the files of others in a volume.
    if unshare(flags).is_ok() {
        return Ok(());
    }
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    unshare(flags | CloneFlags::CLONE_NEWUSER)?;
    // The kernel demands this before an unprivileged user maps a group.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    keep_powers()
}

/// What the keeper needs in its own namespaces: to mount, to raise the network, to limit powers, to look at processes.
const NEEDED: [CapabilitySet; 4] =
    [CapabilitySet::SYS_ADMIN, CapabilitySet::NET_ADMIN, CapabilitySet::SETPCAP, CapabilitySet::SYS_PTRACE];

/// Passes the powers of a new user namespace on to the keeper, which an exec would otherwise take away.
fn keep_powers() -> io::Result<()> {
    let held = capabilities(None)?;
    let needed = NEEDED.into_iter().fold(CapabilitySet::empty(), |all, one| all | one);
    set_capabilities(None, CapabilitySets { inheritable: held.inheritable | needed, ..held })?;
    for capability in NEEDED {
        configure_capability_in_ambient_set(capability, true)?;
    }
    Ok(())
}

/// Separates the mounts of this process from those of all others.
pub(super) fn own_mounts() -> io::Result<()> {
    Ok(unshare(CloneFlags::CLONE_NEWNS)?)
}

/// Brings the loopback interface of a new network up: servers and clients inside the command can talk to each other.
pub(super) fn raise_loopback() -> io::Result<()> {
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
        None => Err(io::Error::other("the kernel's answer is too short")),
    }
}
