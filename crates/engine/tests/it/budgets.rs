use drawloom_contract::{
    record::{Status, StopReason},
    runs::Interest,
};
use serde_json::{Value, json};

use crate::house::{House, Plan, ask};

#[tokio::test]
async fn at_the_budget_the_model_gets_one_last_turn_and_without_even_that_the_run_fails() {
    let usage = json!({ "input_tokens": 10, "output_tokens": 200 });
    let rules = json!([
        { "when": { "tools": false }, "text": "last words", "usage": { "output_tokens": 10 } },
        { "calls": [{ "tool": "Probe" }], "usage": usage } ]);
    let house = House::new(Plan::new(rules).agent("alice", |agent| agent.max_tokens = Some(200)));
    let mut start = ask("alice", "x");
    start.budget_tokens = Some(1_000);
    let view = house.finish(house.start(start.clone(), Interest::Outcome).await).await;
    assert_eq!((view.status, view.stop_reason), (Status::Completed, Some(StopReason::Budget)));
    assert_eq!(view.final_text.as_deref(), Some("last words"));
    assert!(view.usage.total() <= 1_000 && view.usage.total() > 400, "{:?}", view.usage);
    start.budget_tokens = Some(5);
    let view = house.finish(house.start(start, Interest::Outcome).await).await;
    assert_eq!((view.status, view.error.expect("an error").code.as_str()), (Status::Failed, "budget_exhausted"));
}

#[tokio::test]
async fn a_tree_never_spends_more_than_its_root_may() {
    let spawns: Vec<Value> = (0..20).map(|i| json!({ "name": "bob", "prompt": format!("p{i}") })).collect();
    let rules = json!([
        { "when": { "agent": "alice", "turn": 1 }, "calls": [{ "tool": "Agent", "input": { "op": "parallel_spawn", "spawns": spawns } }] },
        { "text": "words", "delay_ms": 5, "usage": { "input_tokens": 2, "output_tokens": 60 } } ]);
    let house = House::new(Plan::new(rules).agent("bob", |agent| agent.max_tokens = Some(60)));
    let mut start = ask("alice", "x");
    start.budget_tokens = Some(900);
    let view = house.finish(house.start(start, Interest::Outcome).await).await;
    let children = house.children(&view).await;
    let spent: u64 = children.iter().chain([&view]).map(|run| run.usage.total()).sum();
    assert!(spent <= 900, "{spent}");
    assert!(children.iter().any(|child| child.status == Status::Completed));
    assert!(children.iter().any(|child| child.error.as_ref().is_some_and(|error| error.code == "budget_exhausted")));
}
