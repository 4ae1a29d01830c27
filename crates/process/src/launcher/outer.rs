//! Outside: takes the order and the lock, waits for the start signal, starts the keeper and clears up after it.

use std::{
    fs::{self, DirBuilder, File},
    io::{self, PipeWriter, Read, Write},
    os::{fd::AsFd, unix::fs::DirBuilderExt},
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{
        Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, getpid, pidfd_open, pidfd_send_signal, set_child_subreaper,
        setsid, waitpid,
    },
};

use super::{
    cgroup::{Group, OutOfMemory},
    confined::{Layers, Streams},
    keeper, namespaces, read_order, refused,
};
use crate::{
    command::Order,
    lock,
    remove::remove_tree,
    report::{GO, Gone, Report, tell},
};

/// How long the keeper may take beyond the grace before it is killed, and everything in its namespaces with it.
const SLACK: Duration = Duration::from_secs(7);

pub(super) fn main(streams: Streams) -> Result<ExitCode, String> {
    set_child_subreaper(Some(getpid())).map_err(|error| format!("cannot adopt orphaned processes: {error}"))?;
    let mut order: Order = read_order()?;
    // Away from the terminal that drawloom was started in; it fails where this process leads a group already.
    let _ = setsid();
    // When the machine runs out of memory, a command goes before drawloom and other programs.
    let _ = fs::write("/proc/self/oom_score_adj", "800");
    let held = lock::share(&order.temporary).map_err(|error| format!("cannot take the command's lock: {error}"))?;
    DirBuilder::new()
        .mode(0o700)
        .create(&order.temporary)
        .map_err(|error| format!("cannot create the temporary directory {}: {error}", order.temporary.display()))?;
    // The lock is held. drawloom answers while the command is prepared.
    tell(&Report::Ready(getpid().as_raw_nonzero().get()));
    let done = run(&mut order, streams);
    let trouble = clear_up(&order.temporary, held);
    if let Some(gone) = done? {
        tell(&Report::Gone(gone));
    }
    if let Some(trouble) = trouble {
        tell(&Report::Trouble(trouble));
    }
    Ok(ExitCode::SUCCESS)
}

/// Waits for drawloom's start signal. Without this a command could start after a restarted drawloom has found its lock free.
fn may_go() -> Result<(), String> {
    let mut word = [0; GO.len()];
    match io::stdin().read_exact(&mut word) {
        Ok(()) if word == *GO => Ok(()),
        _ => Err("drawloom exited before the command could start".into()),
    }
}

/// Runs the command, here or in namespaces of its own. What is left to tell, if a keeper did not tell it.
fn run(order: &mut Order, streams: Streams) -> Result<Option<Gone>, String> {
    let mut group = None;
    if order.grouped {
        let name = order.temporary.file_name().unwrap_or_default().to_string_lossy().into_owned();
        group = Some(Group::make(&name, order.inner.limits).map_err(|reason| format!("no cgroup: {reason}"))?);
        // The kernel counts these now.
        (order.inner.limits.memory_bytes, order.inner.limits.processes) = (None, None);
    }
    let mut gone = match order.isolated {
        true => isolated(order, group.as_ref(), streams)?,
        false => {
            let layers = Layers::prepare(order)?;
            may_go()?;
            Some(keeper::keep(order, layers, streams, &io::stdin(), &[])?)
        }
    };
    match group.as_ref().and_then(Group::out_of_memory) {
        None => {}
        Some(OutOfMemory::Group(exceeded)) => {
            gone = Some(Gone { exceeded: Some(exceeded), trouble: None, ..gone.unwrap_or_default() });
        }
        Some(OutOfMemory::Machine) => {
            let trouble = "the machine ran out of memory, and the kernel killed the command and its processes";
            gone = Some(Gone { trouble: Some(trouble.into()), ..gone.unwrap_or_default() });
        }
    }
    if let Some(limited) = group.as_ref().and_then(Group::limited) {
        tell(&Report::Limited(limited));
    }
    Ok(gone)
}

/// Starts the keeper in namespaces of its own, and ends it when drawloom wants that. What is left to tell, if the keeper did
/// not tell it.
fn isolated(order: &Order, group: Option<&Group>, streams: Streams) -> Result<Option<Gone>, String> {
    let (end, leash) = io::pipe().map_err(|error| format!("cannot create a pipe to the supervisor: {error}"))?;
    let mut leash = Some(leash);
    let keeper = namespaces::start_first(|| {
        leash = None;
        keeper::main(order, streams, end).map_or_else(refused, |()| 0)
    });
    let keeper = keeper.map_err(|error| format!("no namespaces: {error}"))?;
    let mut leash = leash.expect("only the keeper has let go of it");
    let entered = group.map_or(Ok(()), |group| group.add(keeper));
    let entered = entered.map_err(|error| format!("cannot enter the cgroup: {error}"));
    // The keeper waits for this signal, so that nothing starts outside the group.
    let may_go = entered.and_then(|()| may_go());
    if may_go.is_ok() {
        // Should the keeper be gone already, its end says more than this error.
        let _ = leash.write_all(GO);
    }
    let grace = Duration::from_millis(order.grace_ms);
    let ended = wait_for(keeper, leash, grace + SLACK).map_err(|error| format!("lost the supervisor: {error}"))?;
    may_go?;
    let killed = "its supervisor and all its processes were killed";
    Ok(ended.exit_status().is_none().then(|| Gone { trouble: Some(killed.into()), ..Gone::default() }))
}

/// Waits for the keeper's end. When drawloom lets go first, the keeper is told by the end of its input, and killed when it does
/// not end in time: the kernel then kills everything in its namespaces.
fn wait_for(keeper: Pid, leash: PipeWriter, slack: Duration) -> io::Result<WaitStatus> {
    let process = pidfd_open(keeper, PidfdFlags::empty())?;
    let control = io::stdin();
    let mut watched = [
        PollFd::from_borrowed_fd(process.as_fd(), PollFlags::IN),
        PollFd::from_borrowed_fd(control.as_fd(), PollFlags::IN),
    ];
    while poll(&mut watched, None).is_err() {}
    drop(leash);
    let until = Instant::now() + slack;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        match poll(&mut watched[..1], Some(&timeout)) {
            Ok(0) => pidfd_send_signal(&process, Signal::KILL)?,
            Ok(_) => {
                let ended = waitpid(Some(keeper), WaitOptions::empty())?;
                return ended.map(|(_, status)| status).ok_or_else(|| Errno::CHILD.into());
            }
            Err(_) => {}
        }
    }
}

/// Removes what the command leaves, or says why not, and then lets go of the lock.
fn clear_up(temporary: &Path, held: File) -> Option<String> {
    let removed = match remove_tree(temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Some(format!(
            "cannot remove the temporary directory {}: {error}; the server retries at its next start",
            temporary.display()
        )),
        Ok(()) | Err(_) => None,
    };
    let _ = fs::remove_file(lock::path(temporary));
    drop(held);
    removed
}
