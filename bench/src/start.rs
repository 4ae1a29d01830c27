//! Start to the first answer: from the making of the process to a 200 on `/healthz`.

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::Result;

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
    figures.fresh_start = Some(summary("fresh data directory", fresh)?);
    figures.existing_start = Some(summary("10,000 finished runs", existing)?);
    Ok(())
}

async fn once(bench: &Bench, data: &Path) -> Result<Duration> {
    let server = bench.start(data)?;
    http::fetch(server.address, "/healthz").await?;
    let took = server.spawned.elapsed();
    server.stop()?;
    Ok(took)
}

/// Prints the spread and returns the median.
fn summary(name: &str, mut times: Vec<Duration>) -> Result<Duration> {
    times.sort_unstable();
    let median = times[times.len() / 2];
    let milliseconds = |time: Option<&Duration>| time.map_or(0.0, |time| time.as_secs_f64() * 1e3);
    report::line(&format!(
        "{name:<22}  median {:.1} ms, least {:.1} ms, most {:.1} ms",
        milliseconds(Some(&median)),
        milliseconds(times.first()),
        milliseconds(times.last())
    ))?;
    Ok(median)
}
