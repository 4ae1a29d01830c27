//! What a token may not do, and what a message may not be.

use serde_json::{Value, json};

use super::{
    client::{Client, Era},
    home, run, runs, server,
};

const KEY: &str = "io.drawloom/idempotencyKey";

fn tasks() -> Value {
    json!({ "io.modelcontextprotocol/clientCapabilities": { "extensions": { "io.modelcontextprotocol/tasks": {} } } })
}

#[test]
fn a_token_without_scopes_sees_nothing_and_stops_nothing_by_any_method() {
    let home = home();
    let mut config = std::fs::read_to_string(home.path().join("drawloom.yaml")).expect("a config");
    config.push_str(
        "principals:\n  idle: { tenant: default, subject: default, scopes: [], token_env: IDLE }\n  \
         looker: { tenant: default, subject: default, scopes: [\"runs:read\"], token_env: LOOKER }\n",
    );
    home.write("drawloom.yaml", &config);
    home.run(&["trust", "--yes"]).exits(0);
    let mut command = home.command(&["serve", "--json", "--log", "warn"]);
    command
        .env("IDLE", "a-token-for-nothing-at-all")
        .env("LOOKER", "a-token-to-look-at-things")
        .env("DRAWLOOM_TOKEN", "a-token-for-all-purposes");
    let server = home.serve_with(command);
    let all = Client::new(&server.url, Era::Stateless).with_token("a-token-for-all-purposes");
    let spawn = json!({ "agent": "never", "prompt": "x", "mode": "detach" });
    let id =
        all.begin(1, "spawn_run", spawn, json!({ KEY: "k" })).answer()["result"]["structuredContent"]["run_id"].clone();

    let idle = Client::new(&server.url, Era::Stateless).with_token("a-token-for-nothing-at-all");
    assert_eq!(idle.ask("tools/list", json!({}))["result"]["tools"], json!([]));
    assert_eq!(idle.ask("resources/list", json!({}))["result"]["resources"], json!([]));
    let uri = format!("drawloom://runs/{}/journal", id.as_str().expect("an id"));
    let agent = json!({ "name": "agent", "value": "" });
    let asked = [
        ("resources/read", json!({ "uri": uri })),
        ("completion/complete", json!({ "ref": { "type": "ref/prompt", "name": "fan_out" }, "argument": agent })),
        ("tasks/get", json!({ "taskId": id, "_meta": tasks() })),
        ("tasks/cancel", json!({ "taskId": id, "_meta": tasks() })),
        ("tasks/update", json!({ "taskId": id, "inputResponses": {}, "_meta": tasks() })),
    ];
    for (method, params) in asked {
        let refused = idle.ask(method, params);
        let message = refused["error"]["message"].as_str().unwrap_or_default();
        assert!(message.starts_with("insufficient_scope"), "{method}: {refused}");
    }
    let looker = Client::new(&server.url, Era::Stateless).with_token("a-token-to-look-at-things");
    assert_eq!(looker.ask("tasks/get", json!({ "taskId": id, "_meta": tasks() }))["result"]["status"], "working");
    assert!(looker.ask("tasks/cancel", json!({ "taskId": id, "_meta": tasks() }))["error"].is_object());
    for client in [&idle, &looker] {
        let cancel = json!({ "requestId": 1, "_meta": { KEY: "k" } });
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel }));
    }
    let now = all.call("get_run", json!({ "run_id": id }));
    assert_eq!(now["structuredContent"]["status"], "running");
}

#[test]
fn what_is_kept_with_a_session_or_a_call_is_bounded() {
    let (_home, server) = server();
    let long = "n".repeat(70_000);
    let client = Client::new(&server.url, Era::Sessions);
    let refused = client.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": long, "version": "1" },
    } }));
    assert_eq!(refused.status, 413);
    let client = Client::open(&server.url, Era::Stateless);
    let spawn = json!({ "agent": "echo", "prompt": "x" });
    let mut request = client.request(1, "tools/call", json!({ "name": "spawn_run", "arguments": spawn }));
    request["id"] = "i".repeat(300).into();
    assert_eq!(client.send(&request).answer()["error"]["code"], -32600);
    request["id"] = "fine".into();
    request["params"]["_meta"]["progressToken"] = "t".repeat(300).into();
    assert_eq!(client.send(&request).answer()["error"]["code"], -32600);
    assert!(runs(&server.url).is_empty());
}

#[test]
fn a_message_that_is_none_gets_an_error_of_the_protocol() {
    let (_home, server) = server();
    let client = Client::open(&server.url, Era::Sessions);
    let wrong =
        client.send(&json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": { "name": 7 } })).answer();
    assert_eq!((&wrong["id"], &wrong["error"]["code"]), (&json!(3), &json!(-32602)), "{wrong}");
    let unknown = client.send(&json!({ "jsonrpc": "2.0", "id": 4, "method": "no/such", "params": {} })).answer();
    assert_eq!(unknown["error"]["code"], -32601);
    let mut none = client.send(&json!({ "jsonrpc": "2.0", "id": 5 }));
    assert_eq!(none.status, 400);
    assert_eq!(none.next().expect("an error")["error"]["code"], -32600);
    let mut broken = client.send(&json!("not a message"));
    assert_eq!(broken.next().expect("an error")["error"]["code"], -32600);
    assert_eq!(client.send_as("DELETE", None).status, 204);
    assert_eq!(client.send_as("DELETE", None).status, 404);
    let mut gone = client.send(&client.request(6, "tools/list", json!({})));
    let answer = gone.next().expect("an error");
    assert_eq!((gone.status, &answer["id"], &answer["error"]["code"]), (404, &json!(6), &json!(-32001)));
}

#[test]
fn before_it_is_greeted_a_ping_is_answered_and_everything_else_gets_an_error_of_the_protocol() {
    let (_home, server) = server();
    let client = Client::new(&server.url, Era::Sessions);
    assert_eq!(client.ask("ping", json!({}))["result"], json!({}));
    for odd in [json!({ "jsonrpc": "2.0", "id": 1.5, "method": "ping" }), json!({ "id": 1, "method": "ping" })] {
        assert_eq!(client.send(&odd).status, 400, "{odd}");
    }
    let mut early = client.send(&client.request(4, "tools/list", json!({})));
    let answer = early.next().expect("an error");
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(4), &json!(-32600)), "{answer}");
}

