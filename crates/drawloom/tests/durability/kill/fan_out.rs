//! The fan-out of a model: calls of class `Never` are in doubt when the server died inside them; everything else is the same.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use serde_json::{Value, json};

use super::{IN_DOUBT, Killed, Scenario, check_replay, check_turns, events, is_caught, kill_everywhere};
use crate::{
    fanout::{CONFIG, LINES},
    http::get,
    process::{Case, Server},
};

/// What one crash and restart came to.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Report {
    /// Status and text of each run, sorted.
    results: Vec<(String, String, String)>,
    ledger: BTreeMap<String, usize>,
    /// Ledger lines whose call was told to be in doubt.
    in_doubt: Vec<String>,
}

fn scenario() -> Scenario<Report> {
    let request = json!({ "agent": "lead", "prompt": "go", "idempotency_key": "the one" });
    Scenario { config: CONFIG, request, inspect }
}

/// Whatever happened: nothing doubled, nothing lost, nothing unreported.
fn inspect(case: &Case, server: &Server, root: &str, result: &Value) -> Result<Report, String> {
    let runs = get(&server.url, "/v1/runs?limit=200");
    let runs = runs["runs"].as_array().cloned().unwrap_or_default();
    if runs.len() != 4 || result["run_id"] != root {
        return Err(format!("{} runs where there should be 4", runs.len()));
    }
    let mut report = Report { results: Vec::new(), ledger: BTreeMap::new(), in_doubt: Vec::new() };
    for line in case.lines("ledger") {
        *report.ledger.entry(line).or_default() += 1;
    }
    if let Some((line, times)) = report.ledger.iter().find(|(_, times)| **times > 1) {
        return Err(format!("the ledger has {line} {times} times"));
    }
    let calls = case.lines("calls");
    for run in &runs {
        let id = run["run_id"].as_str().unwrap_or_default();
        let status = run["status"].as_str().unwrap_or_default().to_owned();
        if !["completed", "failed", "cancelled", "timed_out"].contains(&status.as_str()) {
            return Err(format!("run {id} is {status} for ever"));
        }
        let events = events(&server.url, id);
        check_turns(id, &events, &calls)?;
        check_replay(server, id)?;
        check_calls(&events, &mut report)?;
        let run = get(&server.url, &format!("/v1/runs/{id}"));
        let text = run["final_text"].as_str().unwrap_or_default().to_owned();
        report.results.push((run["agent"].as_str().unwrap_or_default().to_owned(), status, text));
    }
    report.results.sort();
    Ok(report)
}

/// Every call that was answered happened once; one that is in doubt happened once or not at all.
fn check_calls(events: &[(String, Value)], report: &mut Report) -> Result<(), String> {
    let lines: BTreeMap<u64, &str> = events
        .iter()
        .filter(|(event, data)| event == "tool_call" && data["tool_use"]["name"] == "Ledger")
        .filter_map(|(_, data)| Some((data["call"].as_u64()?, data["tool_use"]["input"]["line"].as_str()?)))
        .collect();
    for (_, data) in events.iter().filter(|(event, _)| event == "tool_result") {
        let Some(line) = data["call"].as_u64().and_then(|call| lines.get(&call)) else { continue };
        match data["text"].as_str() {
            Some(text) if text == format!("booked {line}") => {
                if !report.ledger.contains_key(*line) {
                    return Err(format!("{line} was reported and is not in the ledger"));
                }
            }
            Some(IN_DOUBT) => report.in_doubt.push((*line).to_owned()),
            other => return Err(format!("{line} came to {other:?}")),
        }
    }
    Ok(())
}

