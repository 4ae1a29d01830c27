//! Routes: what is there, what is not, what the list says.

use drawloom_contract::ids::RunId;
use drawloom_net::Method;
use drawloom_server::{Operations, openapi};
use drawloom_wire::{
    request::{Description, Part, Route},
    runs::{GetRun, ListRuns, SpawnRun},
};
use serde_json::{Value, json};

use crate::{
    artifacts::keep,
    setup::{Setup, read_until},
};

/// An input that every operation takes, of a server that has this run and this batch.
fn input(name: &str, run: RunId, batch: &Value) -> Value {
    match name {
        "spawn_run" => json!({"agent": "quick", "prompt": "go"}),
        "spawn_runs" => json!({"spawns": [{"agent": "quick", "prompt": "go"}]}),
        "get_run" | "follow_run" | "cancel_run" | "replay_run" | "read_artifact" | "list_artifacts" => {
            json!({"run_id": run})
        }
        "submit_evaluation" => json!({"run_id": run, "score": 0.5, "tag": "one"}),
        "list_evaluations" => json!({"run_id": run}),
        "aggregate_evaluations" => json!({"agent": "quick"}),
        "get_artifact" => json!({"run_id": run, "name": "notes/one.md"}),
        "get_batch" | "cancel_batch" => json!({"batch_id": batch}),
        "retry_run" => json!({"run_id": run, "completed": true}),
        "delete_run" => json!({"run_id": run}),
        "delete_batch" => json!({"batch_id": batch}),
        "prune_runs" => json!({"older_than_seconds": 60}),
        "get_memory" | "delete_memory" => json!({"scope": "user", "key": "k/one"}),
        "set_memory" => json!({"scope": "user", "key": "k/one", "value": null}),
        "change_memory" => json!({"scope": "tenant", "key": "n", "op": "incr"}),
        "list_memory" | "watch_memory" => json!({"scope": "tenant"}),
        "search_memory" => json!({"scope": "global", "query": "word"}),
        "import_memory" => json!({"scope": "agent", "agent": "quick", "entries": [{"key": "k", "value": 1}]}),
        "publish_channel" => json!({"channel": "jobs", "value": null}),
        "subscribe_channel" | "peek_channel" | "follow_channel" => json!({"channel": "jobs"}),
        "ack_channel" => json!({"channel": "jobs", "cursor": "cur_2"}),
        "nak_channel" => json!({"channel": "jobs", "group": "g", "leases": ["lse_1_1"]}),
        "extend_channel" => json!({"channel": "jobs", "group": "g", "leases": ["lse_1_2"]}),
        "await_channels" => json!({"channels": ["jobs"]}),
        "broadcast_channels" => json!({"channels": ["jobs"], "value": 1}),
        "channeldef" => json!({"op": "create", "name": "made-by-op"}),
        "create_channel" => json!({"name": "made"}),
        "update_channel" | "delete_channel" => json!({"name": "made"}),
        "purge_channel" => json!({"name": "jobs"}),
        "create_definition" => {
            let source = json!({"description": "d", "instructions": "i"});
            json!({"kind": "skill", "name": "style", "source": source})
        }
        "fork_definition" => json!({"kind": "skill", "from": "style", "name": "style-2"}),
        "promote_definition" | "retire_definition" | "get_definition" | "verify_definition" => {
            json!({"kind": "skill", "name": "style", "version": 1})
        }
        "diff_definitions" => json!({"kind": "skill", "from": "style@1", "to": "style-2@1"}),
        "orchestrate" => json!({"goal": "done"}),
        "orchestrate_say" => json!({"text": "faster"}),
        "agentdef" => json!({"op": "verify", "name": "a", "overlay": {}}),
        _ => json!({}),
    }
}

#[test]
fn every_card_is_whole() {
    for served in Operations::builtin().iter() {
        let card = served.card();
        let name = card.name();
        assert!(card.summary.ends_with('.'), "{name}");
        assert!(!card.toolset.is_empty() && !card.routes().is_empty(), "{name}");
        // A read whose input is more than a query can hold is a POST.
        let reads = |route: &Route| matches!(route.method, Method::Get | Method::Post);
        assert!(!card.is_read_only() || card.routes().iter().all(reads), "{name}");
        let is_get = |route: &Route| route.method == Method::Get;
        assert!(card.is_read_only() || !card.routes().iter().any(is_get), "{name}");
        let idempotent = |method| matches!(method, Method::Get | Method::Put | Method::Delete);
        assert!(card.is_idempotent() || !card.routes().iter().any(|route| idempotent(route.method)), "{name}");
        let rest =
            |route: &Route| route.parts().take(route.parts().count() - 1).any(|part| matches!(part, Part::Rest(_)));
        assert!(!card.routes().iter().any(rest), "{name}: the rest of a path is its last part");
        assert_eq!(served.has_key_field(), card.takes_key(), "{name}: what changes something takes an idempotency key");
    }
}

