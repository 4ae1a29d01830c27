//! Beside a command that serves for long: starts it on the pipes that drawloom holds, and ends all that it started when it
//! ends or when drawloom lets go of them. It puts up no walls: what it starts is the operator's own choice.

use std::{
    io::{self, Write as _},
    os::fd::AsFd,
    process::{Command, ExitCode},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Pid, PidfdFlags, WaitStatus, getpid, pidfd_open, set_child_subreaper},
};

use super::tree::{Reach, Tree};
use crate::{
    command::LONGEST_ORDER,
    report::{Report, tell},
    service::ServiceOrder,
};

/// How often orphans that have ended are taken in.
const ORPHANS_EVERY: Duration = Duration::from_secs(1);

pub(super) fn main() -> Result<ExitCode, String> {
    set_child_subreaper(Some(getpid())).map_err(|error| format!("cannot adopt orphaned processes: {error}"))?;
    let order = read_order()?;
    let mut command = Command::new(&order.program);
    command.args(&order.args).env_clear().envs(order.environment.iter().map(|(name, value)| (name, value)));
    if let Some(directory) = &order.directory {
        command.current_dir(directory);
    }
    // What comes on the pipe of the reports from here on is the command's own.
    tell(&Report::Serving);
    io::stderr().flush().map_err(|error| error.to_string())?;
    // It stays in the group of this process, so that drawloom can end it with us should we be killed.
    let child = command.spawn().map_err(|error| format!("{}: {error}", order.program))?;
    let tree = supervise(Pid::from_child(&child), Duration::from_millis(order.grace_ms));
    let status = tree.status();
    let signal = status.and_then(WaitStatus::terminating_signal);
    let code = status.and_then(WaitStatus::exit_status).or(signal.map(|signal| 128 + signal));
    Ok(ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}

/// Reads the line of the order and not a byte more: what follows is for the command, which inherits the pipe.
fn read_order() -> Result<ServiceOrder, String> {
    let (mut line, mut byte) = (Vec::new(), [0_u8]);
    loop {
        match rustix::io::read(io::stdin().as_fd(), &mut byte) {
            Ok(0) => break,
            Ok(_) if byte[0] == b'\n' => break,
            Ok(_) if line.len() >= LONGEST_ORDER => return Err("the request is too long".into()),
            Ok(_) => line.push(byte[0]),
            Err(Errno::INTR) => {}
            Err(error) => return Err(format!("cannot read the request: {error}")),
        }
    }
    serde_json::from_slice(&line).map_err(|error| format!("invalid request: {error}"))
}

/// Waits until the command ends or drawloom lets go, then ends everything.
fn supervise(command: Pid, grace: Duration) -> Tree {
    let mut tree = Tree::new(command, Reach::Descendants);
    if let Ok(process) = pidfd_open(command, PidfdFlags::empty()) {
        let input = io::stdin();
        let ended = PollFd::from_borrowed_fd(process.as_fd(), PollFlags::IN);
        // No event is asked for: the end of all writers is told in any case, and what they wrote is not for us.
        let released = PollFd::from_borrowed_fd(input.as_fd(), PollFlags::empty());
        let mut watched = [ended, released];
        while matches!(poll(&mut watched, Some(&timespec(ORPHANS_EVERY))), Ok(0) | Err(Errno::INTR)) {
            tree.reap();
        }
        tree.reap();
        if tree.status().is_none() {
            // Its input has ended: most programs end in order when they see that.
            let mut ended = [PollFd::from_borrowed_fd(process.as_fd(), PollFlags::IN)];
            let _ = poll(&mut ended, Some(&timespec(grace)));
        }
    }
    tree.reap();
    tree.end(grace);
    tree
}

fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs().cast_signed(), tv_nsec: time.subsec_nanos().into() }
}
