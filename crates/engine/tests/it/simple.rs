use drawloom_contract::{
    failure::FailureKind,
    ids::Digest,
    journal::RunFilter,
    record::{Body, Status, StopReason},
    runs::{Idempotency, Interest, Runs},
};
use futures::StreamExt;
use serde_json::json;

use crate::house::{House, Plan, ask};

#[tokio::test]
async fn a_simple_run_is_two_commits_and_six_records() {
    let house = House::new(Plan::new(json!([{ "text": "you said {{prompt}}" }])));
    let before = house.store.stats().entries;
    let view = house.run("alice", "hello").await;
    assert_eq!((view.status, view.final_text.as_deref()), (Status::Completed, Some("you said hello")));
    assert_eq!(view.stop_reason, Some(StopReason::EndTurn));
    assert_eq!(house.kinds(&view).await, ["accepted", "admitted", "turn_started", "turn_done", "usage", "finished"]);
    assert_eq!(house.store.stats().entries - before, 2);
    assert_eq!(house.engine.load(&house.caller, view.run).await.expect("the row"), view, "the row is the fold");
}

#[tokio::test]
async fn tools_of_a_turn_run_at_the_same_time_and_answer_in_call_order() {
    let calls = json!([
        { "tool": "Probe", "input": { "say": "slow", "ms": 60 } },
        { "tool": "Probe", "input": { "say": "fast" } },
        { "tool": "Nothing", "input": {} },
    ]);
    let house = House::new(Plan::new(json!([{ "when": { "turn": 1 }, "calls": calls }, { "text": "{{last}}" }])));
    let view = house.run("alice", "go").await;
    let expected = "probed slow\nprobed fast\nunknown tool \"Nothing\"; this agent's tools: Agent, Probe";
    assert_eq!(view.final_text.as_deref(), Some(expected));
    let done: Vec<u64> = house
        .journal(&view)
        .await
        .iter()
        .filter_map(|record| match &record.body {
            Body::CallDone(done) => Some(done.call),
            _ => None,
        })
        .collect();
    assert!(
        done.iter().position(|call| *call == done[0])
            < done.iter().position(|call| *call == *done.iter().min().expect("calls")),
        "the fast one ended first: {done:?}"
    );
}

#[tokio::test]
async fn a_panic_in_a_tool_fails_that_call_and_not_the_run() {
    let rules = json!([
        { "when": { "turn": 1 }, "calls": [{ "tool": "Probe", "input": { "panic": true } }] }, { "text": "{{last}}" } ]);
    let house = House::new(Plan::new(rules));
    let view = house.run("alice", "go").await;
    assert_eq!(view.status, Status::Completed);
    assert!(view.final_text.expect("a text").contains("panicked"));
}

#[tokio::test]
async fn the_same_key_is_the_same_run_also_at_the_same_time_and_another_body_is_refused() {
    let house = House::new(Plan::new(json!([{ "text": "hi", "delay_ms": 20 }])));
    let key =
        |body: &str| Some(Idempotency { operation: "spawn_run", key: "k".into(), body: Digest::of(body.as_bytes()) });
    let starts = (0..20).map(|_| house.engine.start(&house.caller, ask("alice", "x"), key("x"), Interest::Outcome));
    let started = futures::future::join_all(starts).await;
    let mut runs = Vec::new();
    for started in started {
        runs.push(house.finish(started.expect("accepted")).await);
    }
    assert!(runs.iter().all(|view| view.run == runs[0].run && view.status == Status::Completed));
    assert_eq!(house.meter.calls.load(std::sync::atomic::Ordering::SeqCst), 1);
    let other = house.engine.start(&house.caller, ask("alice", "y"), key("y"), Interest::None).await;
    let failure = other.err().expect("refused");
    assert_eq!((failure.kind, failure.code), (FailureKind::Conflict, "idempotency_key_reused"));
}

#[tokio::test]
async fn a_repeat_is_the_same_run_when_a_new_one_would_be_refused_and_takes_nobodys_place() {
    let house = House::new(Plan::new(json!([{ "text": "late", "delay_ms": 60_000 }])).config(|config| {
        config.max_concurrent_runs = 2;
        config.max_queue_depth = 0;
    }));
    let key = |name: &str| Idempotency { operation: "spawn_run", key: name.into(), body: Digest::of(name.as_bytes()) };
    let start = async |agent: &str, prompt: &str, name: &str| {
        let started = house.engine.start(&house.caller, ask(agent, prompt), Some(key(name)), Interest::None).await;
        started.map(|started| started.view.run).map_err(|failure| failure.code)
    };
    let first = start("alice", "long", "one").await.expect("accepted");
    let names = ["one", "one", "one", "two", "one"];
    let started = futures::future::join_all(names.map(|name| start("alice", "long", name))).await;
    for (name, started) in names.iter().zip(started) {
        let run = started.expect("there is a second place, also beside repeats");
        assert_eq!(run == first, *name == "one");
    }
    assert_eq!(start("alice", "long", "three").await, Err("backpressure"));
    assert_eq!(start("alice", "long", "one").await, Ok(first), "also when the queue is full");
    assert_eq!(start("nobody", "long", "one").await, Ok(first), "also when its agent is gone");
    let reused = Idempotency { body: Digest::of(b"another"), ..key("one") };
    let other = house.engine.start(&house.caller, ask("nobody", "x"), Some(reused), Interest::None).await;
    assert_eq!(other.err().expect("refused").code, "idempotency_key_reused");
}

