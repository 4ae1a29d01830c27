//! Memory: idle, a parked parent with its queued child, and a run in the middle of a model call.

use std::{sync::Arc, time::Duration};

use anyhow::Result;

use crate::{
    http,
    load::{self, Expect, Load, Until},
    process::{self, Memory},
    report::{self, Table},
    server::{Bench, Server},
    targets::Figures,
};

/// How many runs are held at once.
pub(crate) const RUNS: usize = 10_000;
const CLIENTS: usize = 64;
/// Runs before the first look, so that the pages of code that they need are in memory and are not taken for a run's.
const FIRST: usize = 256;
/// How long memory may settle once all runs are where they should be; allocators give pages back late.
const SETTLE: Duration = Duration::from_secs(1);

/// Measures and prints.
pub(crate) async fn measure(bench: &Bench, figures: &mut Figures) -> Result<()> {
    report::heading("Memory: resident and proportional set size; a run's is the growth from 256 to 10,000 runs")?;
    let table = Table::start(&[
        ("what", 24),
        ("RSS", 9),
        ("PSS", 9),
        ("heap and stacks", 9),
        ("RSS a run", 10),
        ("PSS a run", 10),
    ])?;
    figures.idle = Some({
        let data = bench.directory()?;
        let idle = process::memory(bench.start(data.path())?.pid())?;
        let [resident, proportional, anonymous] = columns(&idle);
        table.row(&["idle, after start".into(), resident, proportional, anonymous])?;
        idle.resident
    });
    let parked = held(bench, &table, "10,000 parked parents", "parent", |runs, active, queued| {
        active <= 1 && queued + 1 >= runs
    });
    figures.parked = Some(parked.await?);
    let flying = held(bench, &table, "10,000 in a model call", "sleeper", |runs, active, _| active == runs);
    figures.in_flight = Some(flying.await?);
    Ok(())
}

/// What a held run costs, in bytes of resident memory, on a server of its own.
async fn held(
    bench: &Bench,
    table: &Table,
    name: &str,
    agent: &str,
    there: impl Fn(u64, u64, u64) -> bool,
) -> Result<f64> {
    let data = bench.directory()?;
    let server = bench.start(data.path())?;
    detach(&server, agent, FIRST).await?;
    server.wait_for_load(|active, queued| there(FIRST as u64, active, queued)).await?;
    let before = process::memory(server.pid())?;
    detach(&server, agent, RUNS - FIRST).await?;
    server.wait_for_load(|active, queued| there(RUNS as u64, active, queued)).await?;
    tokio::time::sleep(SETTLE).await;
    let after = process::memory(server.pid())?;
    let grown = |of: fn(&Memory) -> u64| of(&after).saturating_sub(of(&before)) as f64 / (RUNS - FIRST) as f64;
    let (resident, proportional) = (grown(|memory| memory.resident), grown(|memory| memory.proportional));
    let [resident_now, proportional_now, anonymous] = columns(&after);
    table.row(&[
        name.to_owned(),
        resident_now,
        proportional_now,
        anonymous,
        format!("{:.2} KiB", resident / 1024.0),
        format!("{:.2} KiB", proportional / 1024.0),
    ])?;
    Ok(resident)
}

/// Starts the runs and does not wait for them.
pub(crate) async fn detach(server: &Server, agent: &str, runs: usize) -> Result<()> {
    let body = serde_json::json!({ "agent": agent, "prompt": "hello", "mode": "detach" }).to_string();
    let request = http::post("/v1/runs", "application/json", &body);
    let load = Load { address: server.address, request, expect: Expect::Accepted, clients: CLIENTS };
    load::run(&Arc::new(load), Until::Requests(runs)).await?;
    Ok(())
}

fn columns(memory: &Memory) -> [String; 3] {
    [memory.resident, memory.proportional, memory.anonymous].map(|bytes| format!("{:.1} MB", bytes as f64 / 1e6))
}
