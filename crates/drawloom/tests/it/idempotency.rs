//! The answer of a request with a key outlives its process.

use serde_json::json;

use crate::{
    mcp::client::{Client, Era},
    support::Home,
};

#[test]
fn a_cancel_is_answered_as_the_first_time_by_the_next_process_and_over_every_surface() {
    let home = Home::new();
    let server = home.serve();
    let run = home.run(&["call", "spawn_run", "agent=echo", "prompt=slow", "mode=detach"]).exits(0).json();
    let run = format!("run_id={}", run["run_id"].as_str().expect("an id"));
    let cancel = ["call", "cancel_run", run.as_str(), "reason=enough", "idempotency_key=k"];
    let first = home.run(&cancel).exits(0).json();
    assert_eq!(first["cancelled"], true);
    assert_eq!(home.run(&cancel).exits(0).json(), first);
    drop(server);
    // Without a server the command itself owns the data.
    assert_eq!(home.run(&cancel).exits(0).json(), first);
    let server = home.serve();
    let client = Client::new(&server.url, Era::Stateless);
    let run = first["run_id"].clone();
    let over_mcp = client.call("cancel_run", json!({ "run_id": run, "reason": "enough", "idempotency_key": "k" }));
    let fields = over_mcp["structuredContent"].as_object().expect("a value");
    assert!(fields.len() > 3 && fields.iter().all(|(name, value)| first[name] == *value), "{over_mcp}");
    let other = home.run(&["call", "cancel_run", "agent_id=x", "idempotency_key=k"]).exits(2).json();
    assert_eq!(other["error"]["code"], "idempotency_key_reused");
}
