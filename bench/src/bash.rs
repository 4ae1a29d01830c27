//! What `Bash` adds to a bare shell: the same command, in turns.

use std::{path::Path, process::Command, time::Duration};

use anyhow::{Context as _, Result, ensure};

use crate::{
    grep::{example, median},
    report,
};

/// How often the command is run in each way.
const TIMES: usize = 60;

/// Measures and prints; returns what a call of the tool adds, in milliseconds.
pub(crate) fn measure(drawloom: &Path) -> Result<f64> {
    report::heading(&format!("Bash beside `sh -c true`: medians of {TIMES}"))?;
    let bash = example("bash")?;
    // Not in /tmp: a volume there needs directories for its path in the command's own /tmp, which volumes elsewhere do not.
    let scratch = tempfile::tempdir_in(bash.parent().context("a program is in a directory")?)?;
    let output = Command::new(bash).arg(drawloom).arg(scratch.path()).arg(TIMES.to_string()).output()?;
    ensure!(output.status.success(), "the example bash failed: {}", String::from_utf8_lossy(&output.stderr));
    let (mut bare, mut bash) = (Vec::new(), Vec::new());
    for line in String::from_utf8(output.stdout)?.lines() {
        let (one, other) = line.split_once(' ').context("two numbers on each line")?;
        bare.push(Duration::from_micros(one.parse()?));
        bash.push(Duration::from_micros(other.parse()?));
    }
    let milliseconds = |times| median(times).as_secs_f64() * 1e3;
    let (bare, bash) = (milliseconds(bare), milliseconds(bash));
    report::line(&format!("sh -c true {bare:.2} ms, as a call of Bash {bash:.2} ms: {:.2} ms more", bash - bare))?;
    Ok(bash - bare)
}
