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
