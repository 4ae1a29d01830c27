//! Connections that end at a bad moment: the answer is not lost, and a cancel is still heard.

use serde_json::{Value, json};

use super::{
    client::{Client, Era, Exchange},
    home, run, runs, server,
};

const KEY: &str = "io.drawloom/idempotencyKey";

/// The id of the last event of a call so far.
fn last_event(call: &Exchange) -> String {
    let mut ids = call.seen.lines().filter_map(|line| line.strip_prefix("id: "));
    ids.next_back().expect("an event's id").trim().to_owned()
}

/// Takes the stream of a call up again.
fn take_up(client: &Client, event: &str) -> Exchange {
    client.clone().at(&format!("/mcp HTTP/1.1\r\nLast-Event-ID: {event}\r\nX: y")).send_as("GET", None)
}

#[test]
fn an_answer_that_nobody_took_is_there_for_whoever_comes_back() {
    let (_home, server) = server();
    let client = Client::open(&server.url, Era::Sessions);
    let mut call =
        client.begin(5, "spawn_run", json!({ "agent": "later", "prompt": "x" }), json!({ "progressToken": 1 }));
    assert_eq!(call.next().expect("word of progress")["method"], "notifications/progress");
    let event = last_event(&call);
    drop(call);
    let id = runs(&server.url)[0]["run_id"].as_str().expect("an id").to_owned();
    assert_eq!(run(&server.url, &id)["status"], "completed");
    // The answer has been sent to a closed socket by now.
    assert_eq!(client.ask("ping", json!({}))["result"], json!({}));
    for _ in 0..2 {
        let answer = take_up(&client, &event).answer();
        assert_eq!(
            (&answer["id"], &answer["result"]["structuredContent"]["final_text"]),
            (&json!(5), &json!("later: x"))
        );
    }
}

#[test]
fn a_server_that_stops_in_order_answers_what_waits_with_how_it_stands() {
    for era in [Era::Sessions, Era::Stateless] {
        let (_home, server) = server();
        let client = Client::open(&server.url, era);
        let call = {
            let client = client.clone();
            std::thread::spawn(move || {
                client.begin(5, "spawn_run", json!({ "agent": "never", "prompt": "x" }), json!({})).answer()
            })
        };
        while runs(&server.url).is_empty() {}
        let id = runs(&server.url)[0]["run_id"].clone();
        server.stop();
        let answer = call.join().expect("an answer");
        assert_eq!(answer["result"]["structuredContent"]["run_id"], id, "{answer}");
        assert!(answer["result"]["structuredContent"]["hint"].as_str().is_some_and(|hint| hint.contains("get_run")));
    }
}

#[test]
fn a_call_that_was_taken_up_hears_a_cancel_and_its_progress_goes_on_upwards() {
    let home = home();
    let server = home.serve();
    let client = Client::open(&server.url, Era::Sessions);
    let mut call =
        client.begin(5, "spawn_run", json!({ "agent": "never", "prompt": "x" }), json!({ "progressToken": 1 }));
    let before = call.next().expect("word of progress")["params"]["progress"].as_f64().expect("a number");
    let event = last_event(&call);
    server.kill();
    drop(call);

    let server = home.serve();
    let client = client.moved(&server.url);
    let mut rest = take_up(&client, &event);
    let word = rest.next().expect("word of progress");
    assert!(word["params"]["progress"].as_f64().is_some_and(|now| now > before), "{word} after {before}");
    let cancel = json!({ "requestId": 5, "reason": "AbortError: remote-cancel" });
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel });
    assert_eq!(client.send(&cancel).status, 202);
    let id = runs(&server.url)[0]["run_id"].as_str().expect("an id").to_owned();
    assert_eq!(run(&server.url, &id)["status"], "cancelled");
}

#[test]
fn a_look_that_was_taken_up_keeps_its_own_limit() {
    let home = home();
    let server = home.serve();
    let client = Client::open(&server.url, Era::Sessions);
    let spawn = json!({ "agent": "never", "prompt": "x", "mode": "detach" });
    let id = client.call("spawn_run", spawn)["structuredContent"]["run_id"].clone();
    let mut call = client.begin(6, "get_run", json!({ "run_id": id, "wait_ms": 4000 }), json!({ "progressToken": 1 }));
    assert_eq!(call.next().expect("word of progress")["method"], "notifications/progress");
    let event = last_event(&call);
    server.kill();
    drop(call);
    let server = home.serve();
    let answer = take_up(&client.moved(&server.url), &event).answer();
    assert_eq!(answer["result"]["structuredContent"]["status"], "running");
    assert_eq!(answer["result"]["isError"], false);
}

#[test]
fn a_cancel_by_key_after_a_restart_finds_runs_of_another_user() {
    let home = home();
    let server = home.serve();
    let client = Client::open(&server.url, Era::Stateless);
    let spawn = json!({ "agent": "never", "prompt": "x", "user_id": "ann" });
    // The first word of progress comes after the call was noted.
    let mut call = client.begin(5, "spawn_run", spawn, json!({ KEY: "k", "progressToken": 1 }));
    assert_eq!(call.next().expect("word of progress")["method"], "notifications/progress");
    server.kill();
    drop(call);
    let server = home.serve();
    let client = client.moved(&server.url);
    let cancel = json!({ "requestId": 5, "_meta": { KEY: "k" } });
    client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel }));
    let id = runs(&server.url)[0]["run_id"].as_str().expect("an id").to_owned();
    assert_eq!(run(&server.url, &id)["status"], "cancelled");
}

#[test]
fn who_wants_it_cancelled_with_the_connection_gets_that() {
    let (_home, server) = server();
    let client = Client::open(&server.url, Era::Stateless);
    let spawn = |gone: Value| json!({ "agent": "never", "prompt": "x", "cancel_on_disconnect": gone });
    let call = client.begin(5, "spawn_run", spawn(json!(true)), json!({ "progressToken": 1 }));
    let id = runs(&server.url)[0]["run_id"].as_str().expect("an id").to_owned();
    drop(call);
    assert_eq!(run(&server.url, &id)["status"], "cancelled");
}

#[test]
fn a_cancel_is_heard_after_a_crash_also_by_a_call_that_nobody_took_up() {
    let home = home();
    let server = home.serve();
    let client = Client::open(&server.url, Era::Sessions);
    // With word of progress the call is noted, and the crash does not lose it.
    let begin = |id: i64| {
        let spawn = json!({ "agent": "never", "prompt": id.to_string() });
        let mut call = client.begin(id, "spawn_run", spawn, json!({ "progressToken": id }));
        call.next().expect("word of progress");
        call
    };
    let (first, second) = (begin(5), begin(6));
    server.kill();
    drop((first, second));

    let server = home.serve();
    let client = client.moved(&server.url);
    let cancel = |id: i64, reason: &str| {
        let params = json!({ "requestId": id, "reason": reason });
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params })).status
    };
    assert_eq!(cancel(6, "Request timed out"), 202);
    assert_eq!(cancel(5, "not wanted any more"), 202);
    let ids: Vec<String> =
        runs(&server.url).iter().map(|run| run["run_id"].as_str().expect("an id").to_owned()).collect();
    assert_eq!(run(&server.url, &ids[0])["status"], "cancelled");
    let other = client.call("get_run", json!({ "run_id": ids[1] }));
    assert!(
        ["running", "queued"].contains(&other["structuredContent"]["status"].as_str().expect("a status")),
        "{other}"
    );
}
