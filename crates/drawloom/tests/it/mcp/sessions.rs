//! Sessions of the older protocol, through restarts of the server.

use serde_json::{Value, json};

use super::{
    client::{Client, Era},
    home, runs,
};

#[test]
fn a_session_goes_on_after_the_server_was_killed_and_started_again() {
    let home = home();
    let server = home.serve();
    let client = Client::open(&server.url, Era::Sessions);
    let closed = Client::open(&server.url, Era::Sessions);
    assert_eq!(closed.send_as("DELETE", None).status, 202);
    let call = client.begin(1, "spawn_run", json!({ "agent": "later", "prompt": "x" }), json!({}));
    while runs(&server.url).is_empty() {}
    server.kill();
    drop(call);

    let server = home.serve();
    let client = client.moved(&server.url);
    let answers: Vec<Value> = std::thread::scope(|scope| {
        let client = &client;
        let ask = |id| move || client.send(&client.request(id, "tools/list", json!({}))).answer();
        let asked: Vec<_> = (100..108).map(|id| scope.spawn(ask(id))).collect();
        asked.into_iter().map(|asked| asked.join().expect("an answer")).collect()
    });
    assert!(answers.iter().all(|answer| answer["result"]["tools"].as_array().is_some_and(|tools| tools.len() == 8)));
    let id = runs(&server.url)[0]["run_id"].clone();
    let late = client.call("get_run", json!({ "run_id": id, "wait_ms": 20_000 }));
    assert_eq!(late["structuredContent"]["final_text"], "later: x");

    let closed = closed.moved(&server.url);
    assert_eq!(closed.send(&closed.request(1, "tools/list", json!({}))).status, 404);
    let mut invented = client.clone();
    invented.session = Some("00000000-0000-4000-8000-000000000000".into());
    assert_eq!(invented.send(&invented.request(1, "tools/list", json!({}))).status, 404);
}
