//! What a command used too much of.

use std::{fmt, thread};

use serde::{Deserialize, Serialize};

/// A limit that a command, with everything that it started, exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exceeded {
    /// Of what.
    pub resource: Resource,
    /// How much it used when that was noticed.
    pub used: u64,
    /// The limit.
    pub most: u64,
}

impl Exceeded {
    /// What was exceeded, and the key that raises the limit. `keys` is where `max_memory_bytes` and `max_processes` are.
    pub fn told(&self, keys: &str) -> String {
        match self.resource {
            Resource::Memory => format!("{self}; raise {keys}.max_memory_bytes"),
            Resource::Processes => format!("{self}; raise {keys}.max_processes"),
            Resource::Disk | Resource::Guard | Resource::Unknown => self.to_string(),
        }
    }
}

impl fmt::Display for Exceeded {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { used, most, .. } = self;
        match self.resource {
            Resource::Memory => write!(formatter, "it used {used} bytes of memory; the limit is {most}"),
            Resource::Processes => write!(formatter, "it had {used} processes and threads; the limit is {most}"),
            Resource::Disk => write!(formatter, "it wrote {used} bytes to disks; the limit is {most}"),
            Resource::Guard => formatter.write_str("a guarded file was replaced outside while it ran"),
            Resource::Unknown => {
                formatter.write_str("what it uses could not be read, so its limits could not be enforced")
            }
        }
    }
}

/// How much of the machine's memory a command may use when nothing says otherwise, in percent.
const MEMORY_PERCENT: u64 = 75;

/// How many processes and threads a coding CLI, or a command of a goal, may have when nothing says otherwise: at least, and for each
/// processor.
const PROCESSES: u64 = 2_048;
const PROCESSES_EACH: u64 = 256;

/// The memory that a command may use when nothing says otherwise.
pub fn usual_memory() -> u64 {
    let memory = rustix::system::sysinfo();
    u64::from(memory.mem_unit) * (memory.totalram as u64) / 100 * MEMORY_PERCENT
}

/// The processes and threads that a coding CLI, or a command of a goal, may have at once when nothing says otherwise.
pub fn usual_processes() -> u64 {
    let processors = thread::available_parallelism().map_or(1, |count| count.get() as u64);
    PROCESSES.max(PROCESSES_EACH * processors)
}

/// What is counted over all processes of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// Memory, in bytes.
    Memory,
    /// Processes and threads at once.
    Processes,
    /// Bytes written to disks.
    Disk,
    /// None: a guarded file was replaced outside while it ran, so that it could have reached the new one.
    Guard,
    /// What it uses could not be read, so that its limits could not be enforced.
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_exceeded_is_told_with_the_key_that_raises_it() {
        let told = |resource| Exceeded { resource, used: 300, most: 200 }.told("goals");
        assert_eq!(
            told(Resource::Processes),
            "it had 300 processes and threads; the limit is 200; raise goals.max_processes"
        );
        assert_eq!(
            told(Resource::Memory),
            "it used 300 bytes of memory; the limit is 200; raise goals.max_memory_bytes"
        );
        assert!(usual_processes() >= PROCESSES && usual_memory() > 0);
    }
}
