//! The targets, each beside its figure.

use std::time::Duration;

use anyhow::Result;

use crate::{
    agent_memory::Sets,
    channels::{Delivery, Publishes},
    report::{self, Table, whole},
    throughput::Row,
};

/// What was measured; what was not stays empty.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub(crate) floor: Vec<Row>,
    pub(crate) rest: Vec<Row>,
    pub(crate) sse: Vec<Row>,
    /// With a model behind HTTP, 64 clients: the floor that makes the same call, JSON, streams.
    pub(crate) called: Option<(Row, Row, Row)>,
    /// What `drawloom run` adds to the model's own time, as a share of it.
    pub(crate) run_added: Option<f64>,
    /// How many times as long as ripgrep `Grep` takes, at worst.
    pub(crate) grep: Option<f64>,
    /// What `Bash` adds to a bare shell, in milliseconds.
    pub(crate) bash_added: Option<f64>,
    /// Import of 200 agents.
    pub(crate) import: Option<Duration>,
    /// Our checkout of a large repository by `git clone --shared`.
    pub(crate) checkout: Option<f64>,
    /// What MCP adds to the same call over REST, in milliseconds: at worst of both eras.
    pub(crate) mcp_added: Option<f64>,
    /// What the thin client adds to it.
    pub(crate) thin_added: Option<f64>,
    /// From the thin client's start to its first list of tools.
    pub(crate) thin_start: Option<Duration>,
    /// Bytes of the thin client.
    pub(crate) thin_memory: Option<u64>,
    /// Bytes of the idle server.
    pub(crate) idle: Option<u64>,
    /// Bytes a parked run.
    pub(crate) parked: Option<f64>,
    /// Bytes a run in flight.
    pub(crate) in_flight: Option<f64>,
    pub(crate) fresh_start: Option<Duration>,
    pub(crate) existing_start: Option<Duration>,
    /// What `drawloom run` takes longer when it must start the server.
    pub(crate) run_start_added: Option<Duration>,
    pub(crate) resume: Option<Duration>,
    /// A goal of the mock team, from process start to result; one step of it; a hundred at once.
    pub(crate) goal: Option<Duration>,
    pub(crate) goal_step: Option<Duration>,
    pub(crate) goals_at_once: Option<Duration>,
    pub(crate) memory_sets: Vec<Sets>,
    /// A list of 1,000 keys of memory.
    pub(crate) memory_list: Option<Duration>,
    /// A ranked search in 100,000 entries of memory.
    pub(crate) memory_search: Option<Duration>,
    pub(crate) publishes: Vec<Publishes>,
    pub(crate) deliveries: Vec<Delivery>,
    /// One message to 1,000 followers.
    pub(crate) followers: Option<Duration>,
    /// Bytes a run that waits for a message.
    pub(crate) waiting_run: Option<f64>,
    /// One message to 10,000 runs that wait for it.
    pub(crate) woken: Option<Duration>,
}

/// A target and what came of it.
#[derive(Debug, PartialEq)]
struct Verdict {
    target: &'static str,
    wanted: String,
    measured: String,
    met: bool,
}

/// Prints the targets of all that was measured.
pub(crate) fn print(figures: &Figures) -> Result<()> {
    let verdicts = verdicts(figures);
    if verdicts.is_empty() {
        return Ok(());
    }
    report::heading("Targets")?;
    let table = Table::start(&[("target", 42), ("wanted", 14), ("measured", 14), ("", 6)])?;
    for Verdict { target, wanted, measured, met } in verdicts {
        table.row(&[target.to_owned(), wanted, measured, if met { "ok" } else { "MISSED" }.to_owned()])?;
    }
    Ok(())
}

