//! Everything that a command started, daemons included: a process that loses its parent becomes a child of this one.

pub(super) mod family;

use std::{
    collections::BTreeSet,
    os::fd::{AsFd, OwnedFd},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, kill_process, kill_process_group, pidfd_open, wait},
};

/// How long killed processes may take to be gone; what takes longer is held by the kernel, or forks faster than we look.
const GONE_WITHIN: Duration = Duration::from_secs(5);

/// How long processes are brought to a stop before they are killed while they run.
const STOPPED_WITHIN: Duration = Duration::from_secs(1);

/// How long ends are taken in at once: a command that starts new processes all the time must not keep us from everything else.
const TAKEN_IN_WITHIN: Duration = Duration::from_millis(100);

/// Most processes whose end is waited for at once, and how long when that is not all of them.
const MOST_WATCHED: usize = 256;
const NOT_ALL_WATCHED: Duration = Duration::from_millis(50);

/// How long to wait for an end when `/proc` cannot say which processes to wait for.
const BLIND: Duration = Duration::from_millis(5);

/// Which processes belong to the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// All in our namespace, whose first process we are.
    Namespace,
    /// What descends from us.
    Descendants,
}

/// The command and what it started.
pub(super) struct Tree {
    command: Pid,
    reach: Reach,
    status: Option<WaitStatus>,
    /// Processes that ended by our signal after the command itself had ended.
    left: u32,
    stuck: bool,
}

impl Tree {
    pub(super) fn new(command: Pid, reach: Reach) -> Self {
        Self { command, reach, status: None, left: 0, stuck: false }
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
        self.stuck.then(|| {
            let seconds = GONE_WITHIN.as_secs();
            format!("some of its processes had not exited {seconds} s after being killed and may still be running")
        })
    }

    /// Takes in what has ended, as far as it can be done at once. False when no child is left: then nothing is, because
    /// every orphan is a child of ours. The kernel says so itself; `/proc` is not asked.
    pub(super) fn reap(&mut self) -> bool {
        let until = Instant::now() + TAKEN_IN_WITHIN;
        while Instant::now() < until {
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
        true
    }

    /// Ends all: asks first, and after `grace` kills what is still there.
    pub(super) fn end(&mut self, grace: Duration) {
        if self.reap() {
            // The group may be gone; its members are then among the children.
            let _ = kill_process_group(self.command, Signal::TERM);
            if self.ask_until_gone(grace) {
                return;
            }
            if self.reach == Reach::Descendants {
                self.stop_all();
            }
        }
        self.stuck = !self.kill_until_gone();
    }

    /// Asks every child, and every orphan as it comes, to end, until none is left (true) or the time is over.
    fn ask_until_gone(&mut self, most: Duration) -> bool {
        let until = Instant::now() + most;
        let mut asked = BTreeSet::new();
        while self.reap() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let children = family::children();
            for pid in children.iter().flatten() {
                // A repeated SIGTERM would only run its handler again.
                if !asked.contains(&pid.as_raw_nonzero()) {
                    let _ = kill_process(*pid, Signal::TERM);
                }
            }
            wait_for_any(children.as_deref().ok(), left);
            asked = children.into_iter().flatten().map(Pid::as_raw_nonzero).collect();
        }
        true
    }

    /// Stops all descendants until none of them moves, so that no new ones come. Those that are quicker are killed running.
    fn stop_all(&mut self) {
        let until = Instant::now() + STOPPED_WITHIN;
        let mut quiet = 0;
        // One quiet look is not enough: the child of one that ended meanwhile may just have become ours.
        while quiet < 2 && Instant::now() < until && self.reap() {
            quiet = match family::signal_descendants(Signal::STOP) {
                Ok(false) => quiet + 1,
                // An unreadable `/proc` says nothing: there may be processes.
                Ok(true) | Err(_) => 0,
            };
        }
    }

    /// Kills all, until none is left (true) or the time is over.
    fn kill_until_gone(&mut self) -> bool {
        let until = Instant::now() + GONE_WITHIN;
        while self.reap() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            match self.reach {
                Reach::Namespace => family::signal_namespace(Signal::KILL),
                Reach::Descendants => {
                    let _ = kill_process_group(self.command, Signal::KILL);
                    let _ = family::signal_descendants(Signal::KILL);
                }
            }
            wait_for_any(family::children().as_deref().ok(), left);
        }
        true
    }
}

/// Returns when one of them has ended, a new one may have come, or the time is over. Without a list it waits a moment.
fn wait_for_any(pids: Option<&[Pid]>, most: Duration) {
    let known = pids.unwrap_or_default();
    let most = match pids {
        None => most.min(BLIND),
        Some(pids) if pids.len() > MOST_WATCHED => most.min(NOT_ALL_WATCHED),
        Some(_) => most,
    };
    let watched = &known[..known.len().min(MOST_WATCHED)];
    let opened: Vec<OwnedFd> = watched.iter().filter_map(|pid| pidfd_open(*pid, PidfdFlags::empty()).ok()).collect();
    if pids.is_some() && (opened.len() < watched.len() || opened.is_empty()) {
        // One was gone already, or orphans are just being handed over: look again at once.
        return;
    }
    let mut watched: Vec<_> = opened.iter().map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)).collect();
    let timeout = Timespec { tv_sec: most.as_secs().cast_signed(), tv_nsec: most.subsec_nanos().into() };
    // Interrupted or over: the caller looks at the clock.
    let _ = poll(&mut watched, Some(&timeout));
}
