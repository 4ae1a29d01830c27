//! Every limit of the engine is crossed, and whoever crossed it is told by the code on the list.

use std::{sync::atomic::Ordering, time::Duration};

use drawloom_contract::{
    record::{Body, Record, Status},
    runs::{Interest, Item, OnRefusal, Runs as _, Start},
    view::RunView,
};
use drawloom_engine::LIMITS;
use futures::StreamExt as _;
use serde_json::{Value, json};

use crate::house::{House, Plan, ask};

/// How long a probe may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// Crosses the limit `name`; says by which code that was told.
async fn cross(name: &str) -> String {
    match name {
        "queued_roots" => {
            let house = busy(|plan| plan.config(|config| config.max_queue_depth = 1));
            house.start(ask("alice", "x"), Interest::None).await;
            house.start(ask("alice", "x"), Interest::None).await;
            let refused = house.engine.start(&house.caller, ask("alice", "x"), None, Interest::None).await;
            refused.err().expect("one more than may wait").code.to_string()
        }
        "queue_time" => {
            let house = busy(|plan| plan.config(|config| config.queue_timeout_ms = 20));
            house.start(ask("alice", "x"), Interest::None).await;
            code(&house.run("alice", "x").await)
        }
        "batch_size" => {
            let house = busy(|plan| plan);
            let starts = vec![ask("alice", "x"); 33];
            let refused =
                house.engine.start_batch(&house.caller, starts, OnRefusal::RefuseAll, None, Interest::None).await;
            refused.err().expect("one more than a batch has").code.to_string()
        }
        "spawn_depth" => {
            let rules = json!([{ "when": { "turn": 1 }, "calls": [spawn(1)] }, { "text": "{{last}}" }]);
            // Each child spawns another, until one is refused and its answer goes up.
            told(&House::new(Plan::new(rules).config(|config| config.max_spawn_depth = 1))).await
        }
        "children_per_call" => told(&spawning(3, |plan| plan.config(|config| config.max_children_per_call = 2))).await,
        "runs_per_tree" => told(&spawning(2, |plan| plan.config(|config| config.max_runs_per_tree = 2))).await,
        "queued_children" => told(&spawning(2, |plan| plan.config(|config| config.max_queued_children = 1))).await,
        "calls_per_turn" => calls_per_turn().await,
        "parts_per_answer" => {
            let rules = json!([{ "calls": vec![json!({ "tool": "Probe" }); 16_385] }]);
            let plan = Plan::new(rules).agent("alice", |agent| agent.retry_attempts = 0);
            code(&House::new(plan).run("alice", "x").await)
        }
        "tools_per_run" => {
            let plan = Plan { idle_tools: 129, ..Plan::new(json!([{ "text": "done" }])) };
            let house = House::new(plan.agent("alice", |agent| agent.tools = vec!["Idle*".into()]));
            let view = house.run("alice", "x").await;
            assert_eq!(view.warnings.len(), 1, "{:?}", view.warnings);
            assert!(view.warnings[0].contains("1 tools omitted"), "{:?}", view.warnings);
            "warnings".to_owned()
        }
        "model_turn_time" => {
            let plan = Plan::new(json!([{ "text": "late", "delay_ms": 600_000 }]));
            let plan = plan.agent("alice", |agent| agent.retry_attempts = 1);
            let house = House::new(plan.config(|config| config.model_turn_timeout_ms = 20));
            let view = house.run("alice", "x").await;
            assert_eq!(house.meter.calls.load(Ordering::SeqCst), 2, "it is retried, and that counts");
            code(&view)
        }
        "run_time" => {
            // A provider that throttles for ever.
            let rules = json!([{ "fail": { "kind": "throttled", "retry_after_ms": 5 } }]);
            let house = House::new(Plan::new(rules).config(|config| config.default_timeout_ms = 100));
            let view = house.run("alice", "x").await;
            assert_eq!(view.status, Status::TimedOut);
            code(&view)
        }
        "turns_per_run" => {
            let rules = json!([{ "when": { "tools": false }, "text": "last" }, { "calls": [{ "tool": "Probe" }] }]);
            let view = House::new(Plan::new(rules)).run("alice", "x").await;
            view.stop_reason.expect("it completed").as_str().to_owned()
        }
        "retries_per_turn" => {
            let rules = json!([{ "fail": { "kind": "unavailable" } }]);
            let plan = Plan::new(rules).agent("alice", |agent| agent.retry_attempts = 0);
            code(&House::new(plan).run("alice", "x").await)
        }
        "follower_backlog" => follower_backlog().await,
        "tool_result_bytes" => {
            let long = "x".repeat(1024 * 1024 + 1);
            let rules = json!([
                { "when": { "turn": 1 }, "calls": [{ "tool": "Probe", "input": { "say": long } }] }, { "text": "done" } ]);
            cut(&House::new(Plan::new(rules))).await
        }
        "children_result_bytes" => {
            let long = "x".repeat(1024 * 1024 + 1);
            let rules = json!([
                { "when": { "agent": "bob" }, "text": long },
                { "when": { "turn": 1 }, "calls": [spawn(1)] }, { "text": "done" } ]);
            cut(&House::new(Plan::new(rules))).await
        }
        other => panic!("no probe crosses the limit `{other}`: add one here"),
    }
}

/// One slot, whose first run keeps it.
fn busy(change: impl FnOnce(Plan) -> Plan) -> House {
    let plan = Plan::new(json!([{ "text": "late", "delay_ms": 600_000 }]));
    House::new(change(plan.config(|config| config.max_concurrent_runs = 1)))
}

