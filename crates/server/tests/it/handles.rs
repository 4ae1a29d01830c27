//! Waiting, detaching, letting go.

use std::time::Duration;

use drawloom_contract::record::Status;
use drawloom_net::Method;
use drawloom_server::Limits;
use drawloom_wire::{
    batches::{BatchStatus, GetBatch},
    runs::RunResult,
};
use serde_json::json;

use crate::{
    fake::FINAL,
    setup::{Setup, read_until, within},
};

#[tokio::test]
async fn json_waits_and_answers_the_result() {
    let server = Setup::default().start().await;
    let answer = server.post("/v1/runs", json!({"agent": "quick", "prompt": "go", "user_id": "bob"})).await;
    assert_eq!(answer.status, 200);
    let result: RunResult = serde_json::from_value(answer.body.clone()).expect("a result");
    assert_eq!((result.status, result.final_text.as_deref()), (Status::Completed, Some(FINAL)));
    assert_eq!(result.user_id.as_str(), "bob");
    assert_eq!(answer.header("drawloom-run-id"), Some(result.run_id.to_string().as_str()));
    assert_eq!(answer.header("drawloom-agent-id"), Some(result.agent_id.as_str()));
    assert_eq!(answer.header("drawloom-session-id"), Some(result.session_id.to_string().as_str()));
    assert!(answer.header("x-request-id").is_some());
}