fn verdicts(figures: &Figures) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    throughput(figures, &mut verdicts);
    let mut below = |target, limit: f64, unit: &str, value: Option<f64>| {
        if let Some(value) = value {
            let (wanted, measured) = (format!("< {limit} {unit}"), format!("{value:.2} {unit}"));
            verdicts.push(Verdict { target, wanted, measured, met: value < limit });
        }
    };
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    below("drawloom run adds to the model's stream", 5.0, "%", figures.run_added.map(|share| share * 100.0));
    below("Grep beside ripgrep, at worst", 1.2, "times", figures.grep);
    below("Bash adds to sh -c", 10.0, "ms", figures.bash_added);
    below("a checkout of 20,000 files beside git clone --shared", 1.3, "times", figures.checkout);
    below("import of 200 agents and 180 skills", 300.0, "ms", figures.import.map(milliseconds));
    below("thin client: start to tools/list", 15.0, "ms", figures.thin_start.map(milliseconds));
    below("thin client: memory", 12.0, "MB", figures.thin_memory.map(|bytes| bytes as f64 / 1e6));
    below("spawn_run over MCP adds to REST, p50", 0.5, "ms", figures.mcp_added);
    below("through the thin client, p50", 1.0, "ms", figures.thin_added);
    below("memory of an idle server", 21.0, "MB", figures.idle.map(|bytes| bytes as f64 / 1e6));
    below("memory of a parked run", 4.0, "KiB", figures.parked.map(|bytes| bytes / 1024.0));
    below("memory of a detached run in flight", 16.0, "KiB", figures.in_flight.map(|bytes| bytes / 1024.0));
    below("start to first answer, fresh directory", 30.0, "ms", figures.fresh_start.map(milliseconds));
    below("start to first answer, existing directory", 18.0, "ms", figures.existing_start.map(milliseconds));
    below("drawloom run that starts the server adds", 60.0, "ms", figures.run_start_added.map(milliseconds));
    below("10,000 runs resumed after kill -9", 2.0, "s", figures.resume.map(|time| time.as_secs_f64()));
    below("a mock goal, process start to result", 60.0, "ms", figures.goal.map(milliseconds));
    below("a journaled step of a goal", 2.0, "ms", figures.goal_step.map(milliseconds));
    below("100 goals at once", 5.0, "s", figures.goals_at_once.map(|time| time.as_secs_f64()));
    below("a list of 1,000 keys of memory", 5.0, "ms", figures.memory_list.map(milliseconds));
    below("a search in 100,000 entries of memory", 20.0, "ms", figures.memory_search.map(milliseconds));
    below("memory of a run that waits for a message", 4.0, "KiB", figures.waiting_run.map(|bytes| bytes / 1024.0));
    below("10,000 waiting runs woken by one message", 2.0, "s", figures.woken.map(|time| time.as_secs_f64()));
    below("one message to 1,000 followers", 1_000.0, "ms", figures.followers.map(milliseconds));
    for Delivery { depth, sync, time } in &figures.deliveries {
        let limit = milliseconds(*sync) * 2.0 + 0.5;
        verdicts.push(Verdict {
            target: if *depth == 0 {
                "publish to delivered, empty channel"
            } else {
                "publish to delivered, 100,000 deep"
            },
            wanted: format!("< {limit:.2} ms"),
            measured: format!("{:.2} ms", milliseconds(*time)),
            met: milliseconds(*time) < limit,
        });
    }
    for Publishes { clients, floor, ours } in &figures.publishes {
        verdicts.push(Verdict {
            target: if *clients == 1 { "publishes, 1 client" } else { "publishes, 64 clients" },
            wanted: ">= 0.5 of floor".into(),
            measured: format!("{:.2} of floor", ours / floor),
            met: ours * 2.0 >= *floor,
        });
    }
    for Sets { clients, floor, ours } in &figures.memory_sets {
        verdicts.push(Verdict {
            target: if *clients == 1 { "memory sets, 1 client" } else { "memory sets, 64 clients" },
            wanted: ">= 0.5 of floor".into(),
            measured: format!("{:.2} of floor", ours / floor),
            met: ours * 2.0 >= *floor,
        });
    }
    verdicts
}

fn throughput(figures: &Figures, verdicts: &mut Vec<Verdict>) {
    let at = |rows: &[Row], clients| rows.iter().find(|row| row.clients == clients).copied();
    let mut least = |target, limit: f64, value: f64| {
        let (wanted, measured) = (format!(">= {} runs/s", whole(limit)), format!("{} runs/s", whole(value)));
        verdicts.push(Verdict { target, wanted, measured, met: value >= limit });
    };
    let (floor, rest) = (at(&figures.floor, 64), at(&figures.rest, 64));
    if let (Some(floor), Some(rest)) = (floor, rest) {
        least("rest, 64 clients: a third of the floor", floor.runs_per_second / 3.0, rest.runs_per_second);
        least("rest, 64 clients: some 8,000", 8_000.0, rest.runs_per_second);
    }
    if let (Some(rest), Some(many)) = (rest, at(&figures.rest, 256)) {
        least("rest, 256 clients: no slower than 64", rest.runs_per_second, many.runs_per_second);
    }
    if let (Some(rest), Some(sse)) = (rest, at(&figures.sse, 64)) {
        least("sse, 64 clients: half of rest", rest.runs_per_second / 2.0, sse.runs_per_second);
    }
    if let Some((floor, rest, sse)) = figures.called {
        least("rest with an HTTP model, 64: a third of the floor", floor.runs_per_second / 3.0, rest.runs_per_second);
        least("sse with an HTTP model, 64: half of rest", rest.runs_per_second / 2.0, sse.runs_per_second);
    }
    let mut latency = |target, limit: f64, row: Option<Row>, of: fn(&Row) -> Duration| {
        if let Some(row) = row {
            let value = of(&row).as_secs_f64() * 1e3;
            let (wanted, measured) = (format!("< {limit} ms"), format!("{value:.2} ms"));
            verdicts.push(Verdict { target, wanted, measured, met: value < limit });
        }
    };
    latency("rest, 1 client: p50", 1.5, at(&figures.rest, 1), |row| row.p50);
    latency("rest, 64 clients: p99", 25.0, rest, |row| row.p99);
    if let Some(rest) = rest {
        let value = rest.records_per_sync;
        verdicts.push(Verdict {
            target: "rest, 64 clients: records a fsync",
            wanted: ">= 8".into(),
            measured: format!("{value:.1}"),
            met: value >= 8.0,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_at_its_limit_misses_the_target() {
        let figures = Figures { parked: Some(4096.0), in_flight: Some(16_383.0), ..Figures::default() };
        let met: Vec<_> = verdicts(&figures).into_iter().map(|verdict| (verdict.target, verdict.met)).collect();
        assert_eq!(met, [("memory of a parked run", false), ("memory of a detached run in flight", true)]);
    }

    #[test]
    fn what_was_not_measured_has_no_verdict() {
        assert_eq!(verdicts(&Figures::default()), []);
    }
}
