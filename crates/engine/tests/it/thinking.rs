use std::sync::Arc;

use drawloom_contract::record::{Body, Notice, Status};
use serde_json::json;

use crate::{
    house::{House, Plan},
    providers::{Thinker, card},
};

#[tokio::test]
async fn a_signed_thought_with_a_secret_is_kept_without_text_and_not_replayed() {
    let model = Arc::new(Thinker {
        name: "deep",
        refuses: Default::default(),
        last_turn: 3,
        card: card(),
        seen: Default::default(),
    });
    let mut plan = Plan::new(json!([])).provider("deep", model).agent("alice", |agent| agent.provider = "deep".into());
    plan.secrets = vec!["thought 2".into()];
    let house = House::new(plan);
    let view = house.run("alice", "think").await;
    assert_eq!(view.status, Status::Completed, "{:?}", view.error);
    let records = house.journal(&view).await;
    let thoughts: Vec<String> = records
        .iter()
        .filter_map(|record| match &record.body {
            Body::TurnDone(done) => Some(done.thoughts.iter().map(|thought| thought.text.as_str()).collect()),
            _ => None,
        })
        .collect();
    assert_eq!(thoughts, ["thought 1", "", "thought 3"]);
    let notices: Vec<Notice> = records
        .iter()
        .filter_map(|record| match &record.body {
            Body::Notice { notice, .. } => Some(*notice),
            _ => None,
        })
        .collect();
    assert_eq!(notices, [Notice::ReasoningMasked]);
    let all = format!("{records:?}");
    assert!(!all.contains("thought 2") && !all.contains("deep/scripted/2"), "{all}");
}
