//! `Grep` beside ripgrep: the same searches over the same large tree, as processes of their own, one after the other.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};

use crate::report::{self, Table, whole};

/// The workspace that the example is built from.
const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");

/// How often each search is made by each program.
const TIMES: usize = 9;

/// The searches: a name, ripgrep's arguments and the tool's input.
const SEARCHES: &[(&str, &[&str], &str)] = &[
    ("nothing to find", &["-l", "xyzzy_nothing"], r#"{"pattern":"xyzzy_nothing"}"#),
    ("files, common word", &["-l", "unsafe"], r#"{"pattern":"unsafe"}"#),
    ("counts, expression", &["-c", r"fn\s+\w+_at\b"], r#"{"pattern":"fn\\s+\\w+_at\\b","output_mode":"count"}"#),
    (
        "lines, any case",
        &["-n", "-i", "deadlock"],
        r#"{"pattern":"deadlock","case_insensitive":true,"output_mode":"content"}"#,
    ),
    ("lines, common word", &["-n", "unsafe"], r#"{"pattern":"unsafe","output_mode":"content"}"#),
];

/// Measures and prints; returns the worst ratio of our time to ripgrep's, or nothing when ripgrep is not installed.
pub(crate) fn measure(tree: &Path) -> Result<Option<f64>> {
    report::heading(&format!("Grep beside ripgrep: medians of {TIMES} searches in {}", tree.display()))?;
    let Ok(version) = Command::new("rg").arg("--version").output() else {
        report::line("not measured: ripgrep (rg) is not installed")?;
        return Ok(None);
    };
    report::line(String::from_utf8_lossy(&version.stdout).lines().next().unwrap_or("rg"))?;
    let ours = example("grep")?;
    let scratch = tempfile::tempdir()?;
    let output = scratch.path().join("output");
    let table = Table::start(&[("search", 20), ("ripgrep ms", 10), ("Grep ms", 10), ("ratio", 6)])?;
    let mut worst = 0.0_f64;
    for (name, flags, input) in SEARCHES {
        let (mut theirs_took, mut ours_took) = (Vec::new(), Vec::new());
        // In turns, so that what else happens on the machine falls on both.
        for _ in 0..TIMES {
            let mut theirs = Command::new("rg");
            theirs.args(["--no-config", "--no-require-git"]).args(*flags).arg(tree);
            theirs_took.push(time(&mut theirs, &output)?);
            ours_took.push(time(Command::new(&ours).arg(tree).arg(input), &output)?);
        }
        let (theirs, ours) = (median(theirs_took), median(ours_took));
        let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
        worst = worst.max(ratio);
        let milliseconds = |time: Duration| whole(time.as_secs_f64() * 1e3);
        table.row(&[(*name).to_owned(), milliseconds(theirs), milliseconds(ours), format!("{ratio:.2}")])?;
    }
    Ok(Some(worst))
}

/// An example that calls a tool, built in release.
pub(crate) fn example(name: &str) -> Result<PathBuf> {
    let built = Command::new("cargo")
        .args(["build", "--release", "--package", "drawloom-tools", "--example", name, "--manifest-path", WORKSPACE])
        .status()
        .context("cannot start cargo")?;
    ensure!(built.success(), "the example {name} does not build; its errors are above");
    let bench = std::env::current_exe()?;
    let profile = bench.parent().context("a program is in a directory")?;
    Ok(profile.with_file_name("release").join("examples").join(name))
}

/// How long a program takes that writes to a file; finding nothing is no failure.
fn time(command: &mut Command, output: &Path) -> Result<Duration> {
    let began = Instant::now();
    let status = command.stdout(File::create(output)?).stdin(Stdio::null()).status()?;
    let took = began.elapsed();
    ensure!(matches!(status.code(), Some(0 | 1)), "{command:?} failed with {status}");
    Ok(took)
}

pub(crate) fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
