//! Sampling what all processes of a command use together: memory, processes, bytes written to disks.
//!
//! Per-process limits of the kernel would not do: RLIMIT_AS counts address space, which Node, Go and the JVM reserve by the
//! terabyte, and RLIMIT_NPROC counts the user's other processes.

use std::{collections::HashMap, fs, io};

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
    /// Bytes written, by process number and the time that the process was started; those that have ended stay in the sum.
    written: HashMap<(i32, u64), u64>,
    /// Looks in a row at which nothing could be read.
    failed: u32,
}

/// Looks in a row that may fail before the limits count as not enforced.
const MOST_FAILED: u32 = 3;

impl Meter {
    pub(super) fn new(limits: Limits, reach: Reach) -> Self {
        Self { limits, reach, written: HashMap::new(), failed: 0 }
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
        let count = over(Resource::Processes, members.len() as u64, processes);
        let memory =
            || over(Resource::Memory, members.iter().map(|pid| memory_of(*pid).unwrap_or(0)).sum(), memory_bytes);
        count.or_else(|| memory_bytes.and_then(|_| memory())).or_else(|| {
            disk_bytes?;
            for pid in &members {
                if let Ok((started, bytes)) = written_by(*pid) {
                    self.written.insert((pid.as_raw_nonzero().get(), started), bytes);
                }
            }
            over(Resource::Disk, self.written.values().sum(), disk_bytes)
        })
    }
}

/// Memory that a process has for itself or shares with its family: what files in the page cache hold is not counted.
fn memory_of(pid: Pid) -> io::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let kibibytes = |name: &str| -> u64 {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
    };
    Ok((kibibytes("RssAnon:") + kibibytes("RssShmem:") + kibibytes("VmSwap:")) * 1024)
}

/// When a process was started, and how many bytes it has written that were not taken back since.
fn written_by(pid: Pid) -> io::Result<(u64, u64)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let behind = stat.rsplit_once(") ").map_or("", |(_, behind)| behind);
    let started = behind.split(' ').nth(19).and_then(|field| field.parse().ok()).unwrap_or(0);
    let io = fs::read_to_string(format!("/proc/{pid}/io"))?;
    let bytes =
        |name: &str| -> u64 { io.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok()).unwrap_or(0) };
    Ok((started, bytes("write_bytes:").saturating_sub(bytes("cancelled_write_bytes:"))))
}
