//! Servers that are reached over a real socket.

mod fixture;
mod limits;
mod lists;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{Map, json};
use tokio::{net::TcpListener, time::Instant};

use fixture::{answering, answering_later, server, told};

/// An address where somebody takes connections and says nothing; and how many there were.
async fn silence() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
    let taken = Arc::<AtomicUsize>::default();
    let count = taken.clone();
    tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::SeqCst);
            kept.push(stream);
        }
    });
    (url, taken)
}

#[tokio::test]
async fn all_who_wait_for_a_server_share_one_opening_and_its_failure() {
    let (url, taken) = silence().await;
    let server = server(url, 600);
    let began = Instant::now();
    let offers = futures::future::join_all((0..8).map(|_| server.offer())).await;
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    server.settled().await;
    for offer in offers {
        let why = offer.unavailable.as_deref().expect("nobody answers");
        assert!(why.contains("timed out after 600 ms listing its tools"), "{why}");
    }
    // One for each era of the protocol.
    assert!(taken.load(Ordering::SeqCst) <= 2, "{taken:?}");
}

#[tokio::test]
async fn what_stands_after_the_question_mark_of_an_address_is_not_shown() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let offer = server(format!("http://{address}/mcp?key=k3y"), 5_000).offer().await;
    let why = offer.unavailable.as_deref().expect("nobody is there");
    assert!(why.contains(&format!("cannot connect to http://{address}")), "{why}");
    assert!(!why.contains("k3y"), "{why}");
}

#[tokio::test]
async fn a_400_for_the_session_leads_to_a_new_one_and_another_400_does_not() {
    let reference =
        r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}"#;
    for refusal in [reference, "Invalid session ID"] {
        let (sessions, calls) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (begun, made) = (sessions.clone(), calls.clone());
        let url = answering(move |asked| {
            if asked.method() == "initialize" {
                begun.fetch_add(1, Ordering::SeqCst);
            }
            let session = format!("session-{}", begun.load(Ordering::SeqCst));
            let bad = || asked.with(400, "Content-Type: application/json\r\n", refusal);
            let begins = ["server/discover", "initialize"].contains(&asked.method());
            if !begins && !asked.head.contains(&session) {
                return bad();
            }
            match asked.message["params"]["name"].as_str() {
                // The session is forgotten, as after a restart.
                Some("forget") if made.fetch_add(1, Ordering::SeqCst) == 0 => {
                    begun.fetch_add(1, Ordering::SeqCst);
                    bad()
                }
                Some("reject") => asked.with(400, "Content-Type: text/plain\r\n", "bad arguments"),
                _ => asked.older(&session, &json!([{"name": "forget", "inputSchema": {}}])),
            }
        })
        .await;
        let server = server(url, 5_000);
        assert_eq!(told(server.call("forget", Map::new()).await), "done", "{refusal}");
        assert_eq!((sessions.load(Ordering::SeqCst), calls.load(Ordering::SeqCst)), (3, 2), "{refusal}");
        for _ in 0..2 {
            let said = told(server.call("reject", Map::new()).await);
            assert!(said.ends_with("HTTP 400 (text/plain): bad arguments"), "{said}");
        }
        assert_eq!(sessions.load(Ordering::SeqCst), 3, "{refusal}");
    }
}

#[tokio::test]
async fn a_call_is_not_made_again_for_a_server_that_refuses_a_ping_for_another_reason() {
    for (to_call, to_ping) in [("no receipt in this session", "unknown method"), ("bad request", "bad request")] {
        let calls = Arc::new(AtomicUsize::new(0));
        let made = calls.clone();
        let url = answering(move |asked| match asked.method() {
            "tools/call" => {
                made.fetch_add(1, Ordering::SeqCst);
                asked.with(400, "Content-Type: text/plain\r\n", to_call)
            }
            "ping" => asked.with(400, "Content-Type: text/plain\r\n", to_ping),
            _ => asked.older("s", &json!([{"name": "pay", "inputSchema": {}}])),
        })
        .await;
        let said = told(server(url, 5_000).call("pay", Map::new()).await);
        assert!(said.ends_with(to_call), "{said}");
        assert_eq!(calls.load(Ordering::SeqCst), 1, "{to_call}");
    }
}