/// What must come of a crash at `point`: the uncrashed result, but for a call that is in doubt there.
fn expected(point: &str, whole: &Report, line_of: &BTreeMap<String, String>) -> Report {
    let mut expected = whole.clone();
    let started = |record: &str| line_of.get(record.strip_suffix(":call_started")?).cloned();
    // A ledger call is the only one of its turn, so its outcome is the record after its intent.
    let answered = |record: &str| {
        let (run, seq) = record.strip_suffix(":call_done")?.split_once('#')?;
        line_of.get(&format!("{run}#{}", seq.parse::<u64>().ok()? - 1)).cloned()
    };
    let doubted = match point.split_once(' ') {
        // The intent is committed and the effect has not begun: the line is missing.
        Some(("after", records)) => {
            let line = records.split(',').find_map(started);
            expected.ledger.retain(|kept, _| Some(kept) != line.as_ref());
            line
        }
        // The effect has happened and its result is not journaled: the line is in the ledger.
        Some(("effect", call)) => call.strip_suffix(":Ledger").and_then(|call| line_of.get(call)).cloned(),
        // It was heard of and not yet written down, which is the same.
        Some(("before", records)) => records.split(',').find_map(answered),
        _ => None,
    };
    if let Some(line) = doubted {
        for (_, _, text) in &mut expected.results {
            *text = text.replace(&format!("booked {line}"), IN_DOUBT);
        }
        expected.in_doubt.push(line);
    }
    expected
}

/// Which ledger line each call of an uncrashed run writes: `root/0#6` → `worker-0-a`.
fn ledger_calls(points: &[String]) -> BTreeMap<String, String> {
    let mut calls: Vec<(&str, u64)> = points
        .iter()
        .filter_map(|point| point.strip_prefix("effect ")?.strip_suffix(":Ledger")?.split_once('#'))
        .filter_map(|(run, call)| Some((run, call.parse().ok()?)))
        .collect();
    calls.sort_unstable();
    let mut places = BTreeMap::<&str, usize>::new();
    calls
        .into_iter()
        .map(|(run, call)| {
            let place = places.entry(run).or_default();
            let line = match run.strip_prefix("root/") {
                None => ["lead-begins", "lead-ends"][*place].to_owned(),
                Some(worker) => format!("worker-{worker}-{}", ["a", "b", "c"][*place]),
            };
            *place += 1;
            (format!("{run}#{call}"), line)
        })
        .collect()
}

/// Kills a server at some points of the fan-out, at all when `most` allows it. Also says at how many of them a call is in doubt.
pub(super) fn kill(most: usize) -> (Killed, usize) {
    let in_doubt = Arc::<AtomicUsize>::default();
    let killed = kill_everywhere(&scenario(), most, |whole, points| {
        assert_eq!(whole.ledger.keys().map(String::as_str).collect::<Vec<_>>(), LINES);
        assert!(whole.in_doubt.is_empty());
        let line_of = ledger_calls(points);
        assert_eq!(line_of.len(), LINES.len(), "every ledger line has its call");
        let doubted = points.iter().map(|point| expected(point, whole, &line_of).in_doubt.len());
        assert_eq!(doubted.sum::<usize>(), 3 * LINES.len(), "in doubt only where a ledger call was under way");
        let in_doubt = in_doubt.clone();
        Box::new(move |point| {
            let expected = expected(point, whole, &line_of);
            in_doubt.fetch_add(expected.in_doubt.len(), Ordering::Relaxed);
            expected
        })
    });
    (killed, in_doubt.load(Ordering::Relaxed))
}

#[test]
fn the_kill_test_catches_an_effect_before_its_intent() {
    let caught = is_caught(&scenario(), "effect_first", "").expect("caught");
    assert!(caught.contains("times"), "{caught}");
}

#[test]
fn the_kill_test_catches_an_answer_before_its_commit() {
    let caught = is_caught(&scenario(), "answer_first", "").expect("caught");
    assert!(caught.contains("not known any more"), "{caught}");
}

#[test]
fn the_kill_test_catches_children_started_apart_and_unkeyed() {
    let caught = is_caught(&scenario(), "unkeyed_children", "").expect("caught");
    assert!(caught.contains("times") || caught.contains("runs where there should be 4"), "{caught}");
}