#[test]
fn openapi_is_as_committed() {
    insta::assert_json_snapshot!(openapi(&Operations::builtin(), "/"));
}

#[test]
fn every_reference_in_openapi_leads_somewhere_and_every_field_is_described() {
    fn walk(value: &serde_json::Value, whole: &serde_json::Value, place: &str) {
        if let Some(reference) = value.get("$ref").and_then(serde_json::Value::as_str) {
            let pointer = reference.strip_prefix('#').expect("references are inside");
            assert!(whole.pointer(pointer).is_some(), "{reference} at {place}");
        }
        if let Some(properties) = value.get("properties").and_then(serde_json::Value::as_object) {
            for (name, schema) in properties {
                let tag = schema.get("const").is_some();
                assert!(tag || schema.get("description").is_some(), "{place}/{name} has no description");
            }
        }
        match value {
            serde_json::Value::Object(map) => {
                map.iter().for_each(|(key, value)| walk(value, whole, &format!("{place}/{key}")));
            }
            serde_json::Value::Array(items) => {
                items.iter().enumerate().for_each(|(at, value)| walk(value, whole, &format!("{place}/{at}")));
            }
            _ => {}
        }
    }
    let whole = openapi(&Operations::builtin(), "/");
    walk(&whole, &whole, "");
}

#[tokio::test]
async fn what_is_not_there_says_so_in_json() {
    let server = Setup::default().start().await;
    let answer = server.get("/v1/nothing").await;
    assert_eq!((answer.status, answer.code()), (404, "unknown_route"));
    let answer = server.send(Method::Post, "/v1/_me", &[], Some(b"{}")).await;
    assert_eq!(
        (answer.status, answer.code(), answer.header("allow")),
        (405, "wrong_method", Some("GET, HEAD, OPTIONS"))
    );
    let answer = server.get("/v1/runs:batch").await;
    assert_eq!((answer.status, answer.header("allow")), (405, Some("POST, OPTIONS")));
    let answer = server.get("/v1/runs/../runs?limit=1").await;
    assert_eq!(answer.status, 200, "the client resolves the path");
}

#[tokio::test]
async fn head_and_options_are_answered() {
    let server = Setup::default().start().await;
    for (request, wanted) in [
        ("OPTIONS /v1/runs HTTP/1.1", "HTTP/1.1 204"),
        ("HEAD /v1/agents HTTP/1.1", "HTTP/1.1 200"),
        ("HEAD /healthz HTTP/1.1", "HTTP/1.1 200"),
        ("DELETE /v1/runs HTTP/1.1", "HTTP/1.1 405"),
    ] {
        let mut stream = server.say(format!("{request}\r\nHost: localhost\r\n\r\n").as_bytes()).await;
        let head = read_until(&mut stream, "\r\n\r\n").await;
        assert!(head.starts_with(wanted), "{request}: {head}");
        assert!(head.to_lowercase().contains("x-request-id"), "{head}");
    }
}

