//! A tree of runs whose executor asks no model: notes, children with whole requests, waits for logs, values and times, keyed
//! effects and calls that cost money. Every effect has a key, so a crash changes nothing at all.

use std::collections::BTreeMap;

use drawloom_contract::{
    ids::Tenant,
    log::{Log as _, LogKey},
    time::Timestamp,
    values::{KeyValue as _, Range, Within},
};
use drawloom_store::{Found, Store};
use drawloom_testkit::SPACE;
use serde_json::{Value, json};

use super::{Killed, Scenario, check_replay, events, is_caught, kill_everywhere};
use crate::{
    http::get,
    process::{Case, Server},
};

/// One slot, so that one run is under way at a time and each point has one expected result.
const CONFIG: &str = r#"
concurrency: { max_concurrent_runs: 1 }
agents:
  planner: { executor: steps, tools: [], agents: [taker, giver], hosts: [] }
  taker: { executor: steps, tools: [], agents: [], hosts: [] }
  giver: { executor: steps, tools: [], agents: [], hosts: [] }
"#;

/// Times that the children wait for each other.
const LAPS: usize = 8;

/// Logs that the script appends to.
const LOGS: [&str; 4] = ["planner-trail", "planner-moves", "taker-trail", "giver-moves"];

fn call(tool: &str, input: Value) -> Value {
    json!({ "call": { "tool": tool, "input": input } })
}

fn count(value: &str) -> Value {
    call("Count", json!({ "value": value }))
}

fn post(log: &str, text: &str) -> Value {
    call("Post", json!({ "log": log, "text": text, "keep": 2 }))
}

fn transfer(name: &str) -> Value {
    call(
        "Transfer",
        json!({ "from": format!("{name}-stock"), "to": format!("{name}-sold"), "log": format!("{name}-moves") }),
    )
}

fn pay(value: &str, most: u64, cost: u64) -> Value {
    call("Pay", json!({ "value": value, "most": most * 1_000_000, "cost": cost * 1_000_000 }))
}

/// Waits for the giver, by a log and by a value in turn, and tells it to go on.
fn taker() -> Vec<Value> {
    let mut script = vec![json!({ "note": "taker" })];
    for lap in 0..LAPS {
        let (from, to) = (format!("to-taker-{lap}"), format!("to-giver-{lap}"));
        script.extend(match lap % 2 {
            0 => [call("Await", json!({ "log": from })), count("taken"), post(&to, "taken")],
            _ => [call("Await", json!({ "value": from })), post("taker-trail", &from), count(&to)],
        });
    }
    script.push(pay("taker-paid", 20, 10));
    script
}

/// Tells the taker to go on, by a log and by a value in turn, and waits for it.
fn giver() -> Vec<Value> {
    let mut script = vec![transfer("giver")];
    for lap in 0..LAPS {
        let (from, to) = (format!("to-giver-{lap}"), format!("to-taker-{lap}"));
        script.extend(match lap % 2 {
            0 => [post(&to, "given"), call("Await", json!({ "log": from }))],
            _ => [count(&to), call("Await", json!({ "value": from }))],
        });
    }
    script.push(pay("giver-paid", 20, 10));
    script
}

fn planner() -> Vec<Value> {
    let child = |agent: &str, input: Vec<Value>| json!({ "agent": agent, "prompt": agent, "input": input, "budget_cost": 30_000_000, "timeout_ms": 3_600_000 });
    vec![
        json!({ "note": { "began": true } }),
        // Longer than the server holds an answer's head back, so that the test can kill the server between the two.
        call("Await", json!({ "ms": 150 })),
        count("visits"),
        post("planner-trail", "a"),
        transfer("planner"),
        pay("planner-paid", 60, 40),
        call("Start", json!([child("taker", taker()), child("giver", giver())])),
        json!({ "wait_ms": 5 }),
        post("planner-trail", "b"),
        post("planner-trail", "c"),
        transfer("planner"),
        count("visits"),
        // The budget is used up: what was booked twice would leave too little for this.
        pay("planner-paid", 40, 40),
        json!({ "note": { "ended": true } }),
    ]
}

fn scenario() -> Scenario<Report> {
    let prompt = Value::from(planner()).to_string();
    let budget = json!({ "cost": 0.1 });
    let request = json!({ "agent": "planner", "prompt": prompt, "budget": budget, "idempotency_key": "the one" });
    Scenario { config: CONFIG, request, inspect }
}

/// What one crash and restart came to.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Report {
    /// Agent, status, text and cost of each run, sorted.
    runs: Vec<[String; 4]>,
    values: BTreeMap<String, Value>,
    /// What each log keeps, and its head.
    logs: BTreeMap<String, (Vec<Value>, u64)>,
}

