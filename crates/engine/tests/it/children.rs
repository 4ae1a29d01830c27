use std::sync::atomic::Ordering;

use drawloom_contract::{
    record::Status,
    runs::{Interest, OnRefusal, RetryStart, Runs},
};
use serde_json::{Value, json};

use crate::house::{House, Plan, ask};

fn fan_out(count: usize) -> Value {
    let spawns: Vec<Value> = (0..count).map(|i| json!({ "name": "bob", "prompt": format!("slice {i}") })).collect();
    json!([
        { "when": { "agent": "alice", "turn": 1 }, "calls": [{ "tool": "Agent", "input": { "op": "parallel_spawn", "spawns": spawns } }] },
        { "when": { "agent": "alice" }, "text": "{{last}}" },
        { "when": { "contains": "slice 2" }, "fail": { "kind": "refused" } },
        { "text": "did {{prompt}}", "delay_ms": 5 },
    ])
}

#[tokio::test]
async fn a_parent_is_parked_while_its_children_work_and_gets_all_results_by_index() {
    let house = House::new(Plan::new(fan_out(5)).config(|config| config.max_concurrent_runs = 2));
    let view = house.run("alice", "go").await;
    let results: Value = serde_json::from_str(view.final_text.as_deref().expect("a text")).expect("JSON");
    let results = results["results"].as_array().expect("results");
    assert_eq!(results.len(), 5);
    for (index, result) in results.iter().enumerate() {
        assert_eq!(result["index"], json!(index));
        match index {
            2 => assert_eq!(result["error"], "failed: the model refused: scripted failure (model_refused)"),
            _ => assert_eq!(result["output"], format!("did slice {index}")),
        }
    }
    assert_eq!(
        house.kinds(&view).await,
        [
            "accepted",
            "admitted",
            "turn_started",
            "turn_done",
            "usage",
            "call_started",
            "call_waiting",
            "parked",
            "admitted",
            "call_done",
            "turn_started",
            "turn_done",
            "usage",
            "finished"
        ]
    );
    assert!(house.meter.most.load(Ordering::SeqCst) <= 2);
    assert_eq!(*house.meter.roots.lock().expect("no panic"), [view.run].into(), "children name the root of their tree");
}

#[tokio::test]
async fn a_tree_three_deep_behind_a_gate_of_one_finishes() {
    let spawn = |name: &str| json!([{ "tool": "Agent", "input": { "name": name, "prompt": "down" } }]);
    let rules = json!([
        { "when": { "agent": "alice", "turn": 1 }, "calls": spawn("bob") },
        { "when": { "agent": "bob", "turn": 1 }, "calls": spawn("carol") },
        { "when": { "agent": "carol", "turn": 1 }, "calls": spawn("dora") },
        { "when": { "agent": "dora", "turn": 1 }, "calls": spawn("dora") },
        { "text": "{{agent}} < {{last}}" },
    ]);
    let plan = Plan::new(rules).agent("dora", |_| {}).config(|config| config.max_concurrent_runs = 1);
    let house = House::new(plan);
    let view = house.run("alice", "go").await;
    let text = view.final_text.expect("a text");
    assert!(text.ends_with("too_deep: this run is at the maximum spawn depth (3); do the work here instead"), "{text}");
    assert_eq!(house.meter.most.load(Ordering::SeqCst), 1);
    assert_eq!(house.meter.calls.load(Ordering::SeqCst), 8);
}

#[tokio::test]
async fn the_gate_says_whom_an_agent_may_spawn_and_one_bad_entry_fails_alone() {
    let spawns = json!([{ "name": "bob", "prompt": "p" }, { "name": "carol", "prompt": "p" }]);
    let rules = json!([
        { "when": { "agent": "alice", "turn": 1 }, "calls": [{ "tool": "Agent", "input": { "op": "parallel_spawn", "spawns": spawns } }] },
        { "when": { "agent": "bob" }, "text": "did it" },
        { "text": "{{last}}" } ]);
    let house = House::new(Plan::new(rules).agent("alice", |agent| agent.agents = vec!["b*".into()]));
    let view = house.run("alice", "go").await;
    let told: Value = serde_json::from_str(view.final_text.as_deref().expect("a text")).expect("JSON");
    assert_eq!(told["results"][0]["output"], "did it");
    let why = "failed: this agent is not allowed to spawn \"carol\"; allowed agents: b* (agent_not_allowed)";
    assert_eq!((&told["results"][1]["ok"], &told["results"][1]["error"]), (&json!(false), &json!(why)));
    let children = house.children(&view).await;
    assert_eq!((children.len(), children[1].status), (2, Status::Failed));
    // One alone is an error of the call, and nothing is started.
    let alone = json!([
        { "when": { "agent": "alice", "turn": 1 }, "calls": [{ "tool": "Agent", "input": { "name": "carol", "prompt": "p" } }] },
        { "text": "{{last}}" } ]);
    let house = House::new(Plan::new(alone).agent("alice", |agent| agent.agents = vec!["b*".into()]));
    let view = house.run("alice", "go").await;
    let why = "spawns[0]: this agent is not allowed to spawn \"carol\"; allowed agents: b*";
    assert_eq!(view.final_text.as_deref(), Some(why));
    assert!(house.children(&view).await.is_empty());
}