#[tokio::test]
async fn a_server_that_refuses_every_session_is_said_to() {
    let url = answering(|asked| match asked.method() {
        "tools/call" | "ping" => asked.with(400, "Content-Type: text/plain\r\n", "Invalid session ID"),
        _ => asked.older("s", &json!([{"name": "t", "inputSchema": {}}])),
    })
    .await;
    let said = told(server(url, 5_000).call("t", Map::new()).await);
    assert!(said.ends_with("did not accept the request: unknown session"), "{said}");
}

#[tokio::test]
async fn types_of_content_are_known_in_capitals_too() {
    let url = answering(|asked| {
        let tools = json!([{"name": "call", "inputSchema": {}}]);
        match asked.method() {
            "tools/call" => {
                let content = json!([{"type": "text", "text": "in an event"}]);
                let answer = json!({"jsonrpc": "2.0", "id": asked.message["id"], "result": {"content": content}});
                asked.with(200, "Content-Type: Text/Event-Stream\r\n", &format!("data: {answer}\n\n"))
            }
            _ => asked.older("s", &tools).replace("application/json", "Application/JSON; charset=UTF-8"),
        }
    })
    .await;
    assert_eq!(told(server(url, 5_000).call("call", Map::new()).await), "in an event");
}

#[tokio::test]
async fn a_redirect_names_where_it_leads_and_is_not_followed() {
    let url =
        answering(|asked| asked.with(308, "Location: https://me:pw@there.example/mcp/?key=k3y\r\n", "moved")).await;
    let offer = server(url, 5_000).offer().await;
    assert_eq!(
        offer.unavailable.as_deref(),
        Some(
            "the MCP server out is not available: HTTP 308: redirects to https://…@there.example/mcp/?…, and redirects are not followed; set `url` to the final address"
        )
    );
    for (status, why) in [(307, "`t` was not called: "), (303, "the MCP server out failed during `t`: ")] {
        let url = answering(move |asked| match asked.method() {
            "tools/call" => asked.with(status, "Location: /there\r\n", ""),
            _ => asked.older("s", &json!([{"name": "t", "inputSchema": {}}])),
        })
        .await;
        let said = told(server(url, 5_000).call("t", Map::new()).await);
        assert!(said.starts_with(why) && said.contains("redirects to /there"), "{said}");
    }
}

#[tokio::test]
async fn what_a_server_asks_on_the_stream_of_no_request_is_answered() {
    let (answer, answered) = tokio::sync::watch::channel(false);
    let (streams, lists) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (opened, listed) = (streams.clone(), lists.clone());
    let url = answering_later(move |asked| {
        let mut answered = answered.clone();
        let mut said = asked.older("s", &json!([{"name": "t", "inputSchema": {}}]));
        match asked.method() {
            "tools/list" => drop(listed.fetch_add(1, Ordering::SeqCst)),
            "" if asked.message["id"] == "ask-1" => drop(answer.send_replace(true)),
            "" if asked.head.starts_with("get") => {
                opened.fetch_add(1, Ordering::SeqCst);
                let ask = json!({"jsonrpc": "2.0", "id": "ask-1", "method": "roots/list"});
                let notice = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
                let events = format!("id: 1\ndata: {notice}\n\nretry: 0\nid: 2\ndata: {ask}\n\n");
                said = asked.with(200, "Content-Type: text/event-stream\r\n", &events);
            }
            _ => {}
        }
        let waits = asked.method() == "tools/call";
        Box::pin(async move {
            if waits {
                let _ = answered.wait_for(|answered| *answered).await;
            }
            said
        })
    })
    .await;
    let server = server(url, 5_000);
    assert_eq!(told(server.call("t", Map::new()).await), "done");
    server.offer().await;
    assert_eq!(lists.load(Ordering::SeqCst), 2);
    assert_eq!(streams.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_session_is_ended_when_drawloom_stops() {
    let ended = Arc::new(AtomicUsize::new(0));
    let count = ended.clone();
    let url = answering(move |asked| {
        if asked.head.starts_with("delete") && asked.head.contains("mcp-session-id: the-one") {
            count.fetch_add(1, Ordering::SeqCst);
        }
        asked.older("the-one", &json!([{"name": "t", "inputSchema": {}}]))
    })
    .await;
    let server = server(url, 5_000);
    assert_eq!(told(server.call("t", Map::new()).await), "done");
    server.leave().await;
    server.leave().await;
    assert_eq!(ended.load(Ordering::SeqCst), 1);
}
