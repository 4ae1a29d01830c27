//! Calls: waiting, cancelling, hanging up, repeating.

use serde_json::{Value, json};

use super::{
    client::{Client, Era},
    run, runs, server,
};

const KEY: &str = "io.drawloom/idempotencyKey";
const PATIENCE: &str = "io.drawloom/patienceMs";
const WITHIN: &str = "io.drawloom/answerWithinMs";

/// The id of the only run, once it was accepted: asked for over another connection.
fn only_run(url: &str) -> String {
    loop {
        if let [only] = runs(url).as_slice() {
            return only["run_id"].as_str().expect("an id").to_owned();
        }
    }
}

fn cancelled(id: i64, reason: Option<&str>) -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id, "reason": reason } })
}

#[test]
fn a_call_answers_text_and_structure_and_errors_that_a_model_can_read() {
    let (_home, server) = server();
    for era in [Era::Sessions, Era::Stateless] {
        let client = Client::open(&server.url, era);
        let result = client.call("spawn_run", json!({ "agent": "echo", "prompt": "hello" }));
        assert_eq!(result["structuredContent"]["final_text"], "you said hello");
        let id = result["structuredContent"]["run_id"].as_str().expect("an id");
        let text = result["content"][0]["text"].as_str().expect("text");
        assert!(text.starts_with("you said hello\n\n=== run completed in "), "{text}");
        assert!(text.ends_with(&format!("; run_id {id}")), "{text}");
        assert_eq!(result["isError"], false);
        for (arguments, wanted) in [
            (json!({ "agent": "ech", "prompt": "x" }), "unknown_agent: unknown agent \"ech\""),
            (json!({ "agent": "echo", "promt": "x" }), "hint: did you mean prompt?"),
            (json!({ "agent": 7, "prompt": "x" }), "agent"),
        ] {
            let failed = client.call("spawn_run", arguments);
            assert_eq!(failed["isError"], true, "{failed}");
            let text = failed["content"][0]["text"].as_str().expect("text");
            assert!(text.contains(wanted), "{text}");
        }
        let unknown = client.begin(1, "spawn_rum", json!({}), json!({})).answer();
        assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
        let elsewhere = client.call("whoami", json!({}));
        assert!(elsewhere["content"][0]["text"].as_str().is_some_and(|text| text.contains("toolsets core,server")));
    }
}

#[test]
fn a_batch_answers_by_index_and_a_failure_stays_in_its_place() {
    let (_home, server) = server();
    let client = Client::open(&server.url, Era::Sessions);
    let spawns: Vec<Value> = (0..10).map(|index| json!({ "agent": "echo", "prompt": format!("{index}") })).collect();
    let result = client.call("spawn_runs", json!({ "spawns": spawns }));
    let results = result["structuredContent"]["results"].as_array().expect("results");
    for (index, one) in results.iter().enumerate() {
        assert_eq!((&one["index"], &one["final_text"]), (&json!(index), &json!(format!("you said {index}"))));
    }
    assert_eq!(results.len(), 10);
}

#[test]
fn who_waits_hears_of_progress_and_its_number_grows() {
    let (_home, server) = server();
    for era in [Era::Sessions, Era::Stateless] {
        let client = Client::open(&server.url, era);
        let spawns = json!([{ "agent": "later", "prompt": "a" }, { "agent": "echo", "prompt": "b" }]);
        let mut call = client.begin(3, "spawn_runs", json!({ "spawns": spawns }), json!({ "progressToken": "tok" }));
        let (mut beats, mut last) = (0, -1.0);
        let answer = loop {
            let message = call.next().expect("an answer comes");
            if message["method"] == "notifications/progress" {
                let now = message["params"]["progress"].as_f64().expect("a number");
                assert!(now > last, "{message} after {last}");
                assert_eq!(message["params"]["progressToken"], "tok");
                assert_eq!(message["params"]["total"], 2.0);
                (beats, last) = (beats + 1, now);
            } else {
                break message;
            }
        };
        assert!(beats >= 1);
        assert_eq!(answer["result"]["structuredContent"]["status"], "done");
    }
}

