//! One key, one request.

use drawloom_net::Method;
use serde_json::{Value, json};

use crate::setup::{Answered, Server, Setup};

async fn post(server: &Server, body: Value, key: Option<&str>) -> Answered {
    let mut headers = vec![("accept", "application/json")];
    headers.extend(key.map(|key| ("idempotency-key", key)));
    server.send(Method::Post, "/v1/runs", &headers, Some(body.to_string().as_bytes())).await
}

#[tokio::test]
async fn the_same_request_is_the_same_run_however_it_is_spelled_or_waited_for() {
    let server = Setup::default().start().await;
    let first =
        post(&server, json!({"agent": "quick", "prompt": "go", "tools": ["Read"], "idempotency_key": "k"}), None).await;
    assert_eq!(first.status, 200);
    for same in [
        json!({"prompt": "go", "agent": "quick", "allowed_tools": ["Read"], "idempotency_key": "k", "mode": "detach"}),
        json!({"agent": "quick", "prompt": "go", "tools": ["Read"], "idempotency_key": "k", "wait_ms": 5, "session_id": null}),
        json!({"agent": "quick", "tools": ["Read"], "idempotency_key": "k", "cancel_on_disconnect": true,
               "segments": [{"role": "user", "content": [{"type": "trusted-text", "text": "go"}]}]}),
    ] {
        let answer = post(&server, same.clone(), None).await;
        assert_eq!(answer.body["run_id"], first.body["run_id"], "{same}: {}", answer.body);
    }
    let by_header = post(&server, json!({"agent": "quick", "prompt": "go", "tools": ["Read"]}), Some("k")).await;
    assert_eq!(by_header.body["run_id"], first.body["run_id"]);
    assert_eq!(server.fake.run_ids().len(), 1);
}

#[tokio::test]
async fn a_repeated_request_can_be_streamed_too() {
    let server = Setup::default().start().await;
    let body = json!({"agent": "quick", "prompt": "go", "idempotency_key": "k"}).to_string();
    let mut streams = Vec::new();
    for _ in 0..2 {
        let answer = server.send(Method::Post, "/v1/runs", &[], Some(body.as_bytes())).await;
        streams.push(answer.body.as_str().expect("a stream is text").to_owned());
    }
    assert_eq!(streams[0], streams[1]);
    assert!(streams[0].contains("event: done"));
}

#[tokio::test]
async fn another_body_or_two_keys_are_refused() {
    let server = Setup::default().start().await;
    post(&server, json!({"agent": "quick", "prompt": "go"}), Some("k")).await;
    let other = post(&server, json!({"agent": "quick", "prompt": "stop"}), Some("k")).await;
    assert_eq!((other.status, other.code()), (409, "idempotency_key_reused"));
    let two = post(&server, json!({"agent": "quick", "prompt": "go", "idempotency_key": "l"}), Some("k")).await;
    assert_eq!((two.status, two.code()), (400, "contradiction"));
    let empty = post(&server, json!({"agent": "quick", "prompt": "go", "idempotency_key": ""}), None).await;
    assert_eq!((empty.status, empty.code()), (400, "too_short"));
}

#[tokio::test]
async fn a_repeated_cancel_gets_the_first_answer() {
    let server = Setup::default().start().await;
    server.post("/v1/runs", json!({"agent": "slow", "prompt": "go", "mode": "detach"})).await;
    let path = format!("/v1/runs/{}/cancel", server.fake.run_ids()[0]);
    let first = server.post(&path, json!({"reason": "enough", "idempotency_key": "k"})).await;
    assert_eq!((first.status, first.body["cancelled"].as_bool()), (200, Some(true)));
    let by_header = br#"{"reason": "enough"}"#;
    let again = server.send(Method::Post, &path, &[("idempotency-key", "k")], Some(by_header)).await;
    assert_eq!(again.body, first.body);
    let without = server.post(&path, json!({"reason": "enough"})).await;
    assert_eq!(without.body["cancelled"], false, "it is carried out");
    let other = server.post(&path, json!({"reason": "no more", "idempotency_key": "k"})).await;
    assert_eq!((other.status, other.code()), (409, "idempotency_key_reused"));
}

#[tokio::test]
async fn a_key_belongs_to_its_caller_and_its_operation() {
    let server = Setup { principals: true, ..Setup::default() }.start().await;
    let body = json!({"older_than_seconds": 60, "idempotency_key": "k"}).to_string();
    for (token, removals) in [("ann", 1), ("ann", 1), ("eve", 2), ("eve", 2)] {
        let token = format!("Bearer {token}-token-of-the-tests");
        let headers = [("authorization", token.as_str())];
        let answer = server.send(Method::Post, "/v1/runs:prune", &headers, Some(body.as_bytes())).await;
        assert_eq!((answer.status, answer.body["runs"].as_u64()), (200, Some(2)), "{}", answer.body);
        assert_eq!(server.broom.0.lock().expect("no panic").len(), removals);
    }
    let headers = [("authorization", "Bearer ann-token-of-the-tests")];
    let spawn = br#"{"agent": "quick", "prompt": "go", "mode": "detach", "idempotency_key": "k"}"#;
    assert_eq!(server.send(Method::Post, "/v1/runs", &headers, Some(spawn)).await.status, 202);
}

#[tokio::test]
async fn a_request_that_failed_can_be_repeated_with_its_key() {
    let server = Setup::default().start().await;
    let unknown = "/v1/runs/r_00000000000000000000000000000000/cancel";
    for _ in 0..2 {
        let answer = server.post(unknown, json!({"idempotency_key": "k"})).await;
        assert_eq!((answer.status, answer.code()), (404, "unknown_run"));
    }
}
