use drawloom_contract::{
    record::Collect,
    tool::{ChildStart, Step, ToolError, Wait},
};
use serde_json::json;

use crate::support::Room;

#[tokio::test]
async fn agent_waits_for_whom_it_names_and_refuses_what_is_neither_form() {
    let room = Room::new();
    let child = |name: &str, prompt: &str| ChildStart { agent: name.parse().expect("a name"), prompt: prompt.into() };
    let one = room.call("Agent", json!({ "name": "a", "prompt": "p" })).await;
    assert_eq!(one, Ok(Step::Wait(Wait::Children { starts: vec![child("a", "p")], collect: Collect::One })));
    let spawns = json!([{ "name": "a", "prompt": "p" }, { "name": "b", "prompt": "q" }]);
    let many = room.call("Agent", json!({ "op": "parallel_spawn", "spawns": spawns })).await;
    let starts = vec![child("a", "p"), child("b", "q")];
    assert_eq!(many, Ok(Step::Wait(Wait::Children { starts, collect: Collect::Many })));
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
