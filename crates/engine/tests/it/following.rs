use drawloom_contract::{
    model::DeltaKind,
    runs::{Interest, Item, Runs},
};
use futures::StreamExt;
use serde_json::json;

use crate::house::{House, Plan, ask};

#[tokio::test]
async fn a_follower_that_begins_anywhere_sees_each_record_once_and_the_end_once() {
    let rules = json!([{ "when": { "turn": 1 }, "text": "a b c d", "chunks": 4, "calls": [{ "tool": "Probe" }] }, { "text": "e f" }]);
    let house = House::new(Plan::new(rules));
    let started = house.start(ask("alice", "x"), Interest::Events).await;
    let run = started.view.run;
    let live: Vec<Item> = started.live.expect("events").map(|item| item.expect("no failure")).collect().await;
    let seqs = |items: &[Item]| {
        items
            .iter()
            .filter_map(|item| match item {
                Item::Record(record) => Some(record.seq),
                _ => None,
            })
            .collect::<Vec<u64>>()
    };
    let last = *seqs(&live).last().expect("records");
    assert_eq!(seqs(&live), (1..=last).collect::<Vec<_>>());
    assert!(matches!(live.last(), Some(Item::Ended(view)) if view.seq == last));
    let text: String = live
        .iter()
        .filter_map(|item| match item {
            Item::Delta(delta) if delta.turn == 1 && delta.kind == DeltaKind::Text => Some(&*delta.text),
            _ => None,
        })
        .collect();
    assert_eq!(text, "a b c d");
    for after in 0..=last {
        let items: Vec<Item> = house
            .engine
            .follow(&house.caller, run, after, Interest::Events)
            .await
            .expect("a run")
            .map(|item| item.expect("no failure"))
            .collect()
            .await;
        assert_eq!(seqs(&items), (after + 1..=last).collect::<Vec<_>>());
        assert_eq!(items.iter().filter(|item| matches!(item, Item::Ended(_))).count(), 1);
    }
    assert!(house.engine.follow(&house.caller, run, last + 1, Interest::Events).await.is_err());
}

#[tokio::test]
async fn a_slow_follower_loses_deltas_and_never_a_record() {
    let words = "word ".repeat(2_000);
    let rules = json!([
        { "when": { "turn": 1 }, "text": words, "chunks": 2_000, "calls": [{ "tool": "Probe" }] },
        { "when": { "turn": 2 }, "text": words, "chunks": 2_000 } ]);
    let house = House::new(Plan::new(rules));
    let started = house.start(ask("alice", "x"), Interest::Events).await;
    let mut slow = started.live.expect("events");
    let ended = house.engine.wait(&house.caller, started.view.run, None).await.expect("an end");
    let mut seqs = Vec::new();
    while let Some(item) = slow.next().await {
        if let Item::Record(record) = item.expect("no failure") {
            seqs.push(record.seq);
        }
    }
    assert_eq!(seqs, (1..=ended.seq).collect::<Vec<_>>());
}