fn inspect(case: &Case, server: &Server, root: &str, result: &Value) -> Result<Report, String> {
    let page = get(&server.url, "/v1/runs?limit=200");
    let runs = page["runs"].as_array().cloned().unwrap_or_default();
    if runs.len() != 3 || result["run_id"] != root {
        return Err(format!("{} runs where there should be 3", runs.len()));
    }
    let mut report = Report { runs: Vec::new(), values: BTreeMap::new(), logs: BTreeMap::new() };
    for run in &runs {
        let id = run["run_id"].as_str().unwrap_or_default();
        let run = get(&server.url, &format!("/v1/runs/{id}"));
        report.runs.push(["agent", "status", "final_text", "cost"].map(|field| run[field].to_string()));
        check_calls(id, &events(&server.url, id))?;
        check_replay(server, id)?;
    }
    report.runs.sort();
    read_store(case, &mut report);
    check_counts(&report)?;
    Ok(report)
}

/// Every call has one result, and none is in doubt.
fn check_calls(run: &str, events: &[(String, Value)]) -> Result<(), String> {
    let count = |name: &str| events.iter().filter(|(event, _)| event == name).count();
    let (started, done) = (count("tool_call"), count("tool_result"));
    match started == done && started > 0 {
        true => Ok(()),
        false => Err(format!("run {run} has {started} calls and {done} results")),
    }
}

/// Each effect is counted: the script says how often.
fn check_counts(report: &Report) -> Result<(), String> {
    let mut expected = BTreeMap::from([
        ("visits".to_owned(), 2),
        ("taken".to_owned(), LAPS.div_ceil(2) as i64),
        ("planner-stock".to_owned(), -2),
        ("planner-sold".to_owned(), 2),
        ("giver-stock".to_owned(), -1),
        ("giver-sold".to_owned(), 1),
        ("planner-paid".to_owned(), 2),
        ("taker-paid".to_owned(), 1),
        ("giver-paid".to_owned(), 1),
    ]);
    for lap in (1..LAPS).step_by(2) {
        expected.extend([(format!("to-taker-{lap}"), 1), (format!("to-giver-{lap}"), 1)]);
    }
    let expected: BTreeMap<String, Value> = expected.into_iter().map(|(name, number)| (name, json!(number))).collect();
    if report.values != expected {
        return Err(format!("effects on values: {:?}, expected {expected:?}", report.values));
    }
    let appended: BTreeMap<&str, u64> = report.logs.iter().map(|(name, (_, head))| (name.as_str(), *head)).collect();
    let trail = LAPS as u64 / 2;
    let mut expected =
        BTreeMap::from([("planner-trail", 3), ("planner-moves", 2), ("taker-trail", trail), ("giver-moves", 1)]);
    let laps: Vec<String> = lap_logs().collect();
    expected.extend(laps.iter().map(|name| (name.as_str(), 1)));
    match appended == expected {
        true => Ok(()),
        false => Err(format!("effects on logs: {appended:?}, expected {expected:?}")),
    }
}

fn lap_logs() -> impl Iterator<Item = String> {
    (0..LAPS).step_by(2).flat_map(|lap| [format!("to-taker-{lap}"), format!("to-giver-{lap}")])
}

/// Reads every value and log from the store itself.
fn read_store(case: &Case, report: &mut Report) {
    let Ok(Found::Store(store)) = Store::read(&case.path("data")) else { panic!("a store that can be read") };
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let range = Range { space: SPACE, within: Within::Space };
        let now = Timestamp::from_millis(0);
        for (key, kept) in store.list_values(&range, None, 1_000, now).await.expect("values") {
            report.values.insert(key.key, kept.value);
        }
        for name in LOGS.into_iter().map(str::to_owned).chain(lap_logs()) {
            let log = LogKey { tenant: Tenant::default_tenant(), space: SPACE, name: name.clone() };
            let page = store.read_log(&log, 0, 1_000).await.expect("a log");
            let bodies = page.messages.into_iter().map(|message| message.body).collect();
            report.logs.insert(name, (bodies, page.head));
        }
    });
}

/// Kills a server at some points of the tree, at all when `most` allows it. What comes of it is the same everywhere.
pub(super) fn kill(most: usize) -> Killed {
    kill_everywhere(&scenario(), most, |whole, _| Box::new(|_| whole.clone()))
}

#[test]
fn the_kill_test_catches_an_effect_outside_the_transaction_of_its_key() {
    let caught = is_caught(&scenario(), "effect_outside_transaction", "after value").expect("caught");
    assert!(caught.contains("effects on values"), "{caught}");
}

#[test]
fn the_kill_test_catches_an_answer_that_is_not_stored() {
    let caught = is_caught(&scenario(), "answer_not_stored", "after value").expect("caught");
    assert!(caught.contains("effects on"), "{caught}");
}
