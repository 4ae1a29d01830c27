//! Starting the command, confined: limits, capabilities, Landlock and the filter of system calls.

use std::{
    os::{fd::OwnedFd, unix::process::CommandExt},
    path::Path,
    process::{Command, Stdio},
    thread,
};

use rustix::{
    process::{Pid, Resource, Rlimit, geteuid, setrlimit},
    thread::{
        CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set, clear_ambient_capability_set,
        remove_capability_from_bounding_set, set_capabilities,
    },
};

use crate::{
    command::{Limits, Order},
    landlock::{Landlock, Rules},
    seccomp::{Filter, Programs},
};

/// What a command keeps of root's powers, if it has them: those over files that it may touch. The others lead out of its
/// confinement; with `PERFMON`, for one, the kernel shows the environment of every process.
const KEPT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID);

/// What only the command gets of drawloom; its standard output is the supervisor's.
pub(super) struct Streams {
    pub(super) input: OwnedFd,
    pub(super) errors: OwnedFd,
}

/// Layers that are ready to be put on a command.
pub(super) struct Layers {
    landlock: Option<Rules>,
    seccomp: Option<Programs>,
}

impl Layers {
    /// Does all of the work that does not need the root that the command will see.
    pub(super) fn prepare(order: &Order) -> Result<Self, String> {
        let inner = &order.inner;
        let filter = Filter { isolated: order.isolated, network: inner.network };
        Ok(Self {
            landlock: inner.landlock.then(|| Rules::for_settings(&inner.settings)),
            seccomp: inner.seccomp.then(|| filter.compile()).transpose()?,
        })
    }
}

/// Starts the command, confined. The layers hold a thread and what it starts, so that they are put on a thread of its own.
pub(super) fn start(order: &Order, layers: Layers, streams: Streams) -> Result<Pid, String> {
    limit(&order.inner.limits)?;
    let started = thread::scope(|scope| scope.spawn(|| confine_and_start(order, layers, streams)).join());
    started.unwrap_or_else(|_| Err("internal error: the thread that starts the command panicked".into()))
}

fn confine_and_start(order: &Order, layers: Layers, streams: Streams) -> Result<Pid, String> {
    let inner = &order.inner;
    if !inner.powers {
        give_up_powers().map_err(|error| format!("cannot drop root privileges: {error}"))?;
    }
    if let Some(rules) = layers.landlock
        && let Landlock::Off(reason) = rules.confine(order, Path::new("."))?
    {
        return Err(format!("Landlock no longer works: {reason}"));
    }
    if let Some(filter) = layers.seccomp {
        filter.apply()?;
    }
    let child = Command::new(&inner.program)
        .args(&inner.args)
        .env_clear()
        .envs(order.environment.iter().map(|(name, value)| (name, value)))
        .stdin(streams.input)
        .stdout(Stdio::inherit())
        .stderr(streams.errors)
        .process_group(0)
        .spawn()
        .map_err(|error| format!("{}: {error}", inner.program))?;
    Ok(Pid::from_child(&child))
}

/// Takes the powers of root from this thread, for ever. Other users have none, or only those over new namespaces.
fn give_up_powers() -> rustix::io::Result<()> {
    clear_ambient_capability_set()?;
    let held = capabilities(None)?;
    if held.permitted.is_empty() {
        return Ok(());
    }
    // Others have powers only over namespaces that were made for this command.
    let keep = if geteuid().is_root() { KEPT } else { CapabilitySet::empty() };
    for capability in (0..u64::BITS).map(|bit| CapabilitySet::from_bits_retain(1 << bit)) {
        match capability_is_in_bounding_set(capability) {
            Ok(true) if !keep.contains(capability) => remove_capability_from_bounding_set(capability)?,
            Ok(_) => {}
            // A number beyond the kernel's last one.
            Err(_) => break,
        }
    }
    let kept = CapabilitySets {
        effective: held.effective & keep,
        permitted: held.permitted & keep,
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, kept)
}

/// Limits of this process, which it needs no more of than the command. What is allowed already may be less.
fn limit(limits: &Limits) -> Result<(), String> {
    for (resource, most, what) in
        [(Resource::Core, Some(0), "core dumps"), (Resource::Fsize, limits.file_bytes, "file size")]
    {
        let Some(most) = most else { continue };
        let allowed = rustix::process::getrlimit(resource).maximum.unwrap_or(u64::MAX);
        let most = Some(most.min(allowed));
        setrlimit(resource, Rlimit { current: most, maximum: most })
            .map_err(|error| format!("cannot limit {what}: {error}"))?;
    }
    Ok(())
}
