//! What Linux says about a process: its processor time and its memory.

use std::{fs, time::Duration};

use anyhow::{Context as _, Result, bail};

/// The unit of processor time in `/proc`, fixed at a hundredth of a second for programs on Linux.
const TICK: Duration = Duration::from_millis(10);

/// Memory of a process, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory {
    /// Pages in memory, shared ones counted whole.
    pub(crate) resident: u64,
    /// Pages in memory, shared ones counted by share.
    pub(crate) proportional: u64,
    /// Heap and stacks; what remains of the resident pages is the program's file.
    pub(crate) anonymous: u64,
}

/// Processor time of all threads so far, in the program and in the kernel.
pub(crate) fn processor_time(pid: u32) -> Result<Duration> {
    let path = format!("/proc/{pid}/stat");
    let stat = fs::read_to_string(&path).with_context(|| format!("cannot read {path}; has the process ended?"))?;
    // The program's name may hold spaces and brackets, so fields are counted after the last bracket.
    let (_, fields) = stat.rsplit_once(')').context("a process' stat has its name in brackets")?;
    let mut times = fields.split_ascii_whitespace().skip(11).map(str::parse::<u32>);
    match (times.next(), times.next()) {
        (Some(Ok(user)), Some(Ok(system))) => Ok(TICK * (user + system)),
        _ => bail!("{path} has no processor times: {stat}"),
    }
}

/// Memory now.
pub(crate) fn memory(pid: u32) -> Result<Memory> {
    Ok(Memory {
        resident: kibibytes(&format!("/proc/{pid}/status"), "VmRSS:")?,
        proportional: kibibytes(&format!("/proc/{pid}/smaps_rollup"), "Pss:")?,
        anonymous: kibibytes(&format!("/proc/{pid}/status"), "RssAnon:")?,
    })
}

/// The bytes of a line such as `VmRSS:   12345 kB`.
fn kibibytes(path: &str, name: &str) -> Result<u64> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {path}; has the process ended?"))?;
    let value =
        text.lines().find_map(|line| line.strip_prefix(name)).with_context(|| format!("{path} has no {name}"))?;
    let number = value.split_ascii_whitespace().next().context("a value follows its name")?;
    Ok(number.parse::<u64>()? * 1024)
}
