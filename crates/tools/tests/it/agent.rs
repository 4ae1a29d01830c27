use drawloom_contract::{
    record::Collect,
    runs::Start,
    tool::{Step, ToolError},
};
use serde_json::json;

use crate::support::Room;

#[tokio::test]
async fn agent_waits_for_whom_it_names_and_refuses_what_is_neither_form() {
    let room = Room::new();
    let child = |name: &str, prompt: &str| Start::new(name.parse().expect("a name"), prompt);
    let one = room.call("Agent", json!({ "name": "a", "prompt": "p" })).await;
    assert_eq!(one, Ok(Step::Spawn { starts: vec![child("a", "p")], collect: Collect::One }));
    let spawns = json!([{ "name": "a", "prompt": "p" }, { "name": "b", "prompt": "q" }]);
    let many = room.call("Agent", json!({ "op": "parallel_spawn", "spawns": spawns })).await;
    let starts = vec![child("a", "p"), child("b", "q")];
    assert_eq!(many, Ok(Step::Spawn { starts, collect: Collect::Many }));
    for bad in [
        json!({}),
        json!({ "name": "a" }),
        json!({ "name": "a b", "prompt": "p" }),
        json!({ "name": "a", "prompt": "" }),
        json!({ "op": "parallel_spawn", "spawns": [] }),
        json!({ "op": "spawn", "spawns": spawns }),
        json!({ "name": "a", "prompt": "p", "extra": 1 }),
        json!("text"),
    ] {
        assert!(matches!(room.call("Agent", bad.clone()).await, Err(ToolError::Invalid(_))), "{bad}");
    }
}
