//! What the journal says of the calls of a goal that cost money, and whether it explains every process that was started.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use drawloom_contract::{
    ids::{RunKey, Tenant},
    journal::RunReader as _,
    record::{Body, Record, Status},
};
use drawloom_store::{Found, Store};
use serde_json::Value;

/// Calls that were made again.
#[derive(Debug, Default)]
pub(super) struct Paid {
    /// After a note that they may be paid twice.
    pub(super) noted: usize,
    /// After a record that they failed.
    pub(super) failed: usize,
}

/// Checks that each line of `starts` has the record of one call, and that each call after the first has a record of its reason.
pub(super) fn check(data: &Path, goal: &str, starts: &str) -> Result<Paid, String> {
    let runs = read(data, goal)?;
    let mut seen = BTreeSet::new();
    for line in starts.lines() {
        let (run, call) = line
            .strip_prefix("cli-")
            .and_then(|rest| rest.rsplit_once('-'))
            .ok_or_else(|| format!("not the name of a call: {line}"))?;
        let is_recorded = runs
            .get(run)
            .is_some_and(|records| records.iter().any(|record| record.seq.to_string() == call && is_call(record)));
        if !is_recorded {
            return Err(format!("a CLI was started without a record: {line}"));
        }
        if !seen.insert(line) {
            return Err(format!("one call started two processes: {line}"));
        }
    }
    let mut paid = Paid::default();
    // What the goal asked for, and how each of its tries ended.
    let mut asked: BTreeMap<String, Vec<Status>> = BTreeMap::new();
    for (run, records) in &runs {
        if !records.iter().any(is_call) {
            continue;
        }
        let of_run = repeated(run, records)?;
        paid.noted += of_run.noted;
        paid.failed += of_run.failed;
        asked.entry(label(records)).or_default().push(status(records).ok_or_else(|| format!("{run} did not end"))?);
    }
    let labels: Vec<&str> = asked.keys().map(String::as_str).collect();
    if labels != ["i01-001-a", "i01-002-b", "i01-003-c", "i01-decomposer", "i01-reviewer"] {
        return Err(format!("other calls than without a kill: {asked:?}"));
    }
    for (label, ends) in &asked {
        let failed = ends.iter().filter(|status| **status == Status::Failed).count();
        if ends.len() != failed + 1 {
            return Err(format!("{label} was asked for again although it had an answer: {ends:?}"));
        }
    }
    Ok(paid)
}

/// The journal of each run of the goal.
fn read(data: &Path, goal: &str) -> Result<BTreeMap<String, Vec<Record>>, String> {
    let Ok(Found::Store(store)) = Store::read(data) else { return Err("no store that can be read".into()) };
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let root = RunKey { tenant: Tenant::default_tenant(), run: goal.parse().map_err(|_| format!("no id: {goal}"))? };
    let (records, _) =
        runtime.block_on(store.read_tree_part(&root, 0, usize::MAX >> 1)).map_err(|error| error.to_string())?;
    let mut runs: BTreeMap<String, Vec<Record>> = BTreeMap::new();
    for placed in records {
        runs.entry(placed.run.to_string()).or_default().push(placed.it);
    }
    Ok(runs)
}

/// Whether this is the beginning of a process of a CLI.
fn is_call(record: &Record) -> bool {
    matches!(&record.body, Body::CallStarted(started) if started.tool_use.name == "cli_run")
}

/// The calls of a run that were made again. Each follows the record of a failure, or a note that it may be paid twice.
fn repeated(run: &str, records: &[Record]) -> Result<Paid, String> {
    let mut paid = Paid::default();
    let (mut calls, mut may_call) = (0, true);
    for record in records {
        match &record.body {
            Body::Note { value, .. } if value["maybe_paid_twice"] == calls => {
                paid.noted += 1;
                may_call = true;
            }
            Body::CallDone(done) if !done.in_doubt => {
                let reply: Value = serde_json::from_str(&done.text).unwrap_or_default();
                may_call = !reply["problem"].is_null();
                paid.failed += usize::from(may_call);
            }
            _ if is_call(record) => {
                if !may_call {
                    return Err(format!("call {} of {run} was made again without a record", record.seq));
                }
                (calls, may_call) = (calls + 1, false);
            }
            _ => {}
        }
    }
    Ok(paid)
}

/// What the run was asked for: the name of its output without the number of the try.
fn label(records: &[Record]) -> String {
    let name = records.iter().find_map(|record| match &record.body {
        Body::Accepted(accepted) => accepted.input.as_ref()?["output_name"].as_str(),
        _ => None,
    });
    let is_try =
        |part: &str| part.len() > 1 && part.strip_prefix('a').is_some_and(|number| number.parse::<u32>().is_ok());
    name.unwrap_or_default().split('-').filter(|part| !is_try(part)).collect::<Vec<_>>().join("-")
}

fn status(records: &[Record]) -> Option<Status> {
    records.iter().find_map(|record| match &record.body {
        Body::Finished(outcome) => Some(outcome.status),
        _ => None,
    })
}