#[tokio::test]
async fn the_ids_are_sent_before_the_wait() {
    let server = Setup::default().start().await;
    let body = r#"{"agent":"slow","prompt":"go"}"#;
    let request = format!(
        "POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = server.say(request.as_bytes()).await;
    let head = read_until(&mut stream, "\r\n\r\n").await.to_lowercase();
    assert!(head.starts_with("http/1.1 200") && head.contains("drawloom-run-id: r_"), "{head}");
    let run = server.fake.run_ids()[0];
    assert_eq!(server.fake.status(run), Status::Queued, "nothing ended yet");
    server.fake.finish(run, Status::Completed);
    let rest = read_until(&mut stream, "\r\n0\r\n\r\n").await;
    assert!(rest.contains("\"status\":\"completed\""), "{rest}");
}

#[tokio::test]
async fn detach_answers_the_ids_at_once() {
    let server = Setup::default().start().await;
    let answer = server.post("/v1/runs", json!({"agent": "slow", "prompt": "go", "mode": "detach"})).await;
    assert_eq!((answer.status, answer.body["status"].as_str()), (202, Some("queued")));
    assert_eq!(answer.body["position"], 1);
    // The same without a word about JSON: who does not wait cannot stream.
    let body = br#"{"agent": "slow", "prompt": "go", "mode": "detach"}"#;
    assert_eq!(server.send(Method::Post, "/v1/runs", &[], Some(body)).await.status, 202);
}

#[tokio::test]
async fn a_wait_that_is_over_answers_the_run_as_it_stands() {
    let server = Setup::default().start().await;
    let answer = server.post("/v1/runs", json!({"agent": "slow", "prompt": "go", "wait_ms": 30})).await;
    assert_eq!((answer.status, answer.body["status"].as_str()), (200, Some("queued")));
    let run = server.fake.run_ids()[0];
    server.fake.admit(run);
    let answer = server.get(&format!("/v1/runs/{run}?wait_ms=30")).await;
    assert_eq!((answer.status, answer.body["status"].as_str()), (200, Some("running")));
    let path = format!("/v1/runs/{run}?wait_ms=20000");
    let wait = server.get(&path);
    let end = async { server.fake.finish(run, Status::Failed) };
    let (answer, ()) = within(async { tokio::join!(wait, end) }).await;
    assert_eq!((answer.status, answer.body["error"]["code"].as_str()), (200, Some("stopped")));
}

#[tokio::test]
async fn a_batch_joins_detaches_and_is_taken_up_again() {
    let server = Setup::default().start().await;
    let client = server.client(None);
    let spawns = json!([{"agent": "quick", "prompt": "1"}, {"agent": "failing", "prompt": "2"}, {"agent": "quick", "prompt": "3"}]);
    let answer = server.post("/v1/runs:batch", json!({"spawns": spawns, "timeout_ms": 500})).await;
    assert_eq!((answer.status, answer.body["spawned"].as_u64()), (200, Some(3)));
    let results = answer.body["results"].as_array().expect("results").clone();
    let indexes: Vec<_> = results.iter().map(|result| result["index"].as_u64()).collect();
    assert_eq!(indexes, [Some(0), Some(1), Some(2)]);
    assert_eq!(results[1]["status"], "failed");
    assert!(answer.header("drawloom-batch-id").is_some());
    assert_eq!(server.fake.last_start().timeout_ms, Some(500));

    let id = answer.body["batch_id"].as_str().expect("an id").parse().expect("a batch id");
    let again = client.call(&GetBatch { batch_id: id, wait_ms: None, result_bytes: None }).await.expect("it is there");
    assert_eq!((again.status, again.results.len()), (BatchStatus::Done, 3));
    let cancelled = server.post(&format!("/v1/batches/{id}/cancel"), json!({})).await;
    assert_eq!((cancelled.status, cancelled.body["cancelled"].as_u64()), (200, Some(0)));
}

#[tokio::test]
async fn a_batch_whose_wait_is_over_stands_as_it_is() {
    let server = Setup::default().start().await;
    let spawns = json!([{"agent": "quick", "prompt": "1"}, {"agent": "slow", "prompt": "2"}]);
    let answer = server.post("/v1/runs:batch", json!({"spawns": spawns, "wait_ms": 30})).await;
    assert_eq!((answer.status, answer.body["status"].as_str()), (200, Some("running")));
    assert_eq!(answer.body["results"][0]["status"], "completed");
    assert_eq!(answer.body["results"][1]["status"], "queued");
    let detached = server.post("/v1/runs:batch", json!({"spawns": spawns, "mode": "detach"})).await;
    assert_eq!((detached.status, detached.body["results"].as_array().map(Vec::len)), (202, Some(2)));
}

#[tokio::test]
async fn a_caller_who_disconnects_leaves_the_run_unless_told_otherwise() {
    let server = Setup::default().start().await;
    for (stays, accept) in [(true, "application/json"), (false, "application/json"), (false, "text/event-stream")] {
        let body = json!({"agent": "slow", "prompt": "go", "cancel_on_disconnect": !stays}).to_string();
        let request = format!(
            "POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut stream = server.say(request.as_bytes()).await;
        read_until(&mut stream, "\r\n\r\n").await;
        let run = *server.fake.run_ids().last().expect("a run");
        drop(stream);
        if stays {
            // The next caller's cancel shows that the server noticed a drop by then.
            continue;
        }
        within(server.fake.until(|fake| fake.status(run) == Status::Cancelled)).await;
    }
    assert_eq!(server.fake.status(server.fake.run_ids()[0]), Status::Queued);
}

#[tokio::test]
async fn a_server_that_stops_answers_waits_as_they_stand_and_cancels_nothing() {
    let mut server = Setup::default().start().await;
    let body = r#"{"agent":"slow","prompt":"go","cancel_on_disconnect":true}"#;
    let request = format!(
        "POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = server.say(request.as_bytes()).await;
    read_until(&mut stream, "\r\n\r\n").await;
    server.stop().await;
    let rest = read_until(&mut stream, "\r\n0\r\n\r\n").await;
    assert!(rest.contains("\"status\":\"queued\"") && rest.contains("the server shut down"), "{rest}");
    assert_eq!(server.fake.status(server.fake.run_ids()[0]), Status::Queued);
}

#[tokio::test]
async fn a_connection_that_does_not_finish_is_cut_when_the_server_stops() {
    let limits = Limits { drain: Duration::from_millis(50), ..Limits::default() };
    let mut server = Setup { limits, ..Setup::default() }.start().await;
    // Half a request: its body never comes.
    let request = "POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{";
    let _stream = server.say(request.as_bytes()).await;
    // The server has seen it once it answers somebody who came later.
    assert_eq!(server.get("/healthz").await.status, 200);
    server.stop().await;
}