fn code(view: &RunView) -> String {
    view.error.as_ref().map_or_else(|| view.status.as_str().to_owned(), |error| error.code.clone())
}

fn spawn(count: usize) -> Value {
    let spawns = vec![json!({ "name": "bob", "prompt": "p" }); count];
    json!({ "tool": "Agent", "input": { "op": "parallel_spawn", "spawns": spawns } })
}

/// Alice spawns that many and then repeats what she was told.
fn spawning(count: usize, change: impl FnOnce(Plan) -> Plan) -> House {
    let rules = json!([
        { "when": { "agent": "alice", "turn": 1 }, "calls": [spawn(count)] }, { "text": "{{last}}" } ]);
    House::new(change(Plan::new(rules)))
}

async fn records(house: &House, agent: &str) -> (RunView, Vec<Record>) {
    let view = house.run(agent, "x").await;
    assert_eq!(view.status, Status::Completed, "{:?}", view.error);
    let records = house.journal(&view).await;
    (view, records)
}

/// The code with which a model's failed call begins, wherever in the tree that was.
async fn told(house: &House) -> String {
    let (mut view, mut failed) = (house.run("alice", "x").await, None);
    while failed.is_none() {
        let journal = house.journal(&view).await;
        failed = journal.iter().find_map(|record| match &record.body {
            Body::CallDone(done) if done.is_error => Some(done.text.clone()),
            _ => None,
        });
        match house.children(&view).await.into_iter().next() {
            Some(child) => view = child,
            None => break,
        }
    }
    let text = failed.expect("a call that failed");
    text.split(':').next().expect("a code").to_owned()
}

/// Whether the run's tool result was cut and says so.
async fn cut(house: &House) -> String {
    let (_, records) = records(house, "alice").await;
    let cut = records.iter().any(|record| match &record.body {
        Body::CallDone(done) => done.text.len() < 1024 * 1024 + 1024 && done.text.contains("[truncated: "),
        _ => false,
    });
    (if cut { "truncated" } else { "whole" }).to_owned()
}

async fn calls_per_turn() -> String {
    let calls = vec![json!({ "tool": "Probe" }); 200];
    let rules = json!([{ "when": { "turn": 1 }, "calls": calls }, { "text": "done" }]);
    let house = House::new(Plan::new(rules));
    let (_, records) = records(&house, "alice").await;
    assert_eq!(house.probed.lock().expect("no panic while held").len(), 128, "nothing of the rest is executed");
    let results: Vec<&str> = records
        .iter()
        .filter_map(|record| match &record.body {
            Body::CallDone(done) => Some(done.text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(results.len(), 200, "every call has a result");
    let refused: Vec<&&str> = results.iter().filter(|text| text.contains("not executed")).collect();
    assert_eq!(refused.len(), 72);
    refused[0].split(':').next().expect("a code").to_owned()
}

/// A follower that reads nothing until the run has ended gets every record all the same.
async fn follower_backlog() -> String {
    let calls = vec![json!({ "tool": "Probe" }); 128];
    let rules = json!([{ "when": { "turn": 1 }, "calls": calls }, { "calls": [], "text": "done" }]);
    let house = House::new(Plan::new(rules).config(|config| config.tool_parallelism = 1));
    let started = house.start(ask("alice", "x"), Interest::Events).await;
    let ended = house.engine.wait(&house.caller, started.view.run, None).await.expect("an end");
    let mut live = started.live.expect("events");
    let mut last = 0;
    while let Some(item) = live.next().await {
        if let Item::Record(record) = item.expect("no failure") {
            assert_eq!(record.seq, last + 1);
            last = record.seq;
        }
    }
    assert!(last > 256, "more than a follower may be behind");
    (if last == ended.seq { "resync" } else { "lost" }).to_owned()
}

#[tokio::test]
async fn every_limit_is_crossed_and_told() {
    for limit in LIMITS {
        let code = tokio::time::timeout(PATIENCE, cross(limit.name)).await;
        assert_eq!(code.unwrap_or_else(|_| panic!("{} holds nobody up", limit.name)), limit.code, "{}", limit.name);
    }
    report(&format!("{} limits of the engine crossed", LIMITS.len()));
}

#[tokio::test]
async fn ten_thousand_calls_of_one_turn_are_worked_off_when_the_limit_allows_it() {
    let calls = vec![json!({ "tool": "Missing" }); 10_000];
    let rules = json!([{ "when": { "turn": 1 }, "calls": calls }, { "text": "done" }]);
    let house = House::new(Plan::new(rules).config(|config| config.max_calls_per_turn = 10_000));
    let view = house.run("alice", "x").await;
    assert_eq!(view.status, Status::Completed);
    assert!(view.seq > 20_000, "each has its intent and its outcome: {}", view.seq);
}

#[tokio::test]
async fn a_root_run_has_a_default_deadline_that_its_request_can_change() {
    let house = House::new(Plan::new(json!([{ "text": "done" }])));
    let day = Duration::from_secs(86_400);
    let view = house.run("alice", "x").await;
    let length = view.deadline.expect("a default").since(view.accepted_at);
    assert!(length <= day && length > day - Duration::from_secs(60), "{length:?}");
    let own = house.start(Start { timeout_ms: Some(2 * 86_400_000), ..ask("alice", "x") }, Interest::None).await.view;
    assert!(own.deadline.expect("its own").since(own.accepted_at) > day);
}

/// Says a number to whoever runs the tests, past the capture of their output.
fn report(text: &str) {
    use std::io::Write as _;
    writeln!(std::io::stderr(), "limits: {text}").expect("stderr");
}
