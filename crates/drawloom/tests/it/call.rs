//! `call`: every operation by name.

use serde_json::json;

use crate::support::Home;

#[test]
fn operations_are_listed_and_called_by_name() {
    let home = Home::new();
    let list = home.run(&["call"]).exits(0).stdout;
    assert!(list.contains("spawn_run ") && list.contains("whoami "), "{list}");
    let run = home.run(&["call", "spawn_run", "agent=echo", "prompt=3"]).exits(0).json();
    assert_eq!((&run["status"], &run["final_text"]), (&"completed".into(), &"3".into()));
    let page = home.run(&["call", "list_runs", "limit=1", "status=completed,failed"]).exits(0).json();
    assert_eq!(page["runs"].as_array().map(Vec::len), Some(1));
    home.write("input.json", r#"{"agent": "echo", "prompt": "from a file"}"#);
    assert_eq!(home.run(&["call", "spawn_run", "--json", "input.json"]).exits(0).json()["final_text"], "from a file");
    let piped = home.run_with_input(&["call", "spawn_run", "--json", "-"], "{agent: echo, prompt: piped}");
    assert_eq!(piped.exits(0).json()["final_text"], "piped");
}

#[test]
fn a_value_of_any_type_is_json_or_text() {
    let home = Home::new();
    home.run(&["channels", "create", "jobs"]).exits(0);
    for (text, value) in
        [(r#"{"hop":1}"#, json!({ "hop": 1 })), ("1", json!(1)), ("\"1\"", json!("1")), ("go", json!("go"))]
    {
        home.run(&["call", "publish_channel", "channel=jobs", &format!("value={text}")]).exits(0);
        let read = home.run(&["call", "subscribe_channel", "channel=jobs"]).exits(0).json();
        assert_eq!(read["messages"][0]["value"], value, "{read}");
    }
}

#[test]
fn the_same_call_gives_the_same_answer_with_and_without_a_server() {
    let home = Home::new();
    let calls: [&[&str]; 4] = [
        &["call", "list_agents"],
        &["call", "get_load"],
        &["call", "get_run", "run_id=r_00000000000000000000000000000000"],
        &["call", "spawn_run", "agent=echo", "promt=x"],
    ];
    let alone: Vec<_> = calls.iter().map(|call| home.run(call)).collect();
    let _server = home.serve();
    for (call, before) in calls.iter().zip(alone) {
        let beside = home.run(call);
        assert_eq!((before.code, before.json()), (beside.code, beside.json()), "{call:?}");
    }
}

#[test]
fn what_cannot_be_called_says_why() {
    let home = Home::new();
    let unknown = home.run(&["call", "list_rnus"]).exits(2).json();
    assert_eq!(unknown["error"]["hint"], "did you mean list_runs?");
    let field = home.run(&["call", "list_runs", "limit"]).exits(2).json();
    assert_eq!(field["error"]["message"], "\"limit\" is not in the form key=value");
    let twice = home.run(&["call", "list_runs", "limit=1", "limit=2"]).exits(2).json();
    assert_eq!(twice["error"]["message"], "limit is given twice");
    let limit = home.run(&["call", "list_runs", "limit=many"]).exits(2).json();
    assert_eq!(limit["error"]["code"], "wrong_type");
}

#[test]
fn bad_input_to_any_operation_is_a_typed_error_with_and_without_a_server() {
    let home = Home::new();
    let operations = drawloom_server::Operations::builtin();
    let names: Vec<&str> = operations.iter().map(|served| served.card().name()).collect();
    assert!(names.len() >= 12, "{names:?}");
    let walk = || {
        for name in &names {
            let unknown = home.run(&["call", name, "no_such_key=1"]).exits(2).json();
            // A client that lacks a part of the path says that first; everybody else names the key.
            let said = unknown["error"]["message"].as_str().unwrap_or_default();
            let named = said.contains("no_such_key is not a known key");
            assert!(named || unknown["error"]["code"] == "missing_key", "{name}: {unknown}");
            // An empty file, which YAML also calls null, is an input without fields; these are no inputs at all.
            for (file, text) in [("list.json", "[]"), ("text.json", "\"x\""), ("broken.json", "{\"agent\": ")] {
                home.write(file, text);
                let refused = home.run(&["call", name, "--json", file]).exits(2).json();
                assert!(refused["error"]["code"].is_string(), "{name} {text}: {refused}");
            }
        }
    };
    walk();
    let _server = home.serve();
    walk();
    assert_eq!(home.run(&["run", "echo", "it goes on"]).exits(0).stdout, "it goes on\n");
}
