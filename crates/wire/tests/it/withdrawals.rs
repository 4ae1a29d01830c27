//! Calls that the host cancels.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::{
    host::{Host, Recording},
    upstream::{Do, Event, Upstream},
};

#[tokio::test]
async fn a_cancel_reaches_the_server_with_the_key_and_the_late_answer_is_not_written() {
    let gate = Arc::new(Semaphore::new(0));
    let held = gate.clone();
    let mut server = Upstream::start(move |asked| match asked.method() {
        "tools/call" => Do::Stream(vec![
            Event::Say(json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": {} })),
            Event::Wait(held.clone()),
            Event::Say(asked.result(json!(1))),
        ]),
        "notifications/cancelled" => Do::accepted(),
        _ => Do::json(&asked.result(json!(2))),
    })
    .await;
    let mut host = Host::connect(&server.url());
    host.call("c", "a").await;
    let call = server.hear("tools/call").await;
    assert_eq!(host.next().await["method"], "notifications/message");
    host.cancel("c").await;
    let cancel = server.hear("notifications/cancelled").await;
    assert_eq!(cancel.key(), call.key());
    assert_eq!(
        (&cancel.body["params"]["requestId"], &cancel.body["params"]["reason"]),
        (&json!("c"), &json!("enough"))
    );
    gate.add_permits(1);
    host.request(2, "ping", json!({})).await;
    assert_eq!(host.next().await["id"], 2);
    assert_eq!(host.close().await, Vec::<Value>::new());
    assert_eq!(server.asked_for("notifications/cancelled").len(), 1);
}

#[tokio::test]
async fn a_cancel_that_overtakes_its_call_is_sent_again_after_it() {
    let gate = Arc::new(Semaphore::new(0));
    let held = gate.clone();
    let mut server = Upstream::start(move |asked| match asked.method() {
        // The head of the answer comes late: until then the server may not have seen the call.
        "tools/call" => Do::After(held.clone(), Box::new(Do::Stream(vec![Event::Wait(Arc::new(Semaphore::new(0)))]))),
        _ => Do::accepted(),
    })
    .await;
    let mut host = Host::connect(&server.url());
    host.call(1, "a").await;
    server.hear("tools/call").await;
    host.cancel(1).await;
    server.hear("notifications/cancelled").await;
    gate.add_permits(1);
    server.hear("notifications/cancelled").await;
    assert_eq!(host.close().await, Vec::<Value>::new());
    assert_eq!(server.asked_for("tools/call").len(), 1);
}

#[tokio::test]
async fn a_cancel_while_the_server_is_away_reaches_it_when_it_is_back_and_the_call_does_not() {
    let mut server = Upstream::start(|asked| match asked.method() {
        "tools/call" => Do::Stream(vec![Event::Wait(Arc::new(Semaphore::new(0)))]),
        "ping" => Do::json(&asked.result(json!({}))),
        _ => Do::accepted(),
    })
    .await;
    let mut host = Host::connect(&server.url());
    host.call(1, "a").await;
    let call = server.hear("tools/call").await;
    server.vanish().await;
    host.cancel(1).await;
    // The reader takes lines in order: the cancel was taken in before this one is refused.
    host.send_line("nonsense").await;
    host.next().await;
    server.appear().await;
    let cancel = server.hear("notifications/cancelled").await;
    assert_eq!(cancel.key(), call.key());
    host.request(2, "ping", json!({})).await;
    assert_eq!(host.next().await["id"], 2);
    assert_eq!(host.close().await, Vec::<Value>::new());
    assert_eq!(server.asked_for("tools/call").len(), 1, "it is not started after its cancel");
}

#[tokio::test]
async fn a_call_that_never_left_is_dropped_and_nothing_is_sent() {
    let mut server = Upstream::absent(|asked| Do::json(&asked.result(json!(1)))).await;
    let mut host = Host::connect(&server.url());
    host.request(1, "tools/call", json!({ "name": "a", "_meta": { "progressToken": 1 } })).await;
    // The first heartbeat says that it was tried.
    assert_eq!(host.next().await["method"], "notifications/progress");
    host.cancel(1).await;
    host.send_line("nonsense").await;
    host.next().await;
    server.appear().await;
    host.request(2, "ping", json!({})).await;
    assert_eq!(host.next().await["id"], 2);
    assert_eq!(host.close().await, Vec::<Value>::new());
    assert_eq!(server.asked_for("tools/call").len(), 0);
}

#[tokio::test]
async fn a_cancel_of_what_was_answered_is_ignored() {
    let server = Upstream::start(|asked| Do::json(&asked.result(json!(1)))).await;
    let mut host = Host::connect(&server.url());
    host.call(1, "a").await;
    assert_eq!(host.next().await["id"], 1);
    host.cancel(1).await;
    host.cancel("never asked").await;
    host.call(2, "a").await;
    assert_eq!(host.next().await["id"], 2);
    assert_eq!(host.close().await, Vec::<Value>::new());
    assert_eq!(server.asked().len(), 2);
}

#[tokio::test]
async fn the_cancel_of_a_stateless_call_says_who_asks() {
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28" });
    let mut server = Upstream::start(|asked| match asked.method() {
        "tools/call" => Do::Stream(vec![
            Event::Say(json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": {} })),
            Event::Wait(Arc::new(Semaphore::new(0))),
        ]),
        _ => Do::accepted(),
    })
    .await;
    let mut host = Host::connect(&server.url());
    host.request(1, "tools/call", json!({ "name": "a", "_meta": meta })).await;
    host.next().await;
    host.cancel(1).await;
    let cancel = server.hear("notifications/cancelled").await;
    assert_eq!(cancel.header("mcp-protocol-version"), Some("2026-07-28"));
    assert_eq!(cancel.header("mcp-method"), Some("notifications/cancelled"));
    assert_eq!(cancel.body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    assert!(cancel.key().is_some());
}

#[tokio::test]
async fn a_cancel_that_a_failing_server_did_not_take_is_sent_again() {
    let failures = AtomicUsize::new(0);
    let mut server = Upstream::start(move |asked| match asked.method() {
        "tools/call" => Do::Stream(vec![Event::Wait(Arc::new(Semaphore::new(0)))]),
        _ if failures.fetch_add(1, Ordering::Relaxed) < 2 => Do::Answer(500, Vec::new(), "stopping".into()),
        _ => Do::accepted(),
    })
    .await;
    let mut host = Host::connect(&server.url());
    host.call(1, "a").await;
    let call = server.hear("tools/call").await;
    host.cancel(1).await;
    for _ in 0..3 {
        let cancel = tokio::time::timeout(Duration::from_secs(20), server.hear("notifications/cancelled")).await;
        assert_eq!(cancel.expect("it is sent again").key(), call.key());
    }
    assert_eq!(host.close().await, Vec::<Value>::new());
}

#[tokio::test]
async fn a_cancel_that_a_silent_server_does_not_take_is_given_up() {
    let never = || Arc::new(Semaphore::new(0));
    let mut server = Upstream::start(move |asked| match asked.method() {
        "tools/call" => Do::Stream(vec![Event::Wait(never())]),
        _ => Do::After(never(), Box::new(Do::Cut)),
    })
    .await;
    let clock = Recording::at_speed(1);
    let mut host = Host::connect_by(&server.url(), clock.clone());
    host.call(1, "a").await;
    server.hear("tools/call").await;
    host.cancel(1).await;
    server.hear("notifications/cancelled").await;
    let limit = drawloom_wire::mcp::PATIENCE;
    assert!(clock.waits().iter().any(|wait| *wait <= limit && *wait * 2 > limit), "{:?}", clock.waits());
}