#[test]
fn several_messages_in_a_body_are_answered_in_the_revision_that_has_them() {
    let (_home, server) = server();
    let mut client = Client::new(&server.url, Era::Sessions);
    let opened = client.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": { "name": "old", "version": "1" },
    } }));
    let session = opened.header("mcp-session-id").expect("a session").to_owned();
    drop(opened);
    let path = format!("/mcp HTTP/1.1\r\nMcp-Session-Id: {session}\r\nX: y");
    client = client.at(&path);
    client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    let ping = |id: &str| json!({ "jsonrpc": "2.0", "id": id, "method": "ping" });
    let both = client.send(&json!([ping("a"), { "jsonrpc": "2.0", "method": "notifications/initialized" }, ping("b")]));
    let answers: Value = serde_json::from_str(&both.text()).expect("JSON");
    let mut ids: Vec<&str> = answers.as_array().expect("a list").iter().filter_map(|one| one["id"].as_str()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["a", "b"]);
    // Each gets its answer, also one that is no message, or that cannot be one of several.
    let greeting = json!({ "jsonrpc": "2.0", "id": "i", "method": "initialize", "params": {} });
    let mixed = client.send(&json!([{ "jsonrpc": "2.0", "id": 5 }, greeting, ping("c")]));
    let answers: Value = serde_json::from_str(&mixed.text()).expect("JSON");
    let codes: Vec<&Value> = answers.as_array().expect("a list").iter().map(|one| &one["error"]["code"]).collect();
    assert_eq!(codes, [&json!(-32600), &json!(-32600), &Value::Null], "{answers}");
    assert_eq!(client.clone().at(&path.replace(&session, "gone")).send(&json!([ping("a")])).status, 404);
    let newer = Client::open(&server.url, Era::Sessions);
    assert_eq!(newer.send(&json!([ping("a")])).status, 400);
    assert_eq!(newer.send(&json!([])).status, 400);
    // The server is well after all of it.
    let id = newer.call("spawn_run", json!({ "agent": "echo", "prompt": "x" }))["structuredContent"]["run_id"].clone();
    assert_eq!(run(&server.url, id.as_str().expect("an id"))["status"], "completed");
}

#[test]
fn a_subscription_to_what_is_somebody_elses_is_answered_as_one_to_what_does_not_exist() {
    let home = home();
    let mut config = std::fs::read_to_string(home.path().join("drawloom.yaml")).expect("a config");
    config.push_str(
        "principals:\n  ann: { subject: ann, scopes: [\"runs:create\", \"runs:read\"], token_env: ANN }\n  \
         bob: { subject: bob, scopes: [\"runs:read\"], token_env: BOB }\n  \
         eve: { tenant: other, subject: eve, scopes: [\"substrate:tenant\"], token_env: EVE }\n",
    );
    home.write("drawloom.yaml", &config);
    home.run(&["trust", "--yes"]).exits(0);
    let mut command = home.command(&["serve", "--json", "--log", "warn"]);
    command
        .env("ANN", "token-of-ann-and-no-other")
        .env("BOB", "token-of-bob-and-no-other")
        .env("EVE", "token-of-eve-and-no-other");
    let server = home.serve_with(command);
    let open = |token: &str| Client::new(&server.url, Era::Sessions).with_token(token).opened();
    let ann = open("token-of-ann-and-no-other");
    let spawned = ann.call("spawn_run", json!({ "agent": "never", "prompt": "x", "mode": "detach" }));
    let id = spawned["structuredContent"]["run_id"].as_str().expect("an id").to_owned();
    let unknown = format!("{}{}", &id[..id.len() - 4], "0000");
    let ask = |client: &Client, run: &str| {
        let answer = client.ask("resources/subscribe", json!({ "uri": format!("drawloom://runs/{run}/journal") }));
        answer.to_string().replace(run, "RUN")
    };
    assert!(ask(&ann, &id).contains("\"result\""), "{}", ask(&ann, &id));
    for token in ["token-of-bob-and-no-other", "token-of-eve-and-no-other"] {
        let client = open(token);
        let (theirs, nothing) = (
            client.ask("resources/read", json!({ "uri": format!("drawloom://runs/{id}/journal") })),
            ask(&client, &unknown),
        );
        assert_eq!(theirs["error"]["code"], -32002, "{theirs}");
        let without_id = |answer: String| {
            let mut answer: Value = serde_json::from_str(&answer).expect("JSON");
            answer["id"] = Value::Null;
            answer
        };
        assert!(nothing.contains("-32002"), "{nothing}");
        assert_eq!(without_id(ask(&client, &id)), without_id(nothing), "{token}");
    }
}
