//! Two builds of the server in the same run: short slices in turns, compared pair by pair, so that what disturbs the machine
//! falls on both. The other build is also compared with itself: what differs there is the machine's doing.

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::Result;
use serde_json::json;

use crate::{
    agent_memory::sets,
    channels::publishes,
    http,
    load::{self, Expect, Load, Until},
    process,
    report::{self, Table, whole},
    server::{Bench, Server},
    throughput::CLIENTS,
};

/// Before each slice.
const WARM_UP: Duration = Duration::from_millis(500);

/// What is done in a slice.
#[derive(Debug, Clone, Copy)]
enum Work {
    Run(usize),
    Publish(usize),
    Set(usize),
    /// Goals of the mock team, one after the other.
    Goal,
}

/// What one of them costs.
#[derive(Debug, Clone, Copy)]
struct Cost {
    /// Processor time of the server.
    processor: f64,
    /// Time that passes, with as many clients as there are.
    time: f64,
}

/// Slices of the same moment.
struct Round {
    ours: Cost,
    theirs: Cost,
    theirs_again: Cost,
}

/// Prints, for each work, what this build costs beside the other one.
pub(crate) async fn measure(bench: &Bench, other: &Path, rounds: usize, only: &[usize], slice: Duration) -> Result<()> {
    report::heading(&format!(
        "Beside {}: {rounds} rounds of three slices of {} ms, which are ours, theirs, and theirs again; medians, and medians and quartiles of the rounds' ratios",
        other.display(),
        slice.as_millis()
    ))?;
    let table = Table::start(&[
        ("what", 24),
        ("cpu us", 8),
        ("theirs", 8),
        ("ratio", 5),
        ("itself", 6),
        ("less", 6),
        ("quartiles", 11),
        ("a second", 8),
        ("theirs", 8),
        ("time ratio", 10),
        ("itself", 6),
        ("less", 6),
    ])?;
    let clients = |all: &[usize]| -> Vec<usize> {
        all.iter().copied().filter(|clients| only.is_empty() || only.contains(clients)).collect()
    };
    let mut works: Vec<Work> = clients(&CLIENTS).into_iter().map(Work::Run).collect();
    works.extend(clients(&[1, 64]).into_iter().flat_map(|clients| [Work::Publish(clients), Work::Set(clients)]));
    works.extend(clients(&[1]).into_iter().map(|_| Work::Goal));
    for work in works {
        let mut all = Vec::new();
        for round in 0..rounds {
            // Who comes first is sometimes better off, so they take turns.
            let programs = [bench.program(), other, other];
            let mut costs = [None; 3];
            for place in 0..programs.len() {
                let which = (round + place) % programs.len();
                costs[which] = Some(slice_of(bench, programs[which], work, slice).await?);
            }
            if let [Some(ours), Some(theirs), Some(theirs_again)] = costs {
                all.push(Round { ours, theirs, theirs_again });
            }
        }
        print(&table, work, &all)?;
    }
    Ok(())
}

/// One slice. A process and its files can be lucky for as long as they live, so each has new ones.
async fn slice_of(bench: &Bench, program: &Path, work: Work, time: Duration) -> Result<Cost> {
    let data = bench.directory()?;
    let server = bench.start_with_channels(program, data.path())?;
    perform(&server, work, WARM_UP).await?;
    let before = process::processor_time(server.pid())?;
    let per_second = perform(&server, work, time).await?;
    let processor = process::processor_time(server.pid())?.saturating_sub(before).as_secs_f64();
    let cost = Cost { processor: processor / (per_second * time.as_secs_f64()), time: 1.0 / per_second };
    server.stop()?;
    Ok(cost)
}

/// How many are done in a second.
async fn perform(server: &Server, work: Work, time: Duration) -> Result<f64> {
    let (path, body, clients) = match work {
        Work::Publish(clients) => return publishes(server.address, "busy", clients, time).await,
        Work::Set(clients) => return sets(server.address, clients, time).await,
        Work::Run(clients) => ("/v1/runs", json!({ "agent": "echo", "prompt": "hello" }), clients),
        Work::Goal => {
            let goal = json!({ "goal": "a briefing", "success_criteria": "It is complete.", "backend": "mock", "detach": false });
            ("/v1/goals", goal, 1)
        }
    };
    let request = http::post(path, "application/json", &body.to_string());
    let load = Arc::new(Load { address: server.address, request, expect: Expect::Completed(1), clients });
    let seen = load::run(&load, Until::Elapsed(time)).await?;
    Ok(seen.requests as f64 / seen.elapsed.as_secs_f64())
}

fn print(table: &Table, work: Work, rounds: &[Round]) -> Result<()> {
    let name = match work {
        Work::Run(clients) => format!("run, {clients} clients"),
        Work::Publish(clients) => format!("publish, {clients} clients"),
        Work::Set(clients) => format!("memory set, {clients} clients"),
        Work::Goal => "goal of 10 steps".to_owned(),
    };
    let of = |figure: fn(&Cost) -> f64| {
        let median = |which: fn(&Round) -> &Cost| quantile(rounds.iter().map(|round| figure(which(round))), 0.5);
        // A round has two slices of theirs, and ours is compared with both.
        let ratios: Vec<f64> = rounds
            .iter()
            .flat_map(|round| [&round.theirs, &round.theirs_again].map(|theirs| figure(&round.ours) / figure(theirs)))
            .collect();
        let itself = rounds.iter().map(|round| figure(&round.theirs_again) / figure(&round.theirs));
        let quartiles = [0.25, 0.5, 0.75].map(|share| quantile(ratios.iter().copied(), share));
        (median(|round| &round.ours), median(|round| &round.theirs), quartiles, quantile(itself, 0.5))
    };
    let (cpu, their_cpu, ratio, itself) = of(|cost| cost.processor);
    let (time, their_time, time_ratio, time_itself) = of(|cost| cost.time);
    table.row(&[
        name,
        whole(cpu * 1e6),
        whole(their_cpu * 1e6),
        format!("{:.3}", ratio[1]),
        format!("{itself:.3}"),
        format!("{:+.3}", ratio[1] - itself),
        format!("{:.2}..{:.2}", ratio[0], ratio[2]),
        whole(1.0 / time),
        whole(1.0 / their_time),
        format!("{:.3}", time_ratio[1]),
        format!("{time_itself:.3}"),
        format!("{:+.3}", time_ratio[1] - time_itself),
    ])
}

/// The value that this share of all does not exceed.
fn quantile(values: impl Iterator<Item = f64>, share: f64) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * share).round() as usize).copied().unwrap_or_default()
}
