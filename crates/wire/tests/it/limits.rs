//! Every limit of the proxy is crossed, and the host is told by the code on the list.

use std::sync::Arc;

use drawloom_contract::limits::{Amount, Limit};
use drawloom_wire::mcp::LIMITS;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::{
    host::Host,
    upstream::{Do, Upstream},
};

fn most(limit: &Limit) -> usize {
    match limit.default {
        Amount::Count(number) | Amount::Bytes(number) => usize::try_from(number).expect("a number that fits"),
        other => panic!("{} allows {other:?}", limit.name),
    }
}

/// Asks so often of a server that does not answer; the last request is refused.
async fn asking(method: &str, times: usize) -> Value {
    let never = Arc::new(Semaphore::new(0));
    let server =
        Upstream::start(move |asked| Do::After(never.clone(), Box::new(Do::json(&asked.result(json!({})))))).await;
    let mut host = Host::connect(&server.url());
    for id in 0..times {
        host.request(id, method, json!({ "name": "t", "arguments": {} })).await;
    }
    host.next().await
}

/// Crosses a limit; returns what the host is answered.
async fn cross(limit: &Limit) -> Value {
    match limit.name {
        "proxy_line_bytes" => {
            let server = Upstream::start(|_| Do::Cut).await;
            let mut host = Host::connect(&server.url());
            host.send_line(&format!("{{\"id\":5,\"x\":\"{}\"}}", "x".repeat(most(limit)))).await;
            host.next().await
        }
        "proxy_answer_bytes" => {
            let length = most(limit);
            let server = Upstream::start(move |asked| Do::json(&asked.result(json!("x".repeat(length))))).await;
            let mut host = Host::connect(&server.url());
            host.call(1, "t").await;
            host.next().await
        }
        "proxy_calls" => asking("tools/call", most(limit) + 1).await,
        "proxy_requests" => asking("ping", most(limit) + 1).await,
        "proxy_first_time" => {
            let server = Upstream::absent(|_| Do::Cut).await;
            let mut host = Host::connect_at_speed(&server.url(), 1_000);
            host.request(1, "initialize", json!({})).await;
            host.next().await
        }
        "proxy_outage_time" => {
            let server = Upstream::absent(|_| Do::Cut).await;
            let mut host = Host::connect_at_speed(&server.url(), 1_000);
            host.call(1, "t").await;
            host.next().await
        }
        "proxy_sends" => {
            let server = Upstream::start(|_| Do::Cut).await;
            let mut host = Host::connect_at_speed(&server.url(), 200);
            host.call(1, "t").await;
            let answer = host.next().await;
            assert_eq!(server.asked().len(), most(limit));
            answer
        }
        other => panic!("no test crosses the limit `{other}`: add one here"),
    }
}

#[tokio::test]
async fn every_limit_is_crossed_and_told() {
    for limit in LIMITS {
        let answer = cross(limit).await;
        assert_eq!(answer["error"]["data"]["code"], limit.code, "{}: {answer}", limit.name);
    }
    let report = format_args!("limits: {} limits of the MCP proxy crossed\n", LIMITS.len());
    std::io::Write::write_fmt(&mut std::io::stderr(), report).expect("stderr");
}
