//! Tasks: the task is the handle, so it outlives everything.

use serde_json::{Value, json};

use super::{
    client::{Client, Era},
    home, run, server,
};

fn takes_tasks() -> Value {
    json!({ "io.modelcontextprotocol/clientCapabilities": { "extensions": { "io.modelcontextprotocol/tasks": {} } } })
}

fn task(client: &Client, method: &str, id: &str) -> Value {
    client.ask(method, json!({ "taskId": id, "_meta": takes_tasks() }))
}

#[test]
fn a_task_is_the_run_and_survives_a_crash_at_the_moment_it_is_told() {
    let home = home();
    let server = home.serve();
    let client = Client::open(&server.url, Era::Stateless);
    let spawn = json!({ "agent": "later", "prompt": "x" });
    let made = client.begin(1, "spawn_run", spawn, takes_tasks()).answer();
    server.kill();
    assert_eq!(made["result"]["resultType"], "task");
    let id = made["result"]["taskId"].as_str().expect("an id").to_owned();
    assert!(id.starts_with("r_"), "{id}");

    let server = home.serve();
    let client = client.moved(&server.url);
    assert_eq!(run(&server.url, &id)["status"], "completed");
    let done = task(&client, "tasks/get", &id);
    assert_eq!(done["result"]["status"], "completed", "{done}");
    assert_eq!(done["result"]["result"]["structuredContent"]["final_text"], "later: x");
    let unknown = task(&client, "tasks/get", "r_00000000000000000000000000000000");
    assert_eq!(unknown["error"]["code"], -32602);
}

#[test]
fn cancelling_a_task_cancels_every_run_of_its_batch() {
    let (_home, server) = server();
    let client = Client::open(&server.url, Era::Stateless);
    let spawns = json!({ "spawns": [{ "agent": "never", "prompt": "a" }, { "agent": "never", "prompt": "b" }] });
    let made = client.begin(1, "spawn_runs", spawns, takes_tasks()).answer();
    let id = made["result"]["taskId"].as_str().expect("an id").to_owned();
    assert!(id.starts_with("b_"), "{id}");
    assert_eq!(task(&client, "tasks/get", &id)["result"]["status"], "working");
    assert_eq!(task(&client, "tasks/cancel", &id)["result"]["resultType"], "complete");
    let batch = client.call("get_batch", json!({ "batch_id": id, "wait_ms": 20_000 }));
    for one in batch["structuredContent"]["results"].as_array().expect("results") {
        assert_eq!(one["status"], "cancelled");
    }
    assert_eq!(task(&client, "tasks/get", &id)["result"]["status"], "cancelled");
    // What is over in a moment needs no task.
    let quick = client.begin(2, "spawn_run", json!({ "agent": "echo", "prompt": "q" }), takes_tasks()).answer();
    assert_eq!(quick["result"]["structuredContent"]["final_text"], "you said q");
}

#[test]
fn a_task_keeps_how_much_text_its_call_wanted() {
    let home = home();
    let server = home.serve();
    let client = Client::open(&server.url, Era::Stateless);
    let spawn = json!({ "agent": "later", "prompt": "x", "result_bytes": 1 });
    let made = client.begin(1, "spawn_run", spawn, takes_tasks()).answer();
    let id = made["result"]["taskId"].as_str().expect("an id").to_owned();
    assert_eq!(run(&server.url, &id)["status"], "completed");
    let done = task(&client, "tasks/get", &id);
    let result = &done["result"]["result"]["structuredContent"];
    assert!(result["artifact"]["bytes"] == 8 && result["final_text"].is_null(), "{done}");
}

#[test]
fn who_may_not_ask_for_a_task_gets_the_answer_in_its_place() {
    let home = home();
    let mut config = std::fs::read_to_string(home.path().join("drawloom.yaml")).expect("a config");
    config.push_str(
        "principals:\n  maker: { tenant: default, subject: default, scopes: [\"runs:create\"], token_env: MAKER }\n",
    );
    home.write("drawloom.yaml", &config);
    home.run(&["trust", "--yes"]).exits(0);
    let mut command = home.command(&["serve", "--json", "--log", "warn"]);
    command.env("MAKER", "a-token-to-make-things-with");
    let server = home.serve_with(command);
    let client = Client::new(&server.url, Era::Stateless).with_token("a-token-to-make-things-with");
    let made = client.begin(1, "spawn_run", json!({ "agent": "later", "prompt": "x" }), takes_tasks()).answer();
    assert_eq!(made["result"]["structuredContent"]["final_text"], "later: x", "{made}");
}

#[test]
fn a_goal_that_asks_is_a_task_that_requires_input_and_says_how_to_answer() {
    let (_home, server) = server();
    let client = Client::open(&server.url, Era::Stateless).at("/mcp?toolsets=goal");
    let ask = json!({ "goal": "Write it", "backend": "mock", "ask": true, "confirm_plan": true, "mock_questions": ["For whom?"] });
    let started = client.call("orchestrate", ask);
    let id = started["structuredContent"]["run_id"].as_str().expect("an id").to_owned();
    let asked = client.call("orchestrate_result", json!({ "run_id": id, "wait": true }));
    let token = asked["structuredContent"]["token"].as_str().expect("a token").to_owned();
    let waits = task(&client, "tasks/get", &id)["result"].clone();
    assert_eq!((&waits["status"], &waits["inputRequests"]), (&json!("input_required"), &json!({})), "{waits}");
    let message = waits["statusMessage"].as_str().expect("a message");
    for part in ["1. For whom?", "orchestrate_resume", &token] {
        assert!(message.contains(part), "{message}");
    }
    client.call("orchestrate_resume", json!({ "token": token, "answers": ["For all."] }));
    let asked = client.call("orchestrate_result", json!({ "run_id": id, "wait": true }));
    let second = asked["structuredContent"]["token"].as_str().expect("a second token").to_owned();
    assert_ne!(second, token);
    let waits = task(&client, "tasks/get", &id)["result"].clone();
    let message = waits["statusMessage"].as_str().expect("a message");
    assert!(waits["status"] == "input_required" && message.contains("approval of its plan"), "{waits}");
    assert!(message.contains(&second), "{message}");
    client.call("orchestrate_resume", json!({ "token": second, "approved": true, "detach": false }));
    assert_eq!(task(&client, "tasks/get", &id)["result"]["status"], "completed");
}
