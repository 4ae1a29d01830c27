//! The last step: limits, Landlock and the filter of system calls for this process, which then becomes the command.

use std::{
    fs::File,
    io::{self, Read},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::process::CommandExt,
    },
    path::Path,
    process::{Command, ExitCode, Stdio},
};

use rustix::{
    process::{Resource, Rlimit, geteuid, setrlimit, setsid},
    thread::{
        CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set, clear_ambient_capability_set,
        remove_capability_from_bounding_set, set_capabilities,
    },
};

use crate::{
    command::{Inner, LONGEST_ORDER, Limits},
    landlock::{self, Landlock},
    report::{Report, tell_to},
    seccomp::Filter,
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

pub(super) fn main() -> Result<ExitCode, String> {
    let mut order = Vec::new();
    let read = io::stdin().take(LONGEST_ORDER as u64).read_to_end(&mut order);
    read.map_err(|error| format!("the order could not be read: {error}"))?;
    let inner: Inner = serde_json::from_slice(&order).map_err(|error| format!("the order is broken: {error}"))?;
    setsid().map_err(|error| format!("no session of its own: {error}"))?;
    limit(&inner.limits)?;
    give_up_powers().map_err(|error| format!("the powers of root could not be given up: {error}"))?;
    if inner.landlock
        && let Landlock::Off(reason) = landlock::confine(&inner, Path::new("."))
    {
        return Err(format!("Landlock worked before and does not now: {reason}"));
    }
    let copy = |of: BorrowedFd<'_>| of.try_clone_to_owned().map_err(|error| format!("no output: {error}"));
    let (output, reports) = (copy(io::stdout().as_fd())?, copy(io::stderr().as_fd())?);
    if inner.seccomp {
        Filter { isolated: inner.isolated, network: inner.network }.apply()?;
    }
    let error = Command::new(&inner.program).args(&inner.args).stdin(Stdio::null()).stderr(output).exec();
    // By now our standard error is the command's.
    tell_to(&mut File::from(reports), &Report::Refused(format!("{}: {error}", inner.program)));
    Ok(ExitCode::from(127))
}

/// Takes this process out of reach of what root may do, and keeps it so over every exec. Nothing to do for others.
fn give_up_powers() -> rustix::io::Result<()> {
    clear_ambient_capability_set()?;
    let held = capabilities(None)?;
    if held.permitted.is_empty() {
        return Ok(());
    }
    // Others have powers only over namespaces that were made for this command.
    let keep = if geteuid().is_root() { KEPT } else { CapabilitySet::empty() };
    for capability in (0..u64::BITS).map(|bit| CapabilitySet::from_bits_retain(1 << bit)) {
        // A number beyond the kernel's last one is an error, and nothing to give up.
        if !keep.contains(capability) && capability_is_in_bounding_set(capability) == Ok(true) {
            remove_capability_from_bounding_set(capability)?;
        }
    }
    let kept = CapabilitySets {
        effective: held.effective & keep,
        permitted: held.permitted & keep,
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, kept)
}

fn limit(limits: &Limits) -> Result<(), String> {
    let wanted = [
        (Resource::Core, Some(0), "core dumps"),
        (Resource::Fsize, limits.file_bytes, "the size of files"),
        (Resource::Nofile, limits.open_files, "open files"),
        (Resource::Cpu, limits.cpu_seconds, "processor time"),
    ];
    for (resource, most, what) in wanted {
        let Some(most) = most else { continue };
        // What is allowed already may be less, and only root may raise it.
        let allowed = rustix::process::getrlimit(resource).maximum.unwrap_or(u64::MAX);
        let most = Some(most.min(allowed));
        setrlimit(resource, Rlimit { current: most, maximum: most })
            .map_err(|error| format!("{what} could not be limited: {error}"))?;
    }
    Ok(())
}
