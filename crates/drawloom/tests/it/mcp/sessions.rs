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
    assert_eq!(closed.send_as("DELETE", None).status, 204);
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
        assert!(answer["result"].get("resultType").is_none(), "a field of the newer protocol: {answer}");
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

/// Runs that go on until they are cancelled, and the resources that change then.
fn endless(client: &Client, count: usize) -> Vec<(Value, String)> {
    let one = |_| {
        let run = client.call("spawn_run", json!({ "agent": "never", "prompt": "x", "mode": "detach" }));
        let run = run["structuredContent"]["run_id"].clone();
        let uri = format!("drawloom://runs/{}/final_text", run.as_str().expect("an id"));
        (run, uri)
    };
    (0..count).map(one).collect()
}

#[test]
fn what_a_session_subscribed_to_it_hears_after_a_restart_too() {
    let home = home();
    let mut server = home.serve();
    let mut client = Client::open(&server.url, Era::Sessions);
    let runs = endless(&client, 4);
    let subscribe = |client: &Client, at: usize| {
        assert_eq!(client.ask("resources/subscribe", json!({ "uri": runs[at].1 }))["result"], json!({}));
    };
    (0..3).for_each(|at| subscribe(&client, at));
    let cancel = |client: &Client, at: usize| client.call("cancel_run", json!({ "run_id": runs[at].0 }));
    // Whatever the first request to the new process is, it loses nothing and brings nothing back.
    for round in 0..4 {
        server.kill();
        server = home.serve();
        client = client.moved(&server.url);
        match round {
            0 => assert_eq!(client.ask("logging/setLevel", json!({ "level": "error" }))["result"], json!({})),
            1 => subscribe(&client, 3),
            2 => assert_eq!(client.ask("resources/unsubscribe", json!({ "uri": runs[1].1 }))["result"], json!({})),
            _ => {}
        }
    }
    let mut events = client.send_as("GET", None);
    let mut hear = |at: usize| {
        cancel(&client, at);
        let told = events.next().expect("word of it");
        assert_eq!(told["method"], "notifications/resources/updated");
        assert_eq!(told["params"]["uri"], json!(runs[at].1));
    };
    hear(0);
    cancel(&client, 1);
    hear(3);
    let last = events.seen.lines().filter_map(|line| line.strip_prefix("id: ")).next_back().expect("an id").to_owned();
    drop(events);

    // What an earlier process said last does not hide what this one says first.
    server.kill();
    let server = home.serve();
    let client = client.moved(&server.url);
    cancel(&client, 2);
    let path = format!("/mcp HTTP/1.1\r\nLast-Event-ID: {last}\r\nX: y");
    let mut events = client.at(&path).send_as("GET", None);
    // The last one may be told twice: the server was killed right after it.
    while events.next().expect("word of it")["params"]["uri"] != runs[2].1 {}
}

#[test]
fn a_session_hears_of_all_that_happened_while_nobody_listened() {
    let home = home();
    let server = home.serve();
    let client = Client::open(&server.url, Era::Sessions);
    let runs = endless(&client, 40);
    for (_, uri) in &runs {
        assert_eq!(client.ask("resources/subscribe", json!({ "uri": uri }))["result"], json!({}));
    }
    for (run, _) in &runs {
        client.call("cancel_run", json!({ "run_id": run }));
    }
    server.kill();
    let server = home.serve();
    let client = client.moved(&server.url);
    assert_eq!(client.ask("ping", json!({}))["result"], json!({}));
    let mut events = client.send_as("GET", None);
    let wanted: std::collections::BTreeSet<&str> = runs.iter().map(|(_, uri)| uri.as_str()).collect();
    let mut heard = std::collections::BTreeSet::new();
    while heard.len() < wanted.len() {
        let told = events.next().expect("word of it");
        let uri = told["params"]["uri"].as_str().expect("an address").to_owned();
        assert!(wanted.contains(uri.as_str()) && heard.insert(uri), "{told}");
    }
}

#[test]
fn only_clients_that_know_them_get_events_without_data() {
    let home = home();
    let server = home.serve();
    for (version, agent, knows) in [
        ("2024-11-05", "x", false),
        ("2025-06-18", "x", false),
        ("2025-06-18", "codex-mcp-client/0.166.0", true),
        ("2025-11-25", "x", true),
    ] {
        let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": version, "capabilities": {}, "clientInfo": { "name": "a test", "version": "1" },
        } });
        let mut client = Client::new(&server.url, Era::Sessions);
        let mut greeting = client.send(&hello);
        client.session = greeting.header("mcp-session-id").map(str::to_owned);
        assert_eq!(greeting.answer()["result"]["protocolVersion"], version);
        let head = format!("MCP-Protocol-Version: {version}\r\nUser-Agent: {agent}");
        let client = client.at(&format!("/mcp HTTP/1.1\r\n{head}\r\nX: y"));
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        let mut call = client.begin(2, "spawn_run", json!({ "agent": "later", "prompt": "x" }), json!({}));
        assert_eq!(call.answer()["result"]["structuredContent"]["final_text"], "later: x");
        let empty = |seen: &str| seen.lines().any(|line| line.trim_end() == "data:");
        assert!(!empty(&greeting.seen), "{version}: {}", greeting.seen);
        assert_eq!(empty(&call.seen), knows, "{version}: {}", call.seen);
    }
}