#[test]
fn a_client_without_patience_gets_a_handle_and_goes_on_with_it() {
    let (_home, server) = server();
    let client = Client::open(&server.url, Era::Stateless);
    let spawn = json!({ "agent": "later", "prompt": "x" });
    let early = client.begin(1, "spawn_run", spawn, json!({ PATIENCE: 500 })).answer();
    let early = &early["result"]["structuredContent"];
    assert_eq!(early["status"], "running");
    let id = early["run_id"].as_str().expect("an id");
    let hint = early["hint"].as_str().expect("a hint");
    assert!(hint.contains("get_run") && hint.contains(id) && hint.contains("wait_ms"), "{hint}");
    let late = client.call("get_run", json!({ "run_id": id, "wait_ms": 20_000 }));
    assert_eq!(late["structuredContent"]["final_text"], "later: x");

    let spawns = json!({ "spawns": [{ "agent": "later", "prompt": "y" }] });
    let early = client.begin(1, "spawn_runs", spawns, json!({ PATIENCE: 500 })).answer();
    let batch = early["result"]["structuredContent"]["batch_id"].as_str().expect("an id").to_owned();
    let late = client.call("get_batch", json!({ "batch_id": batch, "wait_ms": 20_000 }));
    assert_eq!(late["structuredContent"]["results"][0]["final_text"], "later: y");

    let detached = client.call("spawn_run", json!({ "agent": "never", "prompt": "z", "mode": "detach" }));
    assert_eq!(detached["structuredContent"]["status"], "running");
}

#[test]
fn an_explicit_cancel_cancels_and_a_clients_timeout_does_not() {
    for (reason, wanted) in [
        (None, "cancelled"),
        (Some("AbortError: remote-cancel"), "cancelled"),
        (Some("McpError: MCP error -32001: Request timed out"), "completed"),
        (Some("MCP response future dropped"), "completed"),
    ] {
        let (_home, server) = server();
        let client = Client::open(&server.url, Era::Sessions);
        let call = client.begin(41, "spawn_run", json!({ "agent": "later", "prompt": "x" }), json!({}));
        let id = only_run(&server.url);
        assert_eq!(client.send(&cancelled(41, reason)).status, 202);
        // opencode says it twice, with another reason the second time: the first word counts.
        client.send(&cancelled(41, Some("AbortError: The operation was aborted.")));
        assert_eq!(run(&server.url, &id)["status"], wanted, "{reason:?}");
        drop(call);
    }
}

#[test]
fn a_cancel_that_names_its_call_by_key_works_without_a_session() {
    let (_home, server) = server();
    let client = Client::open(&server.url, Era::Stateless);
    let call = {
        let client = client.clone();
        let begin =
            move || client.begin(5, "spawn_run", json!({ "agent": "never", "prompt": "x" }), json!({ KEY: "k1" }));
        // A stateless answer has no head before it has a first word.
        std::thread::spawn(begin)
    };
    let id = only_run(&server.url);
    let mut cancel = cancelled(5, Some("the user pressed escape"));
    cancel["params"]["_meta"] = json!({ KEY: "k1" });
    assert_eq!(client.send(&cancel).status, 202);
    let ended = run(&server.url, &id);
    assert_eq!(ended["status"], "cancelled");
    assert!(ended.to_string().contains("the user pressed escape"), "{ended}");
    assert!(call.join().expect("an answer").answer()["error"].is_object());
}

