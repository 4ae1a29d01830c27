//! The kill test: a server process is killed with SIGKILL at every point of a run with a fan-out, and started again.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use serde_json::{Value, json};

use crate::{
    fanout::{CONFIG, LINES},
    http::{get, post},
    process::{Case, Server},
};

/// The point at which the test itself kills the server: as soon as it has been told the run's id.
const ANSWERED: &str = "answered";

/// What the model is told of a call that nobody knows the outcome of.
pub(crate) const IN_DOUBT: &str = "in doubt: the process ended while this call was under way, so it may or may not have happened. \
                        Find out before you do it again.";

/// What one crash and restart came to.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Report {
    /// Status and text of each run, sorted.
    results: Vec<(String, String, String)>,
    ledger: BTreeMap<String, usize>,
    /// Ledger lines whose call was told to be in doubt.
    in_doubt: Vec<String>,
}

fn request() -> Value {
    json!({ "agent": "lead", "prompt": "go", "idempotency_key": "the one" })
}

/// Runs the case with a kill at `point`, starts the server again, and says what is wrong, or what came of it.
fn crash_at(point: Option<&str>, settings: &Value) -> Result<Report, String> {
    let case = Case::new(CONFIG);
    let mut told = None;
    if let Some(point) = point {
        let mut first = settings.clone();
        first["kill"] = json!(point);
        let mut server = case.start(&first);
        let mut passed_by = false;
        if let Ok(answer) = post(&server.url, "/v1/runs", &request()) {
            told = answer.header("drawloom-run-id").map(str::to_owned);
            // Until the server dies, which cuts the answer off, or the run ends.
            passed_by = point != ANSWERED && answer.json().is_ok();
        }
        if passed_by || point == ANSWERED {
            server.kill();
        }
        server.ended();
        if passed_by {
            return Err(format!("the run ended without passing {point:?}"));
        }
    }
    let server = case.start(settings);
    let answer =
        post(&server.url, "/v1/runs", &request()).map_err(|error| format!("no answer after the restart: {error}"))?;
    let run = answer.header("drawloom-run-id").map(str::to_owned).ok_or("an answer without an id")?;
    if let Some(told) = told
        && told != run
    {
        return Err(format!("the id {told} was handed out and is not known any more: the same key gives {run}"));
    }
    let result = answer.json().map_err(|error| format!("no result: {error}"))?;
    inspect(&case, &server, &run, &result)
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
        check_calls(&events, &mut report)?;
        let run = get(&server.url, &format!("/v1/runs/{id}"));
        let text = run["final_text"].as_str().unwrap_or_default().to_owned();
        report.results.push((run["agent"].as_str().unwrap_or_default().to_owned(), status, text));
    }
    report.results.sort();
    Ok(report)
}

/// No turn is journaled twice, and none was asked again after it was journaled.
pub(crate) fn check_turns(run: &str, events: &[(String, Value)], calls: &[String]) -> Result<(), String> {
    for turn in 1..=10u64 {
        let count = |name: &str| events.iter().filter(|(event, data)| event == name && data["turn"] == turn).count();
        let asked = calls.iter().filter(|line| line.starts_with(&format!("{run} {turn} "))).count();
        if count("message") > 1 {
            return Err(format!("turn {turn} of {run} is journaled twice"));
        }
        // A run that was stopped may have been stopped while the model was answering.
        let stopped = usize::from(events.iter().any(|(event, _)| event == "error") && count("message") == 0);
        if asked > count("message") + count("turn_reset") + stopped {
            return Err(format!("turn {turn} of {run} was asked {asked} times"));
        }
    }
    Ok(())
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

/// A run's journaled events: names and data.
pub(crate) fn events(url: &str, run: &str) -> Vec<(String, Value)> {
    let answer = crate::http::send(url, "GET", &format!("/v1/runs/{run}/events"), &[], "").expect("a stream");
    let text = answer.text().expect("a whole stream");
    text.split("\n\n")
        .filter_map(|frame| {
            let field = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name));
            Some((field("event: ")?.to_owned(), serde_json::from_str(field("data: ")?).ok()?))
        })
        .collect()
}

