//! Start to the first answer: of `serve`, from the making of the process to a 200 on `/healthz`; of `drawloom run`, to its end
//! with a model that answers at once, with a server that runs and with one that the command must start.

use std::{
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};

use crate::{
    http,
    load::{self, Expect, Load, Until},
    report,
    server::Bench,
    targets::Figures,
};

const TIMES: usize = 10;
/// Finished runs in the data directory that exists already.
const HISTORY: usize = 10_000;

/// Measures and prints.
pub(crate) async fn measure(bench: &Bench, figures: &mut Figures) -> Result<()> {
    let mut fresh = Vec::new();
    for _ in 0..TIMES {
        fresh.push(once(bench, bench.directory()?.path()).await?);
    }
    let data = bench.directory()?;
    let server = bench.start(data.path())?;
    let body = r#"{"agent":"echo","prompt":"hello"}"#;
    let request = http::post("/v1/runs", "application/json", body);
    let load = Load { address: server.address, request, expect: Expect::Completed(1), clients: 64 };
    load::run(&Arc::new(load), Until::Requests(HISTORY)).await?;
    server.stop()?;
    let mut existing = Vec::new();
    for _ in 0..TIMES {
        existing.push(once(bench, data.path()).await?);
    }
    report::heading("Start to the first answer: 10 times each")?;
    figures.fresh_start = Some(report::spread("fresh data directory", fresh)?);
    figures.existing_start = Some(report::spread("10,000 finished runs", existing)?);
    measure_run(bench, figures)
}

/// In turns, so that a slow moment of the machine falls on both.
fn measure_run(bench: &Bench, figures: &mut Figures) -> Result<()> {
    let (mut running, mut started) = (Vec::new(), Vec::new());
    for _ in 0..2 * TIMES {
        let data = bench.directory()?;
        started.push(run(bench, data.path())?);
        running.push(run(bench, data.path())?);
        command(bench, data.path(), &["stop"])?;
    }
    report::heading("`drawloom run` to its end: 20 times each")?;
    let running = report::spread("with a server", running)?;
    let started = report::spread("server to be started", started)?;
    figures.run_start_added = Some(started.saturating_sub(running));
    Ok(())
}

fn run(bench: &Bench, data: &Path) -> Result<Duration> {
    let began = Instant::now();
    command(bench, data, &["run", "echo", "hello"])?;
    Ok(began.elapsed())
}

fn command(bench: &Bench, data: &Path, words: &[&str]) -> Result<()> {
    let mut command = Command::new(bench.drawloom());
    command.arg("--config").arg(bench.config()).arg("--data-dir").arg(data).args(words);
    let ended = command
        .env_remove("DRAWLOOM_TOKEN")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    ensure!(ended.success(), "drawloom {} failed", words.join(" "));
    Ok(())
}

async fn once(bench: &Bench, data: &Path) -> Result<Duration> {
    let server = bench.start(data)?;
    http::fetch(server.address, "/healthz").await?;
    let took = server.spawned.elapsed();
    server.stop()?;
    Ok(took)
}
