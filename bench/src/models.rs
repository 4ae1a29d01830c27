//! Runs on a model that is asked over HTTP: throughput beside a floor that makes the same call, and what `drawloom run`
//! adds to the time that the model itself streams.

use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use serde_json::json;

use crate::{
    http, model_server,
    report::{self, Table},
    server::Bench,
    targets::Figures,
    throughput::{self, Kind},
};

const CLIENTS: [usize; 3] = [1, 64, 256];
const CALL: Kind = Kind { name: "floor+call", expect: crate::load::Expect::Completed(1), runs: 1 };
const REST: Kind = Kind { name: "rest, http", expect: crate::load::Expect::Completed(1), runs: 1 };
const SSE: Kind = Kind { name: "sse, http", expect: crate::load::Expect::Streamed, runs: 1 };

/// How `drawloom run` is measured: how many pieces, how far apart, and how often.
const STREAM: (u64, u64) = (200, 10);
const REPEATS: usize = 5;

/// Measures and prints throughput with a model behind HTTP.
pub(crate) async fn measure(bench: &Bench, time: Duration, figures: &mut Figures) -> Result<()> {
    report::heading("Throughput with a model behind HTTP: the floor makes the same call between its two commits")?;
    let (floor_directory, data) = (bench.directory()?, bench.directory()?);
    let model = bench.start_model()?;
    let floor = bench.start_floor(floor_directory.path(), Some(model.address))?;
    let ours = bench.start_with_model(data.path(), model.address, "quick")?;
    let table = throughput::head()?;
    let body = json!({ "agent": "asking", "prompt": "hello" }).to_string();
    let wait = http::post("/v1/runs", "application/json", &body);
    let stream = http::post("/v1/runs", "text/event-stream", &body);
    for clients in CLIENTS {
        let base = throughput::row(&floor, CALL, &wait, clients, time).await?;
        throughput::print(&table, CALL, &base, None)?;
        let rest = throughput::row(&ours, REST, &wait, clients, time).await?;
        throughput::print(&table, REST, &rest, Some(&base))?;
        let sse = throughput::row(&ours, SSE, &stream, clients, time).await?;
        throughput::print(&table, SSE, &sse, Some(&base))?;
        if clients == 64 {
            figures.called = Some((base, rest, sse));
        }
    }
    Ok(())
}

/// Measures and prints what `drawloom run` adds to a stream.
pub(crate) async fn measure_run(bench: &Bench, figures: &mut Figures) -> Result<()> {
    let (chunks, pause) = STREAM;
    let name = format!("chunks-{chunks}-{pause}");
    report::heading(&format!("`drawloom run`: {chunks} pieces, {pause} ms apart, process start included"))?;
    let model = bench.start_model()?;
    let table = Table::start(&[("what", 14), ("seconds", 8), ("added", 8)])?;
    let (mut bare, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..REPEATS {
        let begun = Instant::now();
        let mut connection = http::Connection::open(model.address).await?;
        let answer = connection.exchange(&model_server::request(&name)).await?;
        ensure!(answer.starts_with(b"HTTP/1.1 200"), "the model refused: {}", String::from_utf8_lossy(answer));
        bare.push(begun.elapsed());

        let data = bench.directory()?;
        let config = bench.config_with_model(model.address, &name)?;
        let mut command = Command::new(bench.drawloom());
        command.args(["run", "asking", "hello", "--config"]).arg(&config).arg("--data-dir").arg(data.path());
        let begun = Instant::now();
        let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        ensure!(status.success(), "{command:?} ended with {status}");
        ours.push(begun.elapsed());
    }
    let median = |mut times: Vec<Duration>| {
        times.sort_unstable();
        times[times.len() / 2].as_secs_f64()
    };
    let (bare, ours) = (median(bare), median(ours));
    table.row(&["the model".into(), format!("{bare:.3}"), String::new()])?;
    let added = ours / bare - 1.0;
    table.row(&["drawloom run".into(), format!("{ours:.3}"), format!("{:.1} %", added * 100.0)])?;
    figures.run_added = Some(added);
    Ok(())
}
