//! Everything that a command started, daemons included: whoever loses its parent becomes a child of this process.

use std::{
    fs,
    os::fd::{AsFd, OwnedFd},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{
        Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, getpid, kill_process, kill_process_group, pidfd_open, wait,
    },
};

/// How long a killed process may take to be gone; longer means that the kernel holds it.
const GONE_WITHIN: Duration = Duration::from_secs(5);

/// The command and what it started.
pub(super) struct Tree {
    command: Pid,
    status: Option<WaitStatus>,
    /// Processes that ended by our signal after the command itself had ended.
    left: u32,
    stuck: bool,
}

impl Tree {
    pub(super) fn new(command: Pid) -> Self {
        Self { command, status: None, left: 0, stuck: false }
    }

    /// How the command ended.
    pub(super) fn status(&self) -> Option<WaitStatus> {
        self.status
    }

    /// How many processes it had left running.
    pub(super) fn left(&self) -> u32 {
        self.left
    }

    /// What could not be ended.
    pub(super) fn trouble(&self) -> Option<String> {
        self.stuck.then(|| "a process that it started cannot be killed: the kernel holds it".into())
    }

    /// Takes in what has ended. False when no child is left: then nothing is, because every orphan is a child of ours.
    pub(super) fn reap(&mut self) -> bool {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.command => self.status = Some(status),
                Ok(Some((_, status))) => {
                    let by_us = [Signal::TERM, Signal::KILL].map(|signal| Some(signal.as_raw()));
                    self.left += u32::from(by_us.contains(&status.terminating_signal()));
                }
                Ok(None) => return true,
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }

    /// Ends all: asks first, and kills what is still there after `grace`.
    pub(super) fn end(&mut self, grace: Duration) {
        if self.reap() {
            // The group may be gone; its members are then among the children.
            let _ = kill_process_group(self.command, Signal::TERM);
            self.signal_until_gone(Signal::TERM, grace);
        }
        self.stuck = !self.signal_until_gone(Signal::KILL, GONE_WITHIN);
    }

    /// Signals every child, and every orphan as it comes, until none is left (true) or the time is over.
    fn signal_until_gone(&mut self, signal: Signal, most: Duration) -> bool {
        let until = Instant::now() + most;
        let mut asked: Vec<Pid> = Vec::new();
        while self.reap() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let now = children();
            for pid in &now {
                // A repeated SIGTERM would only run its handler again; SIGKILL cannot be too often.
                if signal == Signal::KILL || !asked.contains(pid) {
                    let _ = kill_process(*pid, signal);
                }
            }
            asked = now;
            wait_for_any(&asked, left);
        }
        true
    }
}

/// Returns when one of them has ended, a new one may have come, or the time is over.
fn wait_for_any(pids: &[Pid], most: Duration) {
    let opened: Vec<OwnedFd> = pids.iter().filter_map(|pid| pidfd_open(*pid, PidfdFlags::empty()).ok()).collect();
    if opened.len() < pids.len() || opened.is_empty() {
        // One was gone already, or orphans are just being handed over: look again at once.
        return;
    }
    let mut watched: Vec<_> = opened.iter().map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)).collect();
    let timeout = Timespec { tv_sec: most.as_secs().cast_signed(), tv_nsec: most.subsec_nanos().into() };
    // Interrupted or over: the caller looks at the clock.
    let _ = poll(&mut watched, Some(&timeout));
}

/// Our children: from the kernel's list, or where that is not built in, from everybody's parent.
fn children() -> Vec<Pid> {
    let own = getpid();
    let list = fs::read_to_string(format!("/proc/self/task/{own}/children"));
    let numbers: Vec<i32> = match list {
        Ok(list) => list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect(),
        Err(_) => everybody().filter(|pid| parent(*pid) == Some(own.as_raw_nonzero().get())).collect(),
    };
    numbers.into_iter().filter_map(Pid::from_raw).collect()
}

fn everybody() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn parent(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in brackets and may hold anything; behind the last bracket come the state and the parent.
    stat.rsplit_once(") ")?.1.split_whitespace().nth(1)?.parse().ok()
}
