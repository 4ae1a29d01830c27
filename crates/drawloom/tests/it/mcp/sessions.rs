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

#[test]
fn a_call_over_plain_http_outlives_the_server() {
    let home = home();
    let server = home.serve();
    let client = Client::open(&server.url, Era::Sessions);
    let spawns = json!({ "spawns": [{ "agent": "later", "prompt": "a" }, { "agent": "later", "prompt": "b" }] });
    let mut call = client.begin(77, "spawn_runs", spawns, json!({ "progressToken": "tok" }));
    // Word of progress comes after the call was noted.
    assert_eq!(call.next().expect("word of progress")["method"], "notifications/progress");
    let seen =
        call.seen.lines().filter_map(|line| line.strip_prefix("id: ")).next_back().expect("an event's id").to_owned();
    server.kill();
    drop(call);

    let server = home.serve();
    let client = client.moved(&server.url);
    // What the official SDKs do when a stream breaks: they ask for the rest of it, more than once if need be.
    for _ in 0..2 {
        let path = format!("/mcp HTTP/1.1\r\nLast-Event-ID: {seen}\r\nX: y");
        let answer = client.clone().at(&path).send_as("GET", None).answer();
        assert_eq!(answer["id"], 77);
        let results = answer["result"]["structuredContent"]["results"].as_array().expect("results").clone();
        let texts: Vec<&str> = results.iter().filter_map(|one| one["final_text"].as_str()).collect();
        assert_eq!(texts, ["later: a", "later: b"]);
    }
    assert_eq!(runs(&server.url).len(), 2);

    // A call that was not noted is answered too: with what to do.
    let path = "/mcp HTTP/1.1\r\nLast-Event-ID: 0/5@00000000@7@313233\r\nX: y";
    let answer = client.clone().at(path).send_as("GET", None).answer();
    assert_eq!(answer["id"], 123);
    assert!(answer["error"]["message"].as_str().is_some_and(|text| text.contains("list_runs")), "{answer}");
}

#[test]
fn requests_that_come_together_after_a_restart_are_all_answered() {
    let home = home();
    let mut server = home.serve();
    let mut client = Client::open(&server.url, Era::Sessions);
    for round in 0..6 {
        server.kill();
        server = home.serve();
        client = client.moved(&server.url);
        let answers: Vec<Value> = std::thread::scope(|scope| {
            let client = &client;
            let ask = |id| move || client.send(&client.request(id, "tools/list", json!({}))).answer();
            let listen = scope.spawn(|| client.send_as("GET", None).status);
            let asked: Vec<_> = (0..16).map(|id| scope.spawn(ask(1_000 * round + id))).collect();
            assert_eq!(listen.join().expect("a head"), 200);
            asked.into_iter().map(|asked| asked.join().expect("an answer")).collect()
        });
        assert!(answers.iter().all(|answer| answer["result"]["tools"].is_array()), "round {round}");
    }
}
