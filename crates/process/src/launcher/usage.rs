//! Sampling what all processes of a command use together: memory, processes and threads, bytes written to disks.
//!
//! Per-process limits of the kernel would not do: RLIMIT_AS counts address space, which Node, Go and the JVM reserve by the
//! terabyte, and RLIMIT_NPROC counts the user's other processes.

use std::{fs, io};

use rustix::process::Pid;

use super::tree::{Reach, family};
use crate::{
    command::Limits,
    usage::{Exceeded, Resource},
};

/// Adds up what the processes of a command use, and compares it with their limits.
pub(super) struct Meter {
    limits: Limits,
    reach: Reach,
    /// Looks in a row at which nothing could be read.
    failed: u32,
    /// The most processes and threads at once, of those that were seen.
    peak: u64,
}

/// Looks in a row that may fail before the limits count as not enforced.
const MOST_FAILED: u32 = 3;

impl Meter {
    pub(super) fn new(limits: Limits, reach: Reach) -> Self {
        Self { limits, reach, failed: 0, peak: 0 }
    }

    /// The limit that is exceeded now, if one is.
    pub(super) fn look(&mut self) -> Option<Exceeded> {
        let Limits { memory_bytes, processes, disk_bytes, .. } = self.limits;
        if memory_bytes.is_none() && processes.is_none() && disk_bytes.is_none() {
            return None;
        }
        let members = match family::members(self.reach) {
            Ok(members) => members,
            Err(_) if self.failed < MOST_FAILED => {
                self.failed += 1;
                return None;
            }
            Err(_) => return Some(Exceeded { resource: Resource::Unknown, used: 0, most: 0 }),
        };
        self.failed = 0;
        let over = |resource, used: u64, most: Option<u64>| {
            most.filter(|most| used > *most).map(|most| Exceeded { resource, used, most })
        };
        let uses: Vec<Use> = members.iter().map(|pid| use_of(*pid).unwrap_or_default()).collect();
        let count = uses.iter().map(|one| one.threads).sum();
        self.peak = self.peak.max(count);
        let threads = over(Resource::Processes, count, processes);
        let memory = over(Resource::Memory, uses.iter().map(|one| one.memory).sum(), memory_bytes)
            // Pages that processes share were counted for each of them; whether it is too much is known only without that.
            .and_then(|_| over(Resource::Memory, members.iter().map(|pid| shared_out(*pid)).sum(), memory_bytes));
        threads.or(memory).or_else(|| {
            disk_bytes?;
            // The kernel adds what a process wrote to its parent when that takes it in; orphans are taken in by us.
            let own = written_by("self").unwrap_or(0);
            let written = members.iter().map(|pid| written_by(&pid.to_string()).unwrap_or(0)).sum::<u64>();
            over(Resource::Disk, own + written, disk_bytes)
        })
    }
}

impl Meter {
    /// The most processes and threads at once, of those that were seen.
    pub(super) fn peak(&self) -> u64 {
        self.peak
    }

    /// Counts processes that were found when the command was ended. Too many of them are a limit that was exceeded between two looks.
    pub(super) fn found(&mut self, count: u64) -> Option<Exceeded> {
        self.peak = self.peak.max(count);
        let most = self.limits.processes.filter(|most| count > *most)?;
        Some(Exceeded { resource: Resource::Processes, used: count, most })
    }
}

/// What one process uses.
#[derive(Default)]
struct Use {
    threads: u64,
    /// Memory that it has for itself or shares, without what files in the page cache hold.
    memory: u64,
}

fn use_of(pid: Pid) -> io::Result<Use> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let memory = ["RssAnon:", "RssShmem:", "VmSwap:"].iter().map(|name| number(&status, name)).sum::<u64>() * 1024;
    Ok(Use { threads: number(&status, "Threads:").max(1), memory })
}

/// Memory of a process, each shared page divided by the number of those that share it.
fn shared_out(pid: Pid) -> u64 {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    ["Pss_Anon:", "Pss_Shmem:", "SwapPss:"].iter().map(|name| number(&rollup, name)).sum::<u64>() * 1024
}

/// How many bytes a process has written that were not taken back since.
fn written_by(pid: &str) -> io::Result<u64> {
    let io = fs::read_to_string(format!("/proc/{pid}/io"))?;
    Ok(number(&io, "write_bytes:").saturating_sub(number(&io, "cancelled_write_bytes:")))
}

/// The number behind a name at the beginning of a line.
fn number(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
