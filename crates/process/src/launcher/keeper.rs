//! Inside the namespaces, as their first process: builds what the command sees, starts it, watches what it uses, and ends
//! everything that it started.

use std::{
    fs,
    io::{PipeReader, Read},
    os::fd::AsFd,
    path::PathBuf,
    thread,
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Pid, PidfdFlags, WaitStatus, pidfd_open, setpriority_process, setsid},
};

use super::{
    confined::{self, Layers, Streams},
    namespaces, root,
    tree::{Reach, Tree},
    usage::Meter,
};
use crate::{
    command::{Network, Order},
    report::{GO, Gone, Report, tell},
    usage::{Exceeded, Resource},
};

/// How often the keeper takes in orphans that have ended, and looks at what the command uses.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// The priority before all others'.
const FIRST: i32 = -20;

/// Prepares everything, starts the command when `leash` has the start signal, and tells its end. The command's lock is held here
/// too, by the descriptor that the outer process left: when that is killed, this one still ends everything before it lets go.
pub(super) fn main(order: &Order, streams: Streams, mut leash: PipeReader) -> Result<(), String> {
    namespaces::limit_powers().map_err(|error| format!("cannot limit privileges: {error}"))?;
    // A session without a terminal; the command stays in it.
    setsid().map_err(|error| format!("cannot create a session: {error}"))?;
    cap_processes(order.inner.limits.processes);
    let (guarded, layers) = prepare(order)?;
    let mut word = [0; GO.len()];
    if leash.read_exact(&mut word).is_err() || word != *GO {
        return Ok(());
    }
    let gone = keep(order, layers, streams, &leash, &guarded)?;
    tell(&Report::Gone(gone));
    Ok(())
}

/// From this version of Linux on each namespace of processes has a highest number of its own; before, it was the machine's.
const OWN_PID_MAX: (u32, u32) = (6, 14);

/// Numbers that the kernel gives out only once in a namespace.
const RESERVED: u64 = 300;

/// Has the kernel refuse processes far above the limit, which are otherwise only counted every now and then: a fork bomb could make
/// tens of thousands in between. Only root may, and on an older kernel nothing is done.
fn cap_processes(limit: Option<u64>) {
    let system = rustix::system::uname();
    let release = system.release().to_string_lossy();
    let mut numbers = release.split(['.', '-']).map(|number| number.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if let Some(limit) = limit.filter(|_| version >= OWN_PID_MAX) {
        // Threads of the keeper, and the number of the last one that is refused, are few.
        let _ = fs::write("/proc/sys/kernel/pid_max", (limit.saturating_mul(2) + RESERVED).to_string());
    }
}

/// Builds the root here, and the rest on a second thread: each takes about as long as the other.
fn prepare(order: &Order) -> Result<(Vec<PathBuf>, Layers), String> {
    thread::scope(|scope| {
        let aside = scope.spawn(|| {
            let network = match order.inner.network {
                Network::None => {
                    Some(namespaces::own_network().map_err(|error| format!("cannot set up the network: {error}"))?)
                }
                Network::Host => None,
            };
            Ok::<_, String>((network, Layers::prepare(order)?))
        });
        let guarded = root::enter(order)?;
        let aside = aside.join().map_err(|_| "internal error: the thread that prepares the command panicked")?;
        let (network, layers) = aside?;
        if let Some(network) = network {
            namespaces::join_network(&network)
                .map_err(|error| format!("cannot create a network namespace: {error}"))?;
        }
        Ok((guarded, layers))
    })
}

/// Starts the command, waits until it ends, uses too much, could reach a guarded file, or `leash` ends, and then ends everything
/// that it started.
pub(super) fn keep(
    order: &Order,
    layers: Layers,
    streams: Streams,
    leash: &impl AsFd,
    guarded: &[PathBuf],
) -> Result<Gone, String> {
    let command = confined::start(order, layers, streams)?;
    if !order.isolated {
        tell(&Report::Started(command.as_raw_nonzero().get()));
    }
    // Only root may; others keep theirs. Many processes of a command must not keep us from ending them.
    let _ = setpriority_process(None, FIRST);
    let reach = if order.isolated { Reach::Namespace } else { Reach::Descendants };
    let mut tree = Tree::new(command, reach);
    let mut meter = Meter::new(order.inner.limits, reach);
    let exceeded = watch(command, leash, &mut tree, || {
        let unguarded = root::unguarded(guarded).map(|_| Exceeded { resource: Resource::Guard, used: 0, most: 0 });
        unguarded.or_else(|| meter.look())
    });
    // What a command left that ended by itself between two looks.
    let is_of_processes = |exceeded: &Exceeded| exceeded.resource == Resource::Processes;
    let exceeded = exceeded.or_else(|| meter.look().filter(is_of_processes));
    tree.reap();
    let by_itself = tree.status().is_some();
    let grace = if exceeded.is_some() { Duration::ZERO } else { Duration::from_millis(order.grace_ms) };
    tree.end(grace);
    let status = tree.status();
    // Those that it started since the last look.
    let exceeded = exceeded.or(meter.found(u64::from(tree.left())));
    Ok(Gone {
        code: status.and_then(WaitStatus::exit_status),
        signal: status.and_then(WaitStatus::terminating_signal),
        by_itself,
        left: tree.left(),
        exceeded,
        peak: meter.peak(),
        trouble: tree.trouble(),
    })
}

/// Returns when the command has ended or is to be ended; then also the limit that it exceeded, if that is why.
fn watch(
    command: Pid,
    leash: &impl AsFd,
    tree: &mut Tree,
    mut look: impl FnMut() -> Option<Exceeded>,
) -> Option<Exceeded> {
    let process = pidfd_open(command, PidfdFlags::empty()).ok()?;
    let mut watched = [
        PollFd::from_borrowed_fd(process.as_fd(), PollFlags::IN),
        PollFd::from_borrowed_fd(leash.as_fd(), PollFlags::IN),
    ];
    // Nothing or an interruption: look again.
    while matches!(poll(&mut watched, Some(&LOOK_EVERY)), Ok(0) | Err(Errno::INTR)) && tree.status().is_none() {
        tree.reap();
        if let Some(exceeded) = look() {
            return Some(exceeded);
        }
    }
    None
}
