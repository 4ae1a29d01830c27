//! The server itself: health, metrics, limits, panics.

use std::time::Duration;

use drawloom_net::Method;
use drawloom_server::Limits;
use serde_json::json;

use crate::setup::{Setup, read_until};

#[tokio::test]
async fn health_says_whether_runs_can_be_taken() {
    let server = Setup { shared: Some("shared-token-of-the-tests"), ..Setup::default() }.start().await;
    let health = server.client(None).health().await.expect("it wants no token");
    assert!(health.ok);
    let ill = Setup { well: false, ..Setup::default() }.start().await;
    let answer = ill.get("/healthz").await;
    assert_eq!((answer.status, answer.code(), answer.header("retry-after")), (503, "store_full", Some("1")));
}

#[tokio::test]
async fn readiness_says_why_no_runs_should_be_sent() {
    let server = Setup { shared: Some("shared-token-of-the-tests"), ..Setup::default() }.start().await;
    assert_eq!(server.get("/readyz").await.status, 200, "without a token");
    let ill = Setup { well: false, ..Setup::default() }.start().await;
    let answer = ill.get("/readyz").await;
    assert_eq!((answer.status, answer.code()), (503, "store_full"));
    let stopping = Setup { stopping: true, ..Setup::default() }.start().await;
    let answer = stopping.get("/readyz").await;
    assert_eq!((answer.status, answer.code()), (503, "stopping"));
    assert_eq!(stopping.get("/healthz").await.status, 200, "it is alive");
}

#[tokio::test]
async fn metrics_want_a_token_when_there_is_one() {
    let server = Setup { principals: true, ..Setup::default() }.start().await;
    assert_eq!(server.get("/metrics").await.status, 401);
    let idle = [("authorization", "Bearer idle-token-of-the-tests")];
    assert_eq!(server.send(Method::Get, "/metrics", &idle, None).await.status, 403);
    let ann = [("authorization", "Bearer ann-token-of-the-tests")];
    assert_eq!(server.send(Method::Get, "/metrics", &ann, None).await.body, json!("drawloom_runs_active 1\n"));
}

#[tokio::test]
async fn what_is_meant_for_another_server_is_refused_everywhere_before_anything_happens() {
    let server = Setup { shared: Some("shared-token-of-the-tests"), ..Setup::default() }.start().await;
    // The entropy of this server is zeros.
    let own = "0".repeat(32);
    for (method, path) in
        [(Method::Get, "/healthz"), (Method::Get, "/readyz"), (Method::Post, "/mcp"), (Method::Post, "/v1/runs")]
    {
        let answer = server.send(method, path, &[("drawloom-instance", "another")], None).await;
        assert_eq!((answer.status, answer.code()), (421, "wrong_instance"), "{path}");
        let answer = server.send(method, path, &[("drawloom-instance", &own)], None).await;
        assert_ne!(answer.status, 421, "{path}");
    }
}

#[tokio::test]
async fn a_panic_is_a_bug_with_a_request_id_and_the_server_goes_on() {
    let server = Setup::default().start().await;
    let answer = server.post("/v1/runs", json!({"agent": "crash", "prompt": "go"})).await;
    assert_eq!((answer.status, answer.code()), (500, "bug"));
    assert_eq!(answer.body["error"]["request_id"].as_str(), answer.header("x-request-id"));
    assert!(!answer.body.to_string().contains("secret"), "{}", answer.body);
    assert_eq!(server.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn a_full_house_says_so_and_may_be_asked_again() {
    let server = Setup::default().start().await;
    let answer = server.post("/v1/runs", json!({"agent": "full", "prompt": "go"})).await;
    assert_eq!((answer.status, answer.code()), (429, "backpressure"));
    assert_eq!(answer.body["code"], "backpressure");
    assert_eq!((answer.body["error"]["retryable"].as_bool(), answer.header("retry-after")), (Some(true), Some("1")));
}

#[tokio::test]
async fn a_callers_request_id_is_kept_when_it_can_be_shown() {
    let server = Setup::default().start().await;
    let given = server.send(Method::Get, "/v1/nothing", &[("x-request-id", "mine-1")], None).await;
    assert_eq!(
        (given.header("x-request-id"), given.body["error"]["request_id"].as_str()),
        (Some("mine-1"), Some("mine-1"))
    );
    let bad = server.send(Method::Get, "/v1/nothing", &[("x-request-id", "a b")], None).await;
    assert_ne!(bad.header("x-request-id"), Some("a b"));
}

#[tokio::test]
async fn a_connection_over_the_limit_is_told_so() {
    let limits = Limits { connections: 1, ..Limits::default() };
    let server = Setup { limits, ..Setup::default() }.start().await;
    let body = r#"{"agent":"slow","prompt":"go"}"#;
    let request = format!("POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let mut first = server.say(request.as_bytes()).await;
    read_until(&mut first, "event: agent").await;
    let mut second = server.say(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    let answer = read_until(&mut second, "}}").await;
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("too_many_connections"), "{answer}");
}

#[tokio::test]
async fn a_body_that_does_not_come_is_given_up() {
    let limits = Limits { body_timeout: Duration::from_millis(30), ..Limits::default() };
    let server = Setup { limits, ..Setup::default() }.start().await;
    let mut stream = server.say(b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{").await;
    let answer = read_until(&mut stream, "}}").await;
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("body_too_slow"), "{answer}");
}

#[tokio::test]
async fn a_head_that_does_not_come_is_given_up() {
    use tokio::io::AsyncReadExt;
    let limits = Limits { head_timeout: Duration::from_millis(30), ..Limits::default() };
    let server = Setup { limits, ..Setup::default() }.start().await;
    let mut stream = server.say(b"POST /v1/runs HTTP/1.1\r\nHo").await;
    let mut rest = Vec::new();
    crate::setup::within(stream.read_to_end(&mut rest)).await.expect("it is closed");
}

#[tokio::test]
async fn who_waits_for_leave_to_send_too_much_is_told_at_once() {
    let server = Setup::default().start().await;
    let head = format!(
        "POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n",
        64 * 1024 * 1024
    );
    let mut stream = server.say(head.as_bytes()).await;
    let answer = read_until(&mut stream, "}}").await;
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("too_large"), "{answer}");
}

#[tokio::test]
async fn large_bodies_share_a_limit_and_one_that_does_not_go_on_makes_room() {
    let limits = Limits { bodies: 128 * 1024, ..Limits::default() };
    let server = Setup { limits, ..Setup::default() }.start().await;
    let half = |length: usize| {
        let head = "POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n";
        format!("{head}{}", " ".repeat(length))
    };
    let stuck = server.say(half(120_000).as_bytes()).await;
    until_received(&server).await;
    let prompt = "x".repeat(100_000);
    let large = server.post("/v1/runs", json!({"agent": "quick", "prompt": prompt})).await;
    assert_eq!(large.status, 200, "{}", large.body);
    drop(stuck);
    let mut greedy = server.say(half(200_000).as_bytes()).await;
    let answer = read_until(&mut greedy, "}}").await;
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("too_many_bodies"), "{answer}");
}

/// Returns when the server holds bytes of a large body.
async fn until_received(server: &crate::setup::Server) {
    crate::setup::within(async {
        while server.app.body_bytes() == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}
