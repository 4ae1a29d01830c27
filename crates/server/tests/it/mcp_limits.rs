//! Every limit of MCP hosts, crossed over HTTP.

use drawloom_contract::{
    limits::{Amount, Limit},
    record::Status,
};
use drawloom_net::Method;
use drawloom_server::{Limits, mcp::LIMITS};
use serde_json::{Value, json};

use crate::{
    limits::report,
    setup::{Server, Setup, within},
};

const ACCEPT: (&str, &str) = ("accept", "application/json, text/event-stream");

fn most(limit: &Limit) -> usize {
    match limit.default {
        Amount::Count(number) | Amount::Bytes(number) => usize::try_from(number).expect("a number that fits"),
        other => panic!("{} allows {other:?}", limit.name),
    }
}

async fn server(limits: Limits) -> Server {
    Setup { limits, ..Setup::default() }.start().await
}

fn initialize(name: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": name, "version": "1" },
    } })
}

/// Sends a message in a session; returns all that is answered.
async fn ask(server: &Server, session: &str, message: &Value) -> String {
    let headers = [ACCEPT, ("mcp-session-id", session), ("mcp-protocol-version", "2025-11-25")];
    let response = server.open(Method::Post, "/mcp", &headers, Some(message.to_string().as_bytes())).await;
    String::from_utf8(response.bytes(1 << 24).await.expect("a body").to_vec()).expect("text")
}

/// Opens a session; returns its id, or the code of the refusal.
async fn open(server: &Server, name: &str) -> Result<String, String> {
    let response = server.open(Method::Post, "/mcp", &[ACCEPT], Some(initialize(name).to_string().as_bytes())).await;
    let Some(session) = response.header("mcp-session-id").map(str::to_owned) else {
        return Err(code(&String::from_utf8_lossy(&response.bytes(1 << 20).await.expect("a body"))));
    };
    drop(response);
    ask(server, &session, &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    Ok(session)
}

fn request(method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 2, "method": method, "params": params })
}

/// The first code in an answer.
fn code(answer: &str) -> String {
    let rest = answer.split("\"code\":").nth(1).unwrap_or_else(|| panic!("no code: {answer}"));
    rest.trim_start_matches('"').split(['"', ',', '}']).next().unwrap_or_default().to_owned()
}

/// Opens a second session while the only one has a call in flight.
async fn busy(limits: Limits) -> String {
    let server = server(limits).await;
    let session = open(&server, "first").await.expect("a session");
    let spawn = request("tools/call", json!({ "name": "spawn_run", "arguments": { "agent": "slow", "prompt": "go" } }));
    let waiting = ask(&server, &session, &spawn);
    let refused = async {
        server.fake.until(|fake| !fake.run_ids().is_empty()).await;
        let refused = open(&server, "second").await.err();
        server.fake.finish(server.fake.run_ids()[0], Status::Completed);
        refused
    };
    let (_, refused) = within(futures::future::join(waiting, refused)).await;
    refused.unwrap_or_else(|| "opened".into())
}

/// A server with a session and a run that ended with `text`.
async fn with_text(limits: Limits, text: &str) -> (Server, String, String) {
    let server = server(limits).await;
    let session = open(&server, "host").await.expect("a session");
    server.post("/v1/runs", json!({ "agent": "slow", "prompt": "go", "mode": "detach" })).await;
    let run = server.fake.run_ids()[0];
    server.fake.say(run, text);
    server.fake.finish(run, Status::Completed);
    (server, session, run.to_string())
}