/// Every point of an uncrashed run, each once.
fn points(settings: &Value) -> Vec<String> {
    let case = Case::new(CONFIG);
    let mut settings = settings.clone();
    settings["points"] = json!(case.path("points"));
    let server = case.start(&settings);
    let answer = post(&server.url, "/v1/runs", &request()).expect("an answer");
    assert_eq!(answer.json().expect("a result")["status"], "completed");
    let mut points = case.lines("points");
    points.push(ANSWERED.into());
    points.sort();
    points.dedup();
    points
}

/// Does `work` on every item, some at a time, until one says to stop.
pub(crate) fn for_each<T: Sync>(items: &[T], work: impl Fn(&T) -> bool + Sync) {
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if stop.load(Ordering::Relaxed) || work(item) {
                        stop.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
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
        // The effect has happened and nobody heard of it: the line is there.
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

#[test]
fn killed_at_every_point_a_run_ends_as_if_nothing_had_happened() {
    let settings = json!({});
    let whole = crash_at(None, &settings).expect("an uncrashed run");
    assert_eq!(whole.ledger.keys().map(String::as_str).collect::<Vec<_>>(), LINES);
    assert!(whole.in_doubt.is_empty());
    let points = points(&settings);
    let line_of = ledger_calls(&points);
    assert_eq!(line_of.len(), LINES.len(), "every ledger line has its call");
    let (wrong, doubts) = (Mutex::new(Vec::new()), AtomicUsize::new(0));
    for_each(&points, |point| {
        let wanted = expected(point, &whole, &line_of);
        doubts.fetch_add(wanted.in_doubt.len(), Ordering::Relaxed);
        match crash_at(Some(point), &settings) {
            Ok(report) if report == wanted => {}
            other => {
                wrong.lock().expect("no panic while held").push(format!("{point}: {other:?}\n  wanted {wanted:?}"))
            }
        }
        false
    });
    let wrong = wrong.into_inner().expect("no panic while held");
    let doubts = doubts.into_inner();
    assert!(wrong.is_empty(), "{} of {} points:\n{}", wrong.len(), points.len(), wrong.join("\n"));
    assert!(points.len() > 100, "only {} points", points.len());
    assert_eq!(doubts, 3 * LINES.len(), "in doubt only where a ledger call was under way");
    report_number(&format!("killed at {} points; {doubts} of them leave a call in doubt, as listed", points.len()));
}

/// A mistake is caught when some point shows it.
fn is_caught(fault: &str) -> Option<String> {
    let settings = json!({ "fault": fault });
    let points = points(&settings);
    let caught = Mutex::new(None);
    for_each(&points, |point| match crash_at(Some(point), &settings) {
        // A point whose name depends on the process is not reached again; that is no finding.
        Err(why) if !why.contains("without passing") => {
            *caught.lock().expect("no panic while held") = Some(format!("{point}: {why}"));
            true
        }
        Ok(_) | Err(_) => false,
    });
    caught.into_inner().expect("no panic while held")
}

#[test]
fn the_kill_test_catches_an_effect_before_its_intent() {
    let caught = is_caught("effect_first").expect("caught");
    assert!(caught.contains("times"), "{caught}");
}

#[test]
fn the_kill_test_catches_an_answer_before_its_commit() {
    let caught = is_caught("answer_first").expect("caught");
    assert!(caught.contains("not known any more"), "{caught}");
}

#[test]
fn the_kill_test_catches_children_started_apart_and_unkeyed() {
    let caught = is_caught("unkeyed_children").expect("caught");
    assert!(caught.contains("times") || caught.contains("runs where there should be 4"), "{caught}");
}

/// Says a number to whoever runs the tests, past the capture of their output.
pub(crate) fn report_number(text: &str) {
    use std::io::Write as _;
    writeln!(std::io::stderr(), "durability: {text}").expect("stderr");
}