#[tokio::test]
async fn requests_narrow_and_never_widen_and_say_so() {
    let rules = json!([{ "when": { "turn": 1 }, "calls": [{ "tool": "Probe" }] }, { "text": "{{last}}" }]);
    let house = House::new(Plan::new(rules).agent("alice", |agent| agent.max_iterations = 3));
    let mut start = ask("alice", "x");
    start.tools = Some(vec!["Agent".into(), "Bash".into()]);
    start.max_iterations = Some(99);
    let view = house.finish(house.start(start, Interest::Outcome).await).await;
    assert_eq!(view.final_text.as_deref(), Some("unknown tool \"Probe\"; this agent's tools: Agent"));
    assert_eq!(
        view.warnings,
        [
            "tools: `Bash` is not one of the agent's tools; ignored",
            "max_iterations: 99 requested, reduced to the agent's limit of 3"
        ]
    );
}

#[tokio::test]
async fn secrets_reach_neither_journal_nor_listeners_nor_the_model() {
    let secret = "hunter2-hunter2-hunter2";
    let rules = json!([
        { "when": { "turn": 1 }, "text": format!("the key is {secret} ok"), "chunks": 9,
          "calls": [{ "tool": "Probe", "input": { "say": secret } }] },
        { "text": "{{last}}" } ]);
    let mut plan = Plan::new(rules);
    plan.secrets = vec![secret.into()];
    let house = House::new(plan);
    let started = house.start(ask("alice", &format!("use {secret}")), Interest::Events).await;
    let (run, mut live) = (started.view.clone(), started.live.expect("events"));
    while let Some(item) = live.next().await {
        let shown = format!("{:?}", item.expect("no failure"));
        assert!(!shown.contains(secret), "{shown}");
    }
    assert_eq!(
        house.probed.lock().expect("no panic while held")[0]["say"],
        json!(secret),
        "the tool got the real input"
    );
    let journal = format!("{:?}", house.journal(&run).await);
    assert!(!journal.contains(secret) && journal.contains("[redacted]"), "{journal}");
    let view = house.engine.load(&house.caller, run.run).await.expect("the row");
    assert_eq!(view.final_text.as_deref(), Some("probed [redacted]"));
}

#[tokio::test]
async fn an_unknown_agent_is_refused_with_those_that_there_are() {
    let house = House::new(Plan::new(json!([])));
    let refused = house.engine.start(&house.caller, ask("dave", "x"), None, Interest::None).await;
    let failure = refused.err().expect("refused");
    assert_eq!((failure.kind, failure.code), (FailureKind::NotFound, "unknown_agent"));
    assert_eq!(failure.hint.as_deref(), Some("available: alice, bob, carol"));
}

#[tokio::test]
async fn a_replay_decides_today_what_was_decided_then() {
    let rules = json!([
        { "when": { "agent": "alice", "turn": 1, "attempt": 1 }, "text": "ab", "fail": { "kind": "cut" } },
        { "when": { "agent": "alice", "turn": 1 }, "calls": [
            { "tool": "Agent", "input": { "name": "bob", "prompt": "p" } }, { "tool": "Probe", "input": {} }] },
        { "text": "done" } ]);
    let house = House::new(Plan::new(rules));
    let view = house.run("alice", "x").await;
    let replay = house.engine.replay(&house.caller, view.run).await.expect("a replay");
    assert!(replay.ok && replay.same_version && replay.fold_error.is_none(), "{replay:?}");
    assert_eq!(replay.steps.len(), 6, "{replay:?}");
}

#[tokio::test]
async fn a_caller_who_goes_away_in_the_middle_of_accepting_leaves_a_whole_run_or_none() {
    let house = House::new(Plan::new(json!([{ "text": "done" }])));
    let mut start = house.engine.start(&house.caller, ask("alice", "x"), None, Interest::Outcome);
    assert!(futures::poll!(&mut start).is_pending(), "the commit takes a while");
    drop(start);
    // The next one is committed after it.
    let later = house.run("bob", "y").await;
    assert_eq!(later.status, Status::Completed);
    let filter = RunFilter { limit: 10, ..RunFilter::default() };
    let runs = house.engine.list(&house.caller, filter).await.expect("runs");
    assert_eq!(runs.len(), 2);
    for run in runs {
        let ended = house.engine.wait(&house.caller, run.run, None).await.expect("an end");
        assert_eq!(ended.status, Status::Completed);
    }
    let load = house.engine.load_now();
    assert_eq!((load.active, load.queued), (0, 0), "every slot came back");
}