async fn cross(limit: &Limit) -> String {
    match limit.name {
        "mcp_sessions" => busy(Limits { mcp_sessions: 1, ..Limits::default() }).await,
        "mcp_sessions_per_caller" => busy(Limits { mcp_sessions_per_caller: 1, ..Limits::default() }).await,
        "mcp_subscriptions" => {
            let (server, session, run) = with_text(Limits { mcp_subscriptions: 1, ..Limits::default() }, "x").await;
            let subscribe = async |name: &str| {
                let uri = format!("drawloom://runs/{run}/{name}");
                ask(&server, &session, &request("resources/subscribe", json!({ "uri": uri }))).await
            };
            let first = subscribe("final_text").await;
            assert!(!first.contains("error"), "{first}");
            code(&subscribe("journal").await)
        }
        "mcp_batch_messages" => {
            let server = server(Limits::default()).await;
            let session = open(&server, "host").await.expect("a session");
            code(&ask(&server, &session, &json!(vec![request("ping", json!({})); most(limit) + 1])).await)
        }
        "mcp_initialize_bytes" => {
            let server = server(Limits::default()).await;
            open(&server, &"x".repeat(most(limit))).await.expect_err("too long")
        }
        "mcp_id_bytes" => {
            let server = server(Limits::default()).await;
            let session = open(&server, "host").await.expect("a session");
            let mut call = request("tools/call", json!({ "name": "list_agents", "arguments": {} }));
            call["id"] = "x".repeat(most(limit) + 1).into();
            code(&ask(&server, &session, &call).await)
        }
        "mcp_tool_result_bytes" => {
            let (server, session, run) = with_text(Limits::default(), &"x".repeat(most(limit) + 1)).await;
            let get = request("tools/call", json!({ "name": "get_run", "arguments": { "run_id": run } }));
            let answer = ask(&server, &session, &get).await;
            assert!(answer.len() < most(limit), "{}", answer.len());
            (if answer.contains("artifact") { "artifact" } else { "whole" }).into()
        }
        "mcp_resource_bytes" => {
            let (server, session, run) = with_text(Limits::default(), &"x".repeat(most(limit) + 1)).await;
            let uri = format!("drawloom://runs/{run}/final_text");
            let answer = ask(&server, &session, &request("resources/read", json!({ "uri": uri }))).await;
            (if answer.contains("bytes left out") { "truncated" } else { "whole" }).into()
        }
        other => panic!("no test crosses the limit `{other}`: add one here"),
    }
}

#[tokio::test]
async fn every_limit_is_crossed_and_told() {
    for limit in LIMITS {
        assert_eq!(cross(limit).await, limit.code, "{}", limit.name);
    }
    report(&format!("limits: {} limits of MCP hosts crossed", LIMITS.len()));
}

#[tokio::test]
async fn subscriptions_count_against_their_caller_and_give_back() {
    let limits = Limits { answers: 24 * 1024, answers_per_caller: 24 * 1024, ..Limits::default() };
    let server = server(limits).await;
    for _ in 0..2 {
        server.post("/v1/runs", json!({ "agent": "slow", "prompt": "go", "mode": "detach" })).await;
    }
    let session = open(&server, "host").await.expect("a session");
    let runs = server.fake.run_ids();
    let uris: Vec<String> = ["final_text", "journal"]
        .iter()
        .flat_map(|name| runs.iter().map(move |run| format!("drawloom://runs/{run}/{name}")))
        .collect();
    let change = async |method: &str, uri: &str| ask(&server, &session, &request(method, json!({ "uri": uri }))).await;
    for uri in &uris[..2] {
        let answer = change("resources/subscribe", uri).await;
        assert!(!answer.contains("error"), "{answer}");
    }
    let refused = change("resources/subscribe", &uris[2]).await;
    assert!(refused.contains("too_many_bytes"), "{refused}");
    change("resources/unsubscribe", &uris[0]).await;
    let answer = change("resources/subscribe", &uris[2]).await;
    assert!(!answer.contains("error"), "{answer}");
}

#[tokio::test]
async fn a_listener_with_many_resources_counts_against_its_caller() {
    let server = server(Limits { answers: 100 * 1024, answers_per_caller: 100 * 1024, ..Limits::default() }).await;
    let long = format!("drawloom://runs/{}", "x".repeat(50 * 1024));
    let listen = async |uris: Vec<&str>| {
        let message = json!({ "jsonrpc": "2.0", "id": 3, "method": "subscriptions/listen", "params": {
            "notifications": { "resourceSubscriptions": uris },
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": { "name": "host", "version": "1" },
                "io.modelcontextprotocol/clientCapabilities": {},
            },
        } });
        let headers = [ACCEPT, ("mcp-protocol-version", "2026-07-28"), ("mcp-method", "subscriptions/listen")];
        server.open(Method::Post, "/mcp", &headers, Some(message.to_string().as_bytes())).await
    };
    let refused = listen(vec![&long]).await.bytes(1 << 20).await.expect("a body");
    let refused = String::from_utf8_lossy(&refused).into_owned();
    assert!(refused.contains("too_many_bytes"), "{refused}");
    let mut open = listen(vec!["drawloom://runs/unknown/final_text"]).await;
    let first = within(open.chunk()).await.expect("a stream").expect("an acknowledgement");
    assert!(!String::from_utf8_lossy(&first).contains("too_many_bytes"));
}
