//! Checkouts of a large repository: our prepare and checkout of a worker beside `git clone --shared` of the same repository.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use drawloom_checkout::{Checkouts, Cleanup, Config, Kind, Parts, Prepare, Sandbox};
use drawloom_contract::redact::Redactor;
use drawloom_process::{Confined, Launcher, Limits, Network};
use drawloom_testkit::TestClock;

use crate::{grep::median, report, server::Bench};

/// Files of the repository, folders that they are in, and lines of each.
const FILES: usize = 20_000;
const FOLDERS: usize = 2_000;
const LINES: usize = 40;

/// How often each of both is measured, in turns.
const TIMES: usize = 6;

/// Measures and prints; returns ours by git's.
pub(crate) async fn measure(bench: &Bench) -> Result<f64> {
    report::heading(&format!("A checkout of {FILES} files: medians of {TIMES}"))?;
    let room = bench.directory()?;
    let repository = room.path().join("repository");
    generate(&repository)?;
    let checkouts = checkouts(bench, room.path())?;
    let (mut clones, mut preparing, mut adding) = (Vec::new(), Vec::new(), Vec::new());
    let mut goals = Vec::new();
    // Nothing is removed in between: a disk that just freed many files makes new ones slowly (ext4 passes over their numbers for minutes).
    for turn in 0..TIMES {
        let goal = format!("g{turn}");
        // In changing order: later files of a slow disk cost more.
        for is_ours in [turn % 2 == 0, turn % 2 == 1] {
            let began = Instant::now();
            if is_ours {
                let prepared = checkouts.prepare(&goal, &repository, &Prepare::default()).await?;
                preparing.push(began.elapsed());
                checkouts.add(&goal, "worker", &prepared.base, Kind::Writer).await?;
                adding.push(began.elapsed());
            } else {
                git(room.path(), &["clone", "--quiet", "--shared", "repository", &format!("clone-{turn}")])?;
                clones.push(began.elapsed());
            }
        }
        goals.push(goal);
    }
    let (clone, prepare, add) = (median(clones), median(preparing), median(adding));
    let ratio = add.as_secs_f64() / clone.as_secs_f64();
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    report::line(&format!(
        "git clone --shared {:.0} ms; prepare and checkout {:.0} ms (prepare {:.0} ms); ratio {ratio:.2}",
        milliseconds(clone),
        milliseconds(add),
        milliseconds(prepare)
    ))?;
    let began = Instant::now();
    let goal = goals.first().context("a goal")?;
    checkouts.set_aside(goal, Cleanup::Auto, 0).await?;
    let aside = began.elapsed();
    checkouts.empty(goal).await?;
    report::line(&format!(
        "before the result: checked and moved away in {:.0} ms; after it: removed in {:.0} ms",
        milliseconds(aside),
        milliseconds(began.elapsed() - aside)
    ))?;
    Ok(ratio)
}

/// A repository with many small files of different content.
fn generate(repository: &Path) -> Result<()> {
    for number in 0..FILES {
        let folder = repository.join(format!("src/p{:03}/m{}", number % (FOLDERS / 10), number / (FOLDERS / 10) % 10));
        fs::create_dir_all(&folder)?;
        let lines: String = (0..LINES).map(|line| format!("// line {line} of file {number}\n")).collect();
        fs::write(folder.join(format!("file{number}.rs")), lines)?;
    }
    git(repository, &["init", "--quiet", "--initial-branch", "main"])?;
    git(repository, &["add", "--all"])?;
    git(repository, &["commit", "--quiet", "--message", "many files"])
}

fn git(directory: &Path, arguments: &[&str]) -> Result<()> {
    let status = Command::new("git")
        .args(["-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "gc.auto=0"])
        .args(arguments)
        .current_dir(directory)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .stdin(Stdio::null())
        .status()
        .context("cannot start git")?;
    ensure!(status.success(), "git {arguments:?} failed");
    Ok(())
}

fn checkouts(bench: &Bench, room: &Path) -> Result<Checkouts> {
    let path = std::env::var("PATH").context("PATH is not set")?;
    Ok(Checkouts::new(Parts {
        root: room.join("checkouts"),
        launcher: Launcher::new(bench.program().to_owned(), &["__launch"]),
        temporary: room.join("tmp"),
        clock: Arc::new(TestClock::default()),
        redactor: Arc::new(Redactor::new(Vec::<String>::new())),
        environment: vec![("PATH".into(), path)],
        sandbox: Sandbox {
            confined: Confined::No,
            network: Network::Host,
            readable: Vec::new(),
            writable: Vec::new(),
            home: None,
            limits: Limits::default(),
        },
        directories: Vec::new(),
        config: Config::default(),
    })?)
}