#[tokio::test]
async fn a_call_whose_children_are_all_refused_goes_on_at_once() {
    let spawns = json!([{ "name": "carol", "prompt": "p" }, { "name": "nobody", "prompt": "p" }]);
    let rules = json!([
        { "when": { "agent": "alice", "turn": 1 }, "calls": [{ "tool": "Agent", "input": { "op": "parallel_spawn", "spawns": spawns } }] },
        { "text": "{{last}}" } ]);
    let house = House::new(Plan::new(rules).agent("alice", |agent| agent.agents = vec!["b*".into(), "n*".into()]));
    let view = house.run("alice", "go").await;
    let told: Value = serde_json::from_str(view.final_text.as_deref().expect("a text")).expect("JSON");
    let errors: Vec<_> = told["results"].as_array().expect("results").iter().map(|one| one["error"].clone()).collect();
    let carol = "failed: this agent is not allowed to spawn \"carol\"; allowed agents: b*, n* (agent_not_allowed)";
    assert_eq!(errors, [json!(carol), json!("failed: unknown agent \"nobody\" (unknown_agent)")]);
    assert!(house.engine.replay(&house.caller, view.run).await.expect("a replay").ok);
    // What a gate refused does not come into the tree by a retry.
    let refused = house.children(&view).await.remove(0);
    let retry = RetryStart { run: refused.run, completed: false };
    let again = house.engine.retry(&house.caller, retry, None, Interest::None).await;
    assert_eq!(again.err().map(|failure| failure.code), Some("never_started"));
}

#[tokio::test]
async fn two_waiting_calls_and_a_slow_tool_of_one_turn_all_come_back() {
    let spawn = |name: &str| json!({ "tool": "Agent", "input": { "name": name, "prompt": "p" } });
    let rules = json!([
        { "when": { "agent": "alice", "turn": 1 }, "calls": [spawn("bob"), { "tool": "Probe", "input": { "ms": 40, "say": "x" } }, spawn("carol")] },
        { "when": { "agent": "alice" }, "text": "{{last}}" },
        { "text": "from {{agent}}" } ]);
    let house = House::new(Plan::new(rules));
    let view = house.run("alice", "go").await;
    let text = view.final_text.expect("a text");
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[0].ends_with(": from bob") && lines[1] == "probed x" && lines[2].ends_with(": from carol"),
        "{lines:?}"
    );
}

#[tokio::test]
async fn what_the_root_request_left_holds_for_the_whole_tree() {
    let rules = json!([
        { "when": { "agent": "alice", "turn": 1 }, "calls": [{ "tool": "Agent", "input": { "name": "bob", "prompt": "p" } }] },
        { "when": { "agent": "bob", "turn": 1 }, "calls": [{ "tool": "Probe" }] },
        { "text": "{{last}}" } ]);
    let house = House::new(Plan::new(rules));
    let mut start = ask("alice", "x");
    start.tools = Some(vec!["Agent".into()]);
    let view = house.finish(house.start(start, Interest::Outcome).await).await;
    assert!(view.final_text.expect("a text").ends_with("unknown tool \"Probe\"; this agent's tools: Agent"));
    assert!(house.probed.lock().expect("no panic while held").is_empty());
}

#[tokio::test]
async fn a_batch_is_accepted_whole_or_refused_whole() {
    let house = House::new(Plan::new(json!([{ "text": "{{prompt}}" }])).config(|config| config.max_queue_depth = 4));
    let starts = |count: usize| (0..count).map(|i| ask("alice", &i.to_string())).collect::<Vec<_>>();
    let mut bad = starts(3);
    bad[1].agent = "nobody".parse().expect("a name");
    let refused = house
        .engine
        .start_batch(&house.caller, bad, OnRefusal::RefuseAll, None, Interest::None)
        .await
        .err()
        .expect("refused");
    assert_eq!((refused.code, refused.message.as_str()), ("unknown_agent", "spawns[1]: unknown agent \"nobody\""));
    let refused = house
        .engine
        .start_batch(&house.caller, starts(32), OnRefusal::RefuseAll, None, Interest::None)
        .await
        .err()
        .expect("refused");
    assert_eq!(refused.code, "backpressure");
    assert!(house.store.stats().entries == 0, "nothing was written");
    let batch = house
        .engine
        .start_batch(&house.caller, starts(12), OnRefusal::RefuseAll, None, Interest::Outcome)
        .await
        .expect("accepted");
    let id = batch.batch;
    for (index, started) in batch.runs.into_iter().enumerate() {
        let view = house.finish(started).await;
        assert_eq!((view.status, view.final_text), (Status::Completed, Some(index.to_string())));
    }
    let members = house.engine.load_batch(&house.caller, id).await.expect("the batch");
    assert_eq!(members.len(), 12);
}
