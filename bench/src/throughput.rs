//! Runs a second and latency: the floor, JSON and streams at each number of clients, then batches.

use std::{
    fs::File,
    io::Write as _,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Result;
use serde_json::json;

use crate::{
    http,
    load::{self, Expect, Load, Until},
    process,
    report::{self, Table, whole},
    server::{Bench, Server},
    targets::Figures,
};

/// How many clients ask at once, row by row.
pub(crate) const CLIENTS: [usize; 4] = [1, 8, 64, 256];
const BATCH: usize = 32;
const BATCH_CLIENTS: usize = 8;
/// Before each row, so that connections, caches and branch predictors are warm.
const WARM_UP: Duration = Duration::from_millis(500);

/// Which rows are wanted beside the floor's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) rest: bool,
    pub(crate) sse: bool,
    pub(crate) batch: bool,
}

impl Wanted {
    pub(crate) fn any(self) -> bool {
        self.rest || self.sse || self.batch
    }
}

/// A measured row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub(crate) clients: usize,
    pub(crate) runs_per_second: f64,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
    records_per_second: f64,
    pub(crate) records_per_sync: f64,
    generator: f64,
    server: f64,
}

impl Row {
    /// Microseconds of the server's processor time that a run costs.
    pub(crate) fn cost(&self) -> f64 {
        self.server * 1e6 / self.runs_per_second
    }
}

/// What is asked and how many runs an answer is.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) expect: Expect,
    pub(crate) runs: usize,
}

const FLOOR: Kind = Kind { name: "floor", expect: Expect::Completed(1), runs: 1 };
pub(crate) const REST: Kind = Kind { name: "rest", expect: Expect::Completed(1), runs: 1 };
const SSE: Kind = Kind { name: "sse", expect: Expect::Streamed, runs: 1 };
const BATCHES: Kind = Kind { name: "batch of 32", expect: Expect::Completed(BATCH), runs: BATCH };

/// Measures and prints the rows. The floor's rows stand between ours, so that a disturbance falls on both.
pub(crate) async fn measure(bench: &Bench, wanted: Wanted, time: Duration, figures: &mut Figures) -> Result<()> {
    let (floor_directory, data) = (bench.directory()?, bench.directory()?);
    report::heading("Throughput: one process generates the load on one thread; processor shares are of one core")?;
    print_sync_rate("before the rows", floor_directory.path())?;
    let floor = bench.start_floor(floor_directory.path(), None)?;
    let ours = bench.start(data.path())?;
    let table = head()?;
    let spawn = json!({ "agent": "echo", "prompt": "hello" });
    let body = spawn.to_string();
    let json = http::post("/v1/runs", "application/json", &body);
    let stream = http::post("/v1/runs", "text/event-stream", &body);
    for clients in CLIENTS {
        let base = row(&floor, FLOOR, &json, clients, time).await?;
        print(&table, FLOOR, &base, None)?;
        figures.floor.push(base);
        if wanted.rest {
            let row = row(&ours, REST, &json, clients, time).await?;
            print(&table, REST, &row, Some(&base))?;
            figures.rest.push(row);
        }
        if wanted.sse {
            let row = row(&ours, SSE, &stream, clients, time).await?;
            print(&table, SSE, &row, Some(&base))?;
            figures.sse.push(row);
        }
    }
    if wanted.batch {
        let spawns = json!({ "spawns": vec![spawn; BATCH] }).to_string();
        let request = http::post("/v1/runs:batch", "application/json", &spawns);
        let row = row(&ours, BATCHES, &request, BATCH_CLIENTS, time).await?;
        // 8 batches of 32 are 256 runs at once.
        print(&table, BATCHES, &row, figures.floor.last())?;
    }
    print_sync_rate("after the rows", floor_directory.path())
}

/// Printed before and after the rows, because a shared disk's rate wanders.
fn print_sync_rate(when: &str, directory: &Path) -> Result<()> {
    let rate = whole(sync_rate(directory)?);
    report::line(&format!("bare fdatasync after an append of 4 KiB, {when}: {rate} a second"))
}

/// How often a second the disk takes 4 KiB for good.
fn sync_rate(directory: &Path) -> Result<f64> {
    let path = directory.join("sync-probe");
    let mut file = File::create(&path)?;
    let begun = Instant::now();
    let mut syncs = 0.0;
    while begun.elapsed() < Duration::from_secs(1) {
        file.write_all(&[0x5a; 4096])?;
        file.sync_data()?;
        syncs += 1.0;
    }
    let rate = syncs / begun.elapsed().as_secs_f64();
    std::fs::remove_file(&path)?;
    Ok(rate)
}

/// One row: warms up, then measures.
pub(crate) async fn row(server: &Server, kind: Kind, request: &[u8], clients: usize, time: Duration) -> Result<Row> {
    let load = Arc::new(Load { address: server.address, request: request.to_vec(), expect: kind.expect, clients });
    load::run(&load, Until::Elapsed(WARM_UP)).await?;
    let (generator, served) = (process::processor_time(std::process::id())?, process::processor_time(server.pid())?);
    let before = server.journal().await?;
    let seen = load::run(&load, Until::Elapsed(time)).await?;
    let after = server.journal().await?;
    let seconds = seen.elapsed.as_secs_f64();
    let share = |now: Duration, before: Duration| now.saturating_sub(before).as_secs_f64() / seconds;
    let (records, syncs) = ((after.records - before.records) as f64, (after.syncs - before.syncs) as f64);
    Ok(Row {
        clients,
        runs_per_second: (seen.requests * kind.runs) as f64 / seconds,
        p50: seen.percentile(0.50),
        p99: seen.percentile(0.99),
        records_per_second: records / seconds,
        records_per_sync: records / syncs.max(1.0),
        generator: share(process::processor_time(std::process::id())?, generator),
        server: share(process::processor_time(server.pid())?, served),
    })
}

/// Begins the table.
pub(crate) fn head() -> Result<Table> {
    Table::start(&[
        ("what", 11),
        ("clients", 0),
        ("runs/s", 8),
        ("p50 ms", 7),
        ("p99 ms", 7),
        ("records/s", 9),
        ("records/fsync", 0),
        ("generator cpu", 0),
        ("server cpu", 0),
        ("cpu us/run", 0),
        ("of the floor", 0),
    ])
}

/// Prints a row, with its share of the floor's.
pub(crate) fn print(table: &Table, kind: Kind, row: &Row, floor: Option<&Row>) -> Result<()> {
    table.row(&[
        kind.name.to_owned(),
        row.clients.to_string(),
        whole(row.runs_per_second),
        format!("{:.2}", row.p50.as_secs_f64() * 1e3),
        format!("{:.2}", row.p99.as_secs_f64() * 1e3),
        whole(row.records_per_second),
        format!("{:.1}", row.records_per_sync),
        format!("{:.0} %", row.generator * 100.0),
        format!("{:.0} %", row.server * 100.0),
        whole(row.cost()),
        floor.map_or(String::new(), |floor| format!("{:.0} %", row.runs_per_second / floor.runs_per_second * 100.0)),
    ])
}