#[tokio::test]
async fn an_answer_does_not_wait_for_what_the_caller_says_next() {
    let server = Setup::default().start().await;
    let body = r#"{"agent":"quick","prompt":"go"}"#;
    for (accept, end) in [("application/json", "Done: ü."), ("text/event-stream", "event: done")] {
        let head = format!("Host: localhost\r\nContent-Type: application/json\r\nAccept: {accept}\r\n");
        let request = format!("POST /v1/runs HTTP/1.1\r\n{head}Content-Length: {}\r\n\r\n{body}", body.len());
        for next in ["", "\r\n", "GET /v1/agents HT"] {
            let mut stream = server.say(format!("{request}{next}").as_bytes()).await;
            let answer = read_until(&mut stream, end).await;
            assert!(answer.starts_with("HTTP/1.1 200"), "{accept} {next:?}: {answer}");
        }
    }
    let headers = "X: y\r\n".repeat(200);
    for bad in [format!("GET / HTTP/1.1\r\n{headers}\r\n"), "GET / HTTP/9.9\r\n\r\n".into()] {
        let mut stream = server.say(bad.as_bytes()).await;
        let answer = read_until(&mut stream, "\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
}

#[tokio::test]
async fn a_path_and_a_body_that_contradict_each_other_are_refused() {
    let server = Setup::default().start().await;
    server.post("/v1/runs", json!({"agent": "quick", "prompt": "go"})).await;
    let run = server.fake.run_ids()[0];
    let path = format!("/v1/runs/{run}/cancel");
    let other = "r_00000000000000000000000000000000";
    assert_eq!(server.post(&path, json!({"run_id": other})).await.code(), "contradiction");
    assert_eq!(server.post(&path, json!({"run_id": run})).await.status, 200);
    assert_eq!(server.post(&format!("{path}?reason=x"), json!({})).await.code(), "unexpected_query");
    assert_eq!(server.post(&path, json!({"agent_id": "x"})).await.code(), "both_spellings");
}

#[tokio::test]
async fn lists_are_filtered_and_paged_by_the_query() {
    let server = Setup::default().start().await;
    let client = server.client(None);
    for user in ["ann", "bob", "ann"] {
        server.post("/v1/runs", json!({"agent": "quick", "prompt": "go", "user_id": user})).await;
    }
    let page = server.get("/v1/runs?limit=2&status=completed,failed&status=queued").await;
    assert_eq!(page.body["runs"].as_array().map(Vec::len), Some(2));
    let next = page.body["next"].as_str().expect("there is more").parse().expect("a run id");
    let rest = client.call(&ListRuns { before: Some(next), ..ListRuns::default() }).await.expect("a page");
    assert_eq!((rest.runs.len(), rest.next), (1, None));
    assert_eq!(server.get("/v1/users/ann/agents").await.body["runs"].as_array().map(Vec::len), Some(2));
    assert_eq!(server.get("/v1/runs?limit=201").await.code(), "out_of_range");
    assert_eq!(server.get("/v1/runs?limit=5&limit=6").await.code(), "repeated");
    assert_eq!(server.get("/v1/runs?status=done").await.code(), "bad_value");
    assert_eq!(server.get("/v1/runs?agent=%zz").await.code(), "bad_query");
}

#[tokio::test]
async fn the_client_reaches_every_operation() {
    let server = Setup::default().start().await;
    let client = server.client(None);
    let run = client.call(&SpawnRun::new("quick".parse().expect("a name"), "go")).await.expect("it runs");
    let batch = server.post("/v1/runs:batch", json!({"spawns": [{"agent": "quick", "prompt": "go"}]})).await;
    keep(&server, run.run_id, "notes/one.md", "a note").await;
    let evaluated = server.post(&format!("/v1/runs/{}/evaluations", run.run_id), json!({"score": 1})).await;
    // A message that a group has: it is given back, then extended.
    server.post("/v1/channels/jobs/publish", json!({"value": 1})).await;
    server.post("/v1/channels/jobs/subscribe", json!({"group": "g"})).await;
    let goal = server.post("/v1/goals", json!({"goal": "done"})).await;
    for served in server.app.operations().iter() {
        let description = served.card().description;
        let input = match description.name {
            "orchestrate_resume" => {
                let unknown =
                    client.call_json(&description, json!({"token": "ask_1"})).await.expect_err("no goal asks");
                assert_eq!(unknown.wire_code(), "unknown_token");
                continue;
            }
            // After the cancel, whose end is awaited.
            "orchestrate_say" => {
                let run = goal.body["run_id"].as_str().expect("an id");
                server.get(&format!("/v1/goals/{run}/result?wait=true")).await;
                let input = json!({"run_id": run, "text": "faster"});
                let ended = client.call_json(&description, input).await.expect_err("it has ended");
                assert_eq!(ended.wire_code(), "goal_ended");
                continue;
            }
            "orchestrate_rm" => json!({"run_id": goal.body["run_id"]}),
            "orchestrate_status" | "orchestrate_tail" | "orchestrate_result" | "orchestrate_cancel"
            | "orchestrate_land" | "diff_worktree" | "commit_worktree" | "remove_worktree" => {
                json!({"run_id": goal.body["run_id"]})
            }
            "get_evaluation" => json!({"eval_id": evaluated.body["eval_id"]}),
            name => input(name, run.run_id, &batch.body["batch_id"]),
        };
        let answer = client.call_json(&description, input).await;
        assert!(answer.is_ok(), "{}: {answer:?}", description.name);
    }
    let nothing = json!({"agent": "quick"});
    let error = client.call_json(&Description::of::<SpawnRun>(), nothing).await.expect_err("nothing is asked");
    assert_eq!(error.wire_code(), "missing_key");
    let by_agent_id = GetRun { agent_id: Some(run.agent_id), ..GetRun::default() };
    assert_eq!(client.call(&by_agent_id).await.expect("it is there").run_id, run.run_id);
}
