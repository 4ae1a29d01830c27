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
