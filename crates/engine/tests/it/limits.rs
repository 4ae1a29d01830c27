use std::sync::atomic::Ordering;

use drawloom_contract::{
    record::{Body, Status, StopReason},
    runs::Interest,
};
use serde_json::json;

use crate::house::{House, Plan, ask};

#[tokio::test]
async fn at_max_iterations_the_model_gets_one_last_turn_without_tools() {
    let rules = json!([{ "when": { "tools": false }, "text": "summing up" }, { "calls": [{ "tool": "Probe" }] }]);
    let house = House::new(Plan::new(rules).agent("alice", |agent| agent.max_iterations = 3));
    let view = house.run("alice", "x").await;
    assert_eq!((view.status, view.stop_reason), (Status::Completed, Some(StopReason::MaxIterations)));
    assert_eq!(view.final_text.as_deref(), Some("summing up"));
    assert_eq!(view.warnings, ["max_iterations (3) reached: the model wrote a final turn without tools"]);
    assert_eq!(house.meter.calls.load(Ordering::SeqCst), 4);
    assert_eq!(house.probed.lock().expect("no panic while held").len(), 3);
}

#[tokio::test]
async fn a_cut_stream_is_asked_again_and_a_failure_that_stays_ends_the_run() {
    let rules = json!([
        { "when": { "agent": "alice", "attempt": 1 }, "text": "abc", "chunks": 3, "fail": { "kind": "cut", "after_chunks": 2 } },
        { "when": { "agent": "bob" }, "fail": { "kind": "cut" } },
        { "when": { "agent": "carol" }, "fail": { "kind": "auth", "message": "no such key" } },
        { "text": "fine" } ]);
    let house = House::new(Plan::new(rules).agent("bob", |agent| agent.retry_attempts = 1));
    assert_eq!(house.run("alice", "x").await.final_text.as_deref(), Some("fine"));
    let bob = house.run("bob", "x").await;
    assert_eq!((bob.status, bob.error.expect("an error").code.as_str()), (Status::Failed, "model_stream_cut"));
    let carol = house.run("carol", "x").await;
    let error = carol.error.expect("an error");
    assert_eq!(
        (error.code.as_str(), error.message.as_str()),
        ("model_auth", "the provider rejected the API key: no such key")
    );
    assert_eq!(house.meter.calls.load(Ordering::SeqCst), 2 + 2 + 1);
}

#[tokio::test]
async fn throttling_parks_the_run_off_its_slot_and_never_fails_it() {
    let throttle = |attempt: u32| json!({ "when": { "agent": "alice", "attempt": attempt }, "fail": { "kind": "throttled", "retry_after_ms": 30 } });
    let rules = json!([throttle(1), throttle(2), throttle(3), { "text": "at last" }]);
    let plan = Plan::new(rules).agent("alice", |agent| agent.retry_attempts = 0);
    let house = House::new(plan.config(|config| config.max_concurrent_runs = 1));
    let waiting = house.start(ask("alice", "x"), Interest::Outcome).await;
    house.until(&waiting.view.key(), |view| view.status == Status::Waiting).await;
    assert_eq!(house.run("bob", "y").await.final_text.as_deref(), Some("at last"), "the slot is free meanwhile");
    let view = house.finish(waiting).await;
    assert_eq!((view.status, view.final_text.as_deref()), (Status::Completed, Some("at last")));
    let parked = house
        .journal(&view)
        .await
        .iter()
        .filter(|record| matches!(&record.body, Body::Parked { wait } if wait.until.is_some()))
        .count();
    assert_eq!(parked, 3);
}

#[tokio::test]
async fn a_deadline_ends_a_run_in_flight_queued_or_parked_with_all_below_it() {
    let rules = json!([
        { "when": { "agent": "alice", "turn": 1 }, "calls": [{ "tool": "Agent", "input": { "name": "bob", "prompt": "p" } }] },
        { "text": "late", "delay_ms": 60_000 } ]);
    let house = House::new(Plan::new(rules).config(|config| config.max_concurrent_runs = 1));
    let timed = |agent: &str| {
        let mut start = ask(agent, "x");
        start.timeout_ms = Some(150);
        start
    };
    let parked = house.start(timed("alice"), Interest::Outcome).await;
    let queued = house.start(timed("carol"), Interest::Outcome).await;
    let parked = house.finish(parked).await;
    for view in [&parked, &house.children(&parked).await[0], &house.finish(queued).await] {
        let error = view.error.clone().expect("an error");
        assert!(matches!(view.status, Status::TimedOut) || error.code == "parent_ended", "{view:?}");
    }
    let own = house.start(timed("bob"), Interest::Outcome).await;
    let own = house.finish(own).await;
    assert_eq!((own.status, own.error.expect("an error").code.as_str()), (Status::TimedOut, "timeout"));
}

#[tokio::test]
async fn run_timeout_counts_from_the_first_slot_and_queue_timeout_only_until_it() {
    let rules = json!([{ "text": "x", "delay_ms": 120 }]);
    let house = House::new(Plan::new(rules.clone()).config(|config| config.max_concurrent_runs = 1));
    let mut start = ask("alice", "x");
    start.run_timeout_ms = Some(200);
    let first = house.start(start.clone(), Interest::Outcome).await;
    let second = house.start(start.clone(), Interest::Outcome).await;
    assert_eq!(house.finish(first).await.status, Status::Completed);
    assert_eq!(house.finish(second).await.status, Status::Completed, "the wait for a slot is not counted");
    start.run_timeout_ms = Some(20);
    assert_eq!(house.finish(house.start(start, Interest::Outcome).await).await.status, Status::TimedOut);

    let plan = Plan::new(rules).config(|config| (config.max_concurrent_runs, config.queue_timeout_ms) = (1, 40));
    let house = House::new(plan);
    let first = house.start(ask("alice", "x"), Interest::Outcome).await;
    let second = house.start(ask("alice", "x"), Interest::Outcome).await;
    let second = house.finish(second).await;
    assert_eq!((second.status, second.error.expect("an error").code.as_str()), (Status::TimedOut, "queue_timeout"));
    assert_eq!(second.started_at, None);
    assert_eq!(house.finish(first).await.status, Status::Completed);
}
