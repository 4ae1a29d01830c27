//! Two builds of the server in the same run: short slices in turns, compared pair by pair, so that what disturbs the machine
//! falls on both.

use std::{path::Path, time::Duration};

use anyhow::Result;
use serde_json::json;

use crate::{
    http,
    report::{self, Table, whole},
    server::Bench,
    throughput::{CLIENTS, REST, Row, row},
};

/// Prints, for each number of clients, what this build costs beside the other one.
pub(crate) async fn measure(bench: &Bench, other: &Path, pairs: usize, only: &[usize], slice: Duration) -> Result<()> {
    let body = json!({ "agent": "echo", "prompt": "hello" }).to_string();
    let request = http::post("/v1/runs", "application/json", &body);
    report::heading(&format!(
        "Beside {}: {pairs} pairs of slices of {} ms; medians, and quartiles of the pairs' ratios",
        other.display(),
        slice.as_millis()
    ))?;
    let table = Table::start(&[
        ("clients", 0),
        ("cpu us/run", 0),
        ("theirs", 6),
        ("ratio", 5),
        ("quartiles", 11),
        ("records/fsync", 0),
        ("theirs", 6),
        ("ratio", 5),
        ("quartiles", 11),
        ("runs/s", 8),
        ("ratio", 5),
    ])?;
    for clients in CLIENTS.into_iter().filter(|clients| only.is_empty() || only.contains(clients)) {
        let mut rows = Vec::new();
        for pair in 0..pairs {
            // A process and its files can be lucky for as long as they live, so each slice has new ones; and who comes second
            // is sometimes better off, so they take turns.
            let measure = async |program: &Path| -> Result<Row> {
                let data = bench.directory()?;
                row(&bench.start_other(program, data.path())?, REST, &request, clients, slice).await
            };
            rows.push(if pair % 2 == 0 {
                let ours = measure(bench.program()).await?;
                (ours, measure(other).await?)
            } else {
                let theirs = measure(other).await?;
                (measure(bench.program()).await?, theirs)
            });
        }
        print(&table, clients, &rows)?;
    }
    Ok(())
}

fn print(table: &Table, clients: usize, rows: &[(Row, Row)]) -> Result<()> {
    let of = |figure: fn(&Row) -> f64| Compared::of(rows, figure);
    let (cpu, records, runs) = (of(Row::cost), of(|row| row.records_per_sync), of(|row| row.runs_per_second));
    table.row(&[
        clients.to_string(),
        whole(cpu.ours),
        whole(cpu.theirs),
        format!("{:.3}", cpu.ratio[1]),
        format!("{:.2}..{:.2}", cpu.ratio[0], cpu.ratio[2]),
        format!("{:.1}", records.ours),
        format!("{:.1}", records.theirs),
        format!("{:.3}", records.ratio[1]),
        format!("{:.2}..{:.2}", records.ratio[0], records.ratio[2]),
        whole(runs.ours),
        format!("{:.3}", runs.ratio[1]),
    ])
}

/// A figure of both builds.
struct Compared {
    ours: f64,
    theirs: f64,
    /// Quartiles of our figure by theirs, pair by pair.
    ratio: [f64; 3],
}

impl Compared {
    fn of(rows: &[(Row, Row)], figure: fn(&Row) -> f64) -> Self {
        let ours: Vec<_> = rows.iter().map(|(ours, _)| figure(ours)).collect();
        let theirs: Vec<_> = rows.iter().map(|(_, theirs)| figure(theirs)).collect();
        let ratios: Vec<_> = ours.iter().zip(&theirs).map(|(ours, theirs)| ours / theirs).collect();
        let ratio = [0.25, 0.5, 0.75].map(|share| quantile(&ratios, share));
        Self { ours: quantile(&ours, 0.5), theirs: quantile(&theirs, 0.5), ratio }
    }
}

/// The value that this share of all does not exceed.
fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * share).round() as usize).copied().unwrap_or_default()
}
