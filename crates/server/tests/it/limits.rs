//! Every limit of the surfaces, crossed.

use std::time::Duration;

use drawloom_contract::{
    ids::RunId,
    limits::{Amount, Limit},
    record::Status,
};
use drawloom_net::Method;
use drawloom_server::{LIMITS, Limits};
use serde_json::{Value, json};
use tokio::{io::AsyncReadExt, net::TcpStream};

use crate::setup::{Server, Setup, read_until, within};

const SOON: Duration = Duration::from_millis(200);
const HEAD: &str = "HTTP/1.1\r\nHost: localhost\r\n";

async fn server(limits: Limits, principals: bool) -> Server {
    Setup { limits, principals, ..Setup::default() }.start().await
}

/// A connection on which a run is followed that does not end.
async fn busy(server: &Server, token: &str) -> TcpStream {
    let body = r#"{"agent":"slow","prompt":"go"}"#;
    let token = format!("Authorization: Bearer {token}\r\n");
    let request = format!("POST /v1/runs {HEAD}{token}Content-Length: {}\r\n\r\n{body}", body.len());
    let mut stream = server.say(request.as_bytes()).await;
    read_until(&mut stream, "HTTP/1.1 200").await;
    stream
}

/// What comes until the server closes the connection.
async fn rest(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    // A connection that is closed with unread bytes in it ends with an error.
    _ = within(stream.read_to_end(&mut bytes)).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Asks for an answer of 4 MiB on each of `count` connections; the last one reads.
async fn large_answers(server: &Server, count: usize, token: &str) -> (Vec<TcpStream>, String) {
    let bearer = format!("Bearer {token}");
    let body = br#"{"agent":"slow","prompt":"go","mode":"detach"}"#;
    server.send(Method::Post, "/v1/runs", &[("authorization", &bearer)], Some(body)).await;
    let mut kept = Vec::new();
    let run = server.fake.run_ids()[0];
    server.fake.say(run, &"x".repeat(4 << 20));
    server.fake.finish(run, Status::Completed);
    let request = format!("GET /v1/runs/{run} {HEAD}Authorization: Bearer {token}\r\nConnection: close\r\n\r\n");
    for _ in 1..count {
        let mut stream = server.say(request.as_bytes()).await;
        read_until(&mut stream, "HTTP/1.1 200").await;
        kept.push(stream);
    }
    let last = rest(server.say(request.as_bytes()).await).await;
    (kept, last)
}

/// The number that a limit allows.
fn most(limit: &Limit) -> usize {
    match limit.default {
        Amount::Count(number) | Amount::Bytes(number) | Amount::Millis(number) => {
            usize::try_from(number).expect("a number that fits")
        }
        other => panic!("{} allows {other:?}", limit.name),
    }
}

/// The code of a request for a run that also has `more`.
async fn spawning(more: Value) -> String {
    let server = server(Limits::default(), false).await;
    let mut body = json!({ "agent": "quick", "prompt": "go" });
    body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    server.post("/v1/runs", body).await.code().to_owned()
}

/// A server whose clock runs `speed` times as fast, with one run that ended with `text`.
async fn with_text(text: &str, speed: u32) -> (Server, RunId) {
    let server = Setup { speed, ..Setup::default() }.start().await;
    server.post("/v1/runs", json!({ "agent": "slow", "prompt": "go", "mode": "detach" })).await;
    let run = server.fake.run_ids()[0];
    server.fake.say(run, text);
    server.fake.finish(run, Status::Completed);
    (server, run)
}

/// The code of reading from a run that ended with `text`.
async fn artifact(query: &str, text: &str, speed: u32) -> String {
    let (server, run) = with_text(text, speed).await;
    let answered = server.get(&format!("/v1/runs/{run}/artifact?{query}")).await;
    match answered.body["truncated"] == json!(true) {
        true => "truncated".to_owned(),
        false => answered.code().to_owned(),
    }
}

/// The code of one of many searches at once that got no turn in time. Each takes some seconds of the server's clock.
async fn searches(at_once: usize) -> String {
    let (server, run) = with_text(&"x\n".repeat(500_000), 10_000).await;
    let path = format!("/v1/runs/{run}/artifact?grep=y");
    let searches = futures::future::join_all((0..at_once * 20).map(|_| server.get(&path))).await;
    let refused = searches.iter().find(|answered| answered.status != 200);
    refused.map_or_else(|| "answered".to_owned(), |answered| answered.code().to_owned())
}

/// Crosses a limit, and says by which code it was learnt.
async fn cross(limit: &Limit) -> String {
    let get = format!("GET /healthz {HEAD}\r\n");
    let post = |length: usize| format!("POST /v1/runs {HEAD}Content-Length: {length}\r\n\r\n");
    let code = |answer: String| {
        let found = answer.split("\"code\":\"").nth(1).and_then(|rest| rest.split('"').next()).map(str::to_owned);
        found.unwrap_or_else(|| if answer.is_empty() { "closed".into() } else { answer })
    };
    match limit.name {
        "connections" => {
            let server = server(Limits { connections: 1, ..Limits::default() }, false).await;
            let _kept = busy(&server, "").await;
            code(rest(server.say(get.as_bytes()).await).await)
        }
        "reserved_connections" => {
            let limits = Limits { connections: 3, reserved: 2, ..Limits::default() };
            let server = server(limits, true).await;
            let first = server.say(b"").await;
            let mut second = server.say(get.as_bytes()).await;
            read_until(&mut second, "HTTP/1.1 200").await;
            code(rest(first).await)
        }
        "connections_per_caller" => {
            let server = server(Limits { connections_per_caller: 1, ..Limits::default() }, true).await;
            let _kept = busy(&server, "ann-token-of-the-tests").await;
            let request = format!("GET /v1/_me {HEAD}Authorization: Bearer ann-token-of-the-tests\r\n\r\n");
            code(rest(server.say(request.as_bytes()).await).await)
        }
        "write_time" => {
            let server = server(Limits { write_timeout: SOON, ..Limits::default() }, false).await;
            let stalled =
                server.say("GET /v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(400).as_bytes()).await;
            within(async {
                while server.app.presence().connections() == 0 {
                    tokio::task::yield_now().await;
                }
                while server.app.presence().connections() > 0 {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            })
            .await;
            drop(stalled);
            "closed".into()
        }
        "head_time" => {
            let server = server(Limits { head_timeout: SOON, ..Limits::default() }, false).await;
            code(rest(server.say(b"GET /healthz HT").await).await)
        }
        "head_bytes" => {
            let server = server(Limits::default(), false).await;
            let long = format!("GET /healthz {HEAD}X: {}\r\n\r\n", "x".repeat(200 * 1024));
            let answer = rest(server.say(long.as_bytes()).await).await;
            answer.split(' ').nth(1).unwrap_or_default().to_owned()
        }
        "body_time" => {
            let server = server(Limits { body_timeout: SOON, ..Limits::default() }, false).await;
            code(read_until(&mut server.say(post(10).as_bytes()).await, "}}").await)
        }
        "body_bytes" => {
            let server = server(Limits { body: 100, ..Limits::default() }, false).await;
            let request = format!("{}{}", post(150), " ".repeat(150));
            code(read_until(&mut server.say(request.as_bytes()).await, "}}").await)
        }
        "bodies_bytes" => {
            let server = server(Limits { bodies: 128 * 1024, ..Limits::default() }, false).await;
            let request = format!("{}{}", post(1_000_000), " ".repeat(300_000));
            code(read_until(&mut server.say(request.as_bytes()).await, "}}").await)
        }
        "answers_bytes" | "answers_bytes_per_caller" => {
            // On a slow machine the first reader must not count as one that does not read.
            let mut limits = Limits { write_timeout: std::time::Duration::from_secs(3600), ..Limits::default() };
            let of_all = limit.name == "answers_bytes";
            *(if of_all { &mut limits.answers } else { &mut limits.answers_per_caller }) = 5 << 20;
            let server = server(limits, true).await;
            // One of 4 MiB is being sent to a caller who has just begun to read, so a second one is refused.
            let (_kept, last) = large_answers(&server, 2, "ann-token-of-the-tests").await;
            code(last)
        }
        "batch_body_bytes" => {
            let server = server(Limits::default(), false).await;
            let body = vec![b' '; most(limit) + 1];
            server.send(Method::Post, "/v1/runs:batch", &[], Some(&body)).await.code().into()
        }
        "body_depth" => {
            let server = server(Limits::default(), false).await;
            let body = format!("{}{}", "[".repeat(most(limit) + 1), "]".repeat(most(limit) + 1));
            server.send(Method::Post, "/v1/runs", &[], Some(body.as_bytes())).await.code().into()
        }
        "body_problems" => {
            let server = server(Limits::default(), false).await;
            let body: serde_json::Map<String, Value> =
                (0..most(limit) + 5).map(|number| (format!("unknown{number}"), json!(1))).collect();
            let refused = server.post("/v1/runs", body.into()).await;
            assert!(refused.body.to_string().contains("more problems are not listed"));
            refused.code().into()
        }
        "wait_time" => spawning(json!({ "wait_ms": most(limit) + 1 })).await,
        "result_bytes" => spawning(json!({ "result_bytes": most(limit) + 1 })).await,
        "parent_context_bytes" => spawning(json!({ "parent_context": { "x": "x".repeat(most(limit)) } })).await,
        "artifact_read_bytes" => artifact(&format!("max_bytes={}", most(limit) + 1), "x", 1).await,
        "artifact_pattern_bytes" => artifact("grep=%5Cw%7B1000%7D", "x", 1).await,
        "artifact_line_bytes" => artifact("grep=y", &format!("{}y", "x".repeat(most(limit))), 1).await,
        // A clock on which the search takes long.
        "artifact_search_time" => artifact("grep=y", &"x\n".repeat(500_000), 10_000).await,
        "artifact_searches" => searches(most(limit)).await,
        other => panic!("no test crosses the limit `{other}`: add one here"),
    }
}

#[tokio::test]
async fn every_limit_is_crossed_and_says_its_code() {
    let mut told = Vec::new();
    for limit in LIMITS {
        told.push((limit.name, cross(limit).await));
    }
    let listed: Vec<_> = LIMITS.iter().map(|limit| (limit.name, limit.code.to_owned())).collect();
    assert_eq!(told, listed);
    report(&format!("limits: {} limits of connections and requests crossed", LIMITS.len()));
}

/// Says a number to whoever runs the tests, past the capture of their output.
pub(crate) fn report(text: &str) {
    use std::io::Write as _;
    writeln!(std::io::stderr(), "{text}").expect("stderr");
}
