use drawloom_contract::{
    model::TurnError,
    money::Cost,
    record::{Body, Status, StopReason},
    runs::{Interest, Runs as _, Start},
    view::RunView,
};
use serde_json::{Value, json};

use crate::{
    house::{House, Plan, ask},
    providers::{Bearing, price},
};

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

/// Fifty children that want 900 tokens each, under a budget of money for the whole tree.
async fn fan_out(budget: Cost) -> (House, RunView, Vec<RunView>) {
    let spawns = |count: usize| {
        let spawns: Vec<Value> = (0..count).map(|i| json!({ "name": "bob", "prompt": format!("p{i}") })).collect();
        json!({ "tool": "Agent", "input": { "op": "parallel_spawn", "spawns": spawns } })
    };
    let rules = json!([{ "when": { "turn": 1 }, "calls": [spawns(25), spawns(25)] }, { "text": "all is done" }]);
    let model = Bearing::new(1_000, || TurnError::Cut { message: "never".into() });
    let plan = Plan::new(rules)
        .config(|config| config.max_concurrent_runs = 60)
        .provider("dear", model)
        .priced("script", "scripted", price())
        .agent("bob", |agent| {
            agent.provider = "dear".into();
            agent.max_tokens = Some(900);
            agent.tools = vec![];
        });
    let house = House::new(plan);
    let mut start = ask("alice", "x");
    start.budget_cost = Some(budget);
    let view = house.finish(house.start(start, Interest::Outcome).await).await;
    let children = house.children(&view).await;
    (house, view, children)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_children_at_once_never_spend_or_set_aside_more_than_the_tree_has() {
    // Enough for all of them one after the other, but not for what all would set aside at once.
    let enough = Cost(900_000_000);
    let (house, view, children) = fan_out(enough).await;
    assert_eq!(children.len(), 50);
    assert!(children.iter().all(|child| child.status == Status::Completed), "{:?}", children[0].error);
    assert_eq!(view.status, Status::Completed, "{:?}", view.error);
    check_money(&house, &view, &children, enough).await;

    let little = Cost(200_000_000);
    let (house, view, children) = fan_out(little).await;
    let broke = |child: &&RunView| child.error.as_ref().is_some_and(|error| error.code == "budget_exhausted");
    assert!(children.iter().filter(broke).count() > 10);
    assert!(children.iter().any(|child| child.status == Status::Completed));
    assert!(children.iter().all(|child| child.status == Status::Completed || broke(&child)));
    check_money(&house, &view, &children, little).await;
}

/// At no moment is more spent and set aside together than the tree may spend.
async fn check_money(house: &House, view: &RunView, children: &[RunView], budget: Cost) {
    let mut moments = Vec::new();
    for run in children.iter().chain([view]) {
        let mut reserved = 0;
        for record in house.journal(run).await {
            match record.body {
                Body::TurnStarted(started) => {
                    reserved = started.reserved_cost.unwrap_or_default().0;
                    moments.push((record.at, 1, i128::from(reserved)));
                }
                Body::Usage { cost, .. } => {
                    moments.push((record.at, 0, i128::from(cost.expect("a price").0) - i128::from(reserved)));
                }
                _ => {}
            }
        }
    }
    // What ends and what begins in the same millisecond: nobody can say which came first, so ends come first.
    moments.sort_unstable();
    let mut total = 0;
    for (at, _, change) in moments {
        total += change;
        assert!(total <= i128::from(budget.0), "{total} at {at:?}");
    }
    let spent = house.engine.total(&house.caller, view.run).await.expect("a tree").spent;
    assert_eq!(i128::from(spent.cost.0), total);
}

#[tokio::test]
async fn a_budget_in_money_needs_a_price() {
    let house = House::new(Plan::new(json!([{ "text": "x" }])));
    let mut start = ask("alice", "x");
    start.budget_cost = Some(Cost(1_000));
    let failure = house.engine.start(&house.caller, start, None, Interest::None).await.map(drop).expect_err("refused");
    assert_eq!(failure.code, "unpriced_model");
}

#[tokio::test]
async fn what_nobody_says_the_cost_of_is_taken_as_spent() {
    let rules = json!([
        { "when": { "agent": "alice", "turn": 1, "attempt": 1 }, "fail": { "kind": "cut", "message": "gone" } },
        { "when": { "agent": "bob" }, "text": "silent", "usage": {} },
        { "text": "words", "usage": { "input_tokens": 2, "output_tokens": 3 } } ]);
    let plan = Plan::new(rules)
        .agent("alice", |agent| agent.max_tokens = Some(50))
        .agent("bob", |agent| agent.max_tokens = Some(50));
    let house = House::new(plan);
    let run = async |agent: &str, budget: Option<u64>| {
        let mut start = ask(agent, "x");
        start.budget_tokens = budget;
        house.finish(house.start(start, Interest::Outcome).await).await
    };
    // What was set aside for an interrupted turn, and what a finished one likely took.
    for (agent, expected) in [("alice", 56..10_000), ("bob", 2..50)] {
        let view = run(agent, Some(10_000)).await;
        assert_eq!(view.status, Status::Completed, "{:?}", view.error);
        assert!(expected.contains(&view.usage.total()), "{agent} {:?}", view.usage);
        assert_eq!(view.assumed, Some(Cost(0)), "{agent}");
        let kinds = house.kinds(&view).await;
        assert_eq!(kinds.iter().filter(|kind| **kind == "notice").count(), 1, "{kinds:?}");
    }
    // Without a budget nothing is set aside for what was interrupted.
    assert_eq!(run("alice", None).await.usage.total(), 5);
    let estimated = run("bob", None).await;
    assert_eq!(estimated.usage, run("bob", Some(10_000)).await.usage);
    assert_eq!(house.kinds(&estimated).await.iter().filter(|kind| **kind == "notice").count(), 1);
}

/// A stream that breaks may be charged for, and no usage comes with it.
#[tokio::test]
async fn a_priced_turn_whose_stream_broke_has_its_estimated_cost_with_any_budget_and_without() {
    let broken = Bearing::new(0, || TurnError::Cut { message: "it broke".into() });
    let plan = Plan::new(json!([])).provider("dear", broken).agent("alice", |agent| {
        agent.provider = "dear".into();
        agent.max_tokens = Some(100);
        agent.retry_attempts = 1;
    });
    let house = House::new(plan);
    let without = ask("alice", "x");
    let of_tokens = Start { budget_tokens: Some(1_000_000), ..ask("alice", "x") };
    let of_money = Start { budget_cost: Cost::from_units(10.0), ..ask("alice", "x") };
    let mut costs = Vec::new();
    for start in [without, of_tokens, of_money] {
        let view = house.finish(house.start(start, Interest::Outcome).await).await;
        assert_eq!(view.status, Status::Failed);
        let cost = view.cost.expect("an estimate");
        // Two tries, each with 100 tokens to write and some to read.
        assert!(cost > Cost(2 * 100 * 15_000), "{cost:?}");
        assert_eq!(view.assumed, Some(cost));
        let total = house.engine.total(&house.caller, view.run).await.expect("sums");
        assert_eq!((total.spent.cost, total.assumed), (cost, Some(cost)));
        assert!(house.engine.replay(&house.caller, view.run).await.expect("a replay").ok);
        costs.push(cost);
    }
    assert_eq!((costs[0], costs[1]), (costs[2], costs[2]));
}