#[test]
fn cancelling_a_look_or_an_answered_call_cancels_no_run() {
    let (_home, server) = server();
    let client = Client::open(&server.url, Era::Sessions);
    let spawn = json!({ "agent": "later", "prompt": "x", "mode": "detach" });
    let id = client.call("spawn_run", spawn)["structuredContent"]["run_id"].as_str().expect("an id").to_owned();
    assert_eq!(client.send(&cancelled(9, Some("AbortError"))).status, 202);
    let look = client.begin(43, "get_run", json!({ "run_id": id, "wait_ms": 20_000 }), json!({}));
    client.send(&cancelled(43, Some("AbortError")));
    assert_eq!(run(&server.url, &id)["status"], "completed");
    drop(look);
}

#[test]
fn a_dropped_connection_loses_no_result_and_a_repeat_is_the_same_run() {
    let (_home, server) = server();
    for (era, key) in [(Era::Sessions, "one"), (Era::Stateless, "two")] {
        let client = Client::open(&server.url, era);
        let before = runs(&server.url).len();
        let spawn = json!({ "agent": "later", "prompt": key });
        let call = client.begin(1, "spawn_run", spawn.clone(), json!({ KEY: key, "progressToken": 1 }));
        while runs(&server.url).len() == before {}
        drop(call);
        let again = client.begin(2, "spawn_run", spawn, json!({ KEY: key })).answer();
        assert_eq!(again["result"]["structuredContent"]["final_text"], format!("later: {key}"));
        assert_eq!(runs(&server.url).len(), before + 1);
        let other =
            client.begin(3, "spawn_run", json!({ "agent": "echo", "prompt": "?" }), json!({ KEY: key })).answer();
        assert!(
            other["result"]["content"][0]["text"].as_str().is_some_and(|text| text.contains("idempotency_key_reused"))
        );
    }
}

#[test]
fn a_second_request_with_the_id_of_one_in_flight_is_refused_and_changes_nothing() {
    let (_home, server) = server();
    let client = Client::open(&server.url, Era::Sessions);
    let spawn = json!({ "agent": "never", "prompt": "x" });
    let mut first = client.begin(5, "spawn_run", spawn.clone(), json!({}));
    let run = only_run(&server.url);
    for method in ["tools/list", "ping"] {
        let second = client.send(&client.request(5, method, json!({}))).answer();
        assert_eq!((&second["id"], &second["error"]["code"]), (&json!(5), &json!(-32600)), "{second}");
    }
    client.call("cancel_run", json!({ "run_id": run }));
    assert_eq!(first.answer()["result"]["structuredContent"]["status"], "cancelled");
    // The same once more is what a proxy does after a cut, and both are the same call.
    let keyed = |wait: u64| {
        client.begin(6, "spawn_run", json!({ "agent": "later", "prompt": "y" }), json!({ KEY: "k", WITHIN: wait }))
    };
    let (cut, mut again) = (keyed(90_000), keyed(80_000));
    drop(cut);
    assert_eq!(again.answer()["result"]["structuredContent"]["final_text"], "later: y");
    assert_eq!(runs(&server.url).len(), 2);
    // One after the other is nothing special.
    for _ in 0..200 {
        let answer = client.send(&client.request(5, "ping", json!({}))).answer();
        assert!(answer["error"].is_null(), "{answer}");
        let answer = client.begin(5, "list_runs", json!({ "limit": 1 }), json!({})).answer();
        assert!(answer["error"].is_null(), "{answer}");
    }
    // Of those that come together, each gets its own answer, or is refused.
    for round in 0..50 {
        let answers: Vec<Value> = std::thread::scope(|scope| {
            let ask = |limit: u32| {
                let client = &client;
                move || client.begin(round, "list_runs", json!({ "limit": limit }), json!({})).answer()
            };
            let asked = [1, 2, 1].map(|limit| scope.spawn(ask(limit)));
            asked.into_iter().map(|asked| asked.join().expect("an answer")).collect()
        });
        for (answer, limit) in answers.iter().zip([1, 2, 1]) {
            let listed = answer["result"]["structuredContent"]["runs"].as_array().map(Vec::len);
            assert!(listed == Some(limit) || answer["error"]["code"] == -32600, "{limit}: {answer}");
        }
    }
}
