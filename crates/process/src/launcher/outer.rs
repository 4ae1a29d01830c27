//! Outside the walls: starts the inner launcher, waits for the end of the command or of drawloom, and ends all the rest.

use std::{
    fs::{self, DirBuilder},
    io::{self, BufRead, BufReader, Read, Write},
    os::{fd::AsFd, unix::fs::DirBuilderExt},
    path::Path,
    process::{Command, ExitCode, Stdio},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Pid, PidfdFlags, WaitStatus, getpid, pidfd_open, set_child_subreaper, setpriority_process},
};

use super::{INNER, tree::Tree};
use crate::{
    command::{LONGEST_ORDER, Order},
    report::{Gone, Report, tell},
};

/// How often orphans that have ended are taken in while the command runs; each holds a number that others may need.
const ORPHANS_EVERY: Duration = Duration::from_millis(50);

/// The priority before all others'.
const FIRST: i32 = -20;

pub(super) fn main() -> Result<ExitCode, String> {
    set_child_subreaper(Some(getpid())).map_err(|error| format!("orphans cannot be adopted: {error}"))?;
    let order = read_order()?;
    let mut directory = DirBuilder::new();
    directory
        .mode(0o700)
        .create(&order.temporary)
        .map_err(|error| format!("the temporary directory {} could not be made: {error}", order.temporary.display()))?;
    let done = start(&order).map(|command| supervise(command, Duration::from_millis(order.grace_ms)));
    let trouble = remove(&order.temporary);
    done.map(|(by_itself, tree)| {
        let status = tree.status();
        let left = tree.left();
        let trouble = tree.trouble().or(trouble);
        let (code, signal) =
            (status.and_then(WaitStatus::exit_status), status.and_then(WaitStatus::terminating_signal));
        tell(&Report::Gone(Gone { code, signal, by_itself, left, trouble }));
        // The code as a shell would give it; what drawloom reads is the report.
        let code = code.or(signal.map(|signal| 128 + signal)).and_then(|code| u8::try_from(code).ok());
        ExitCode::from(code.unwrap_or(1))
    })
}

fn read_order() -> Result<Order, String> {
    let mut line = Vec::new();
    // Nothing follows the line but the pipe's end, so nothing is lost in the buffer.
    BufReader::new(io::stdin().take(LONGEST_ORDER as u64))
        .read_until(b'\n', &mut line)
        .map_err(|error| format!("the order could not be read: {error}"))?;
    serde_json::from_slice(&line).map_err(|error| format!("the order is broken: {error}"))
}

/// Starts the inner launcher and hands it its part of the order.
fn start(order: &Order) -> Result<Pid, String> {
    let mut child = Command::new("/proc/self/exe")
        .args(&order.launcher_args)
        .arg(INNER)
        .env_clear()
        .envs(order.environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .spawn()
        .map_err(|error| format!("the inner launcher could not be started: {error}"))?;
    let pid = Pid::from_child(&child);
    tell(&Report::Started(pid.as_raw_nonzero().get()));
    let inner = serde_json::to_vec(&order.inner).map_err(|error| format!("the order is broken: {error}"))?;
    let mut pipe = child.stdin.take().expect("its standard input was asked for");
    // Should it be gone already, its end says more than this error.
    let _ = pipe.write_all(&inner);
    Ok(pid)
}

/// Waits until the command ends or drawloom wants its end, then ends everything. True when the command ended first.
fn supervise(command: Pid, grace: Duration) -> (bool, Tree) {
    // Whoever fills the machine with processes must not keep us from ending them. Only root may; others stay as they are.
    let _ = setpriority_process(None, FIRST);
    let mut tree = Tree::new(command);
    if let Ok(process) = pidfd_open(command, PidfdFlags::empty()) {
        let control = io::stdin();
        let mut watched = [
            PollFd::from_borrowed_fd(process.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(control.as_fd(), PollFlags::IN),
        ];
        let timeout = Timespec { tv_sec: 0, tv_nsec: ORPHANS_EVERY.subsec_nanos().into() };
        // Nothing or an interruption: look again.
        while matches!(poll(&mut watched, Some(&timeout)), Ok(0) | Err(Errno::INTR)) && tree.status().is_none() {
            tree.reap();
        }
    }
    tree.reap();
    let by_itself = tree.status().is_some();
    tree.end(grace);
    (by_itself, tree)
}

/// Removes the command's temporary directory, or says why not.
fn remove(temporary: &Path) -> Option<String> {
    let error = fs::remove_dir_all(temporary).err()?;
    Some(format!("its temporary directory {} could not be removed: {error}", temporary.display()))
}
