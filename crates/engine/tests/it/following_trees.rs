use std::collections::{BTreeMap, BTreeSet};

use drawloom_contract::{
    ids::RunId,
    journal::Placed,
    record::Body,
    runs::{Interest, Item, Runs},
};
use futures::StreamExt;
use serde_json::{Value, json};

use crate::house::{House, Plan, ask};

/// alice starts three bobs, one of which fails; the first bob starts carol.
fn team() -> Value {
    let spawns: Vec<Value> = (0..3).map(|i| json!({ "name": "bob", "prompt": format!("slice {i}") })).collect();
    json!([
        { "when": { "agent": "alice", "turn": 1 }, "text": "a b c", "chunks": 3,
          "calls": [{ "tool": "Agent", "input": { "op": "parallel_spawn", "spawns": spawns } }] },
        { "when": { "agent": "alice" }, "text": "all are back" },
        { "when": { "contains": "slice 2" }, "fail": { "kind": "refused" } },
        { "when": { "contains": "slice 0", "turn": 1 }, "calls": [{ "tool": "Agent", "input": { "name": "carol", "prompt": "help" } }] },
        { "text": "did {{prompt}}", "delay_ms": 5 },
    ])
}

/// What was told: the records of each run by sequence, positions in order, and the runs whose end was told.
fn told(items: &[Placed<Item>]) -> (BTreeMap<RunId, Vec<u64>>, BTreeSet<RunId>) {
    let (mut records, mut ended, mut last) = (BTreeMap::<RunId, Vec<u64>>::new(), BTreeSet::new(), 0);
    for Placed { position, run, it } in items {
        match it {
            Item::Record(record) => {
                assert!(*position > last, "positions increase: {position} after {last}");
                last = *position;
                assert!(!ended.contains(run), "a record after the end of its run");
                records.entry(*run).or_default().push(record.seq);
            }
            Item::Ended(view) => {
                assert_eq!((view.run, *position), (*run, last), "the end has the position of the last record");
                assert!(ended.insert(*run), "each end is told once");
            }
            Item::Delta(_) | Item::Activity(_) => assert_eq!(*position, 0),
        }
    }
    (records, ended)
}

fn is_whole(records: &BTreeMap<RunId, Vec<u64>>) {
    for (run, seqs) in records {
        assert_eq!(*seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "{run}");
    }
}

#[tokio::test]
async fn a_tree_is_followed_in_the_order_of_the_journal_until_all_its_runs_have_ended() {
    let house = House::new(Plan::new(team()));
    // Another tree at the same time, of which nothing is told.
    let other = house.start(ask("alice", "other"), Interest::None).await.view.run;
    let run = house.start(ask("alice", "go"), Interest::None).await.view.run;
    let live = house.engine.follow_tree(&house.caller, run).await.expect("a run");
    let live: Vec<Placed<Item>> = live.map(|item| item.expect("no failure")).collect().await;
    let (records, ended) = told(&live);
    is_whole(&records);
    assert_eq!((records.len(), ended.len()), (5, 5), "alice, three bobs and carol");
    assert!(!records.contains_key(&other));
    // Who comes later is told the same.
    let again = house.engine.follow_tree(&house.caller, run).await.expect("a run");
    let again: Vec<Placed<Item>> = again.map(|item| item.expect("no failure")).collect().await;
    let shown = |items: &[Placed<Item>]| -> Vec<(u64, RunId)> {
        items.iter().filter(|item| item.position > 0).map(|item| (item.position, item.run)).collect()
    };
    assert_eq!(shown(&live), shown(&again));
    // A part of the tree is followed alone.
    let first = records.keys().copied().find(|child| {
        live.iter().any(|item| {
            item.run == *child
                && matches!(&item.it, Item::Record(record) if matches!(&record.body, Body::CallWaiting { .. }))
                && *child != run
        })
    });
    let part = house.engine.follow_tree(&house.caller, first.expect("a bob that waits")).await.expect("a run");
    let part: Vec<Placed<Item>> = part.map(|item| item.expect("no failure")).collect().await;
    let (records, ended) = told(&part);
    is_whole(&records);
    assert_eq!((records.len(), ended.len()), (2, 2), "a bob and its carol");
}

#[tokio::test]
async fn a_follower_that_reads_late_misses_no_record_of_the_tree() {
    let house = House::new(Plan::new(team()));
    let run = house.start(ask("alice", "go"), Interest::None).await.view.run;
    let mut live = house.engine.follow_tree(&house.caller, run).await.expect("a run");
    let first = live.next().await.expect("an item").expect("no failure");
    house.engine.wait(&house.caller, run, None).await.expect("an end");
    let mut items = vec![first];
    while let Some(item) = live.next().await {
        items.push(item.expect("no failure"));
    }
    let (records, ended) = told(&items);
    is_whole(&records);
    assert_eq!((records.len(), ended.len()), (5, 5));
}
