//! Hosts that begin with `initialize`.

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
    upstream::{Asked, Do, Event, Upstream},
};

/// A server with sessions `s1`, `s2`, …: only the last one is known.
#[derive(Default)]
struct Sessions(AtomicUsize);

impl Sessions {
    fn play(&self, asked: &Asked) -> Do {
        let known = format!("s{}", self.0.load(Ordering::Relaxed));
        match asked.method() {
            "initialize" => {
                let name = format!("s{}", self.0.fetch_add(1, Ordering::Relaxed) + 1);
                let result = asked.result(json!({ "protocolVersion": "2025-03-26", "capabilities": {} }));
                let kind = ("content-type", "application/json".to_owned());
                Do::Answer(200, vec![kind, ("Mcp-Session-Id", name)], result.to_string())
            }
            _ if asked.header("mcp-session-id") != Some(&known) => {
                let error = json!({ "code": -32001, "message": "no such session" });
                let body = json!({ "jsonrpc": "2.0", "id": asked.body["id"], "error": error });
                Do::Answer(404, Vec::new(), body.to_string())
            }
            _ if asked.verb == "GET" => Do::Answer(405, Vec::new(), String::new()),
            "tools/call" => Do::json(&asked.result(json!(known))),
            _ => Do::accepted(),
        }
    }
}

#[tokio::test]
async fn what_follows_initialize_carries_the_session_and_the_version_and_the_end_is_told() {
    let sessions = Sessions::default();
    let mut server = Upstream::start(move |asked| sessions.play(asked)).await;
    let mut host = Host::connect(&server.url());
    assert_eq!(host.initialize().await["result"]["protocolVersion"], "2025-03-26");
    host.call(1, "a").await;
    assert_eq!(host.next().await["result"], "s1");
    assert_eq!(server.hear("").await.verb, "GET");
    host.close().await;
    let asked = server.asked();
    assert_eq!(asked[0].header("mcp-session-id"), None);
    for later in &asked[1..] {
        assert_eq!(later.header("mcp-session-id"), Some("s1"), "{later:?}");
        assert_eq!(later.header("mcp-protocol-version"), Some("2025-03-26"));
    }
    assert_eq!(asked.last().expect("many").verb, "DELETE");
    let greeting = asked.iter().position(|asked| asked.method() == "notifications/initialized");
    let call = asked.iter().position(|asked| asked.method() == "tools/call");
    assert!(greeting < call, "a call waits for the greeting");
}

#[tokio::test]
async fn a_session_that_the_server_lost_is_opened_anew_once_for_all() {
    let sessions = Arc::new(Sessions::default());
    let playing = sessions.clone();
    let server = Upstream::start(move |asked| playing.play(asked)).await;
    let mut host = Host::connect(&server.url());
    host.initialize().await;
    host.call(100, "a").await;
    assert_eq!(host.next().await["result"], "s1");
    // As if the server had been restarted and had forgotten everything.
    sessions.0.fetch_add(1, Ordering::Relaxed);
    for id in 0..10 {
        host.call(id, "a").await;
    }
    let mut ids = Vec::new();
    for _ in 0..10 {
        let answer = host.next().await;
        assert_eq!(answer["result"], "s3");
        ids.push(answer["id"].as_i64().expect("an id"));
    }
    ids.sort_unstable();
    assert_eq!(ids, (0..10).collect::<Vec<_>>());
    assert_eq!(server.asked_for("initialize").len(), 2);
    assert_eq!(server.asked_for("notifications/initialized").len(), 2);
    assert_eq!(host.close().await, Vec::<Value>::new());
}

#[tokio::test]
async fn the_stream_of_the_server_is_taken_up_again_where_it_broke() {
    let (sessions, streams) = (Sessions::default(), AtomicUsize::new(0));
    let forever = Arc::new(Semaphore::new(0));
    let server = Upstream::start(move |asked| {
        if asked.verb != "GET" {
            return sessions.play(asked);
        }
        let said = |text: &str| format!("id: {text}\ndata: {}\n\n", json!({ "jsonrpc": "2.0", "method": text }));
        match streams.fetch_add(1, Ordering::Relaxed) {
            0 => Do::Stream(vec![Event::Raw(said("n/1")), Event::Raw(said("n/2")), Event::Cut]),
            1 => Do::Cut,
            _ => Do::Stream(vec![Event::Raw(said("n/3")), Event::Wait(forever.clone())]),
        }
    })
    .await;
    let mut host = Host::connect(&server.url());
    host.initialize().await;
    for expected in ["n/1", "n/2", "n/3"] {
        assert_eq!(host.next().await["method"], expected);
    }
    let gets: Vec<Asked> = server.asked().into_iter().filter(|asked| asked.verb == "GET").collect();
    let taken_up: Vec<Option<&str>> = gets.iter().map(|asked| asked.header("last-event-id")).collect();
    assert_eq!(taken_up, [None, Some("n/2"), Some("n/2")]);
    assert_eq!(host.close().await, Vec::<Value>::new());
}

#[tokio::test]
async fn requests_that_follow_initialize_without_waiting_are_sent_in_its_session() {
    let sessions = Sessions::default();
    let gate = Arc::new(Semaphore::new(0));
    let held = gate.clone();
    let mut server = Upstream::start(move |asked| match asked.method() {
        "initialize" => Do::After(held.clone(), Box::new(sessions.play(asked))),
        _ => sessions.play(asked),
    })
    .await;
    let mut host = Host::connect(&server.url());
    host.request(0, "initialize", json!({ "protocolVersion": "2025-06-18" })).await;
    host.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    host.call(1, "a").await;
    server.hear("initialize").await;
    gate.add_permits(1);
    assert_eq!(host.next().await["id"], 0);
    assert_eq!(host.next().await["result"], "s1");
    let posted: Vec<String> =
        server.asked().iter().map(|asked| asked.method().to_owned()).filter(|method| !method.is_empty()).collect();
    assert_eq!(posted, ["initialize", "notifications/initialized", "tools/call"]);
}

#[tokio::test]
async fn a_server_that_never_knows_its_sessions_is_not_asked_without_a_pause_and_given_up() {
    let server = Upstream::start(|asked| match asked.method() {
        "initialize" => {
            let result = asked.result(json!({ "protocolVersion": "2025-03-26", "capabilities": {} }));
            let kind = ("content-type", "application/json".to_owned());
            Do::Answer(200, vec![kind, ("Mcp-Session-Id", "s".to_owned())], result.to_string())
        }
        "notifications/initialized" => Do::accepted(),
        _ => Do::Answer(404, Vec::new(), String::new()),
    })
    .await;
    let mut host = Host::connect_at_speed(&server.url(), 200);
    host.initialize().await;
    host.call(1, "a").await;
    let answer = host.next().await;
    assert_eq!(answer["error"]["data"]["code"], "upstream_away");
    let message = answer["error"]["message"].as_str().expect("text");
    assert!(message.contains("does not know the session"), "{message}");
    // In 300 s with a pause of up to 2 s, and of up to 5 s for what listens.
    let asked = server.asked_for("initialize").len();
    assert!(asked < 300, "{asked} sessions were opened");
}

#[tokio::test]
async fn a_second_hello_is_waited_for_although_the_first_is_answered() {
    let gates = [Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0))];
    let held = gates.clone();
    let mut server = Upstream::start(move |asked| match asked.method() {
        "initialize" => {
            let number = asked.body["id"].as_u64().expect("a number");
            let answer = asked.result(json!({ "protocolVersion": "2025-06-18" })).to_string();
            let headers =
                vec![("content-type", "application/json".to_owned()), ("mcp-session-id", format!("s{number}"))];
            let gate = held[usize::try_from(number).expect("small")].clone();
            Do::After(gate, Box::new(Do::Answer(200, headers, answer)))
        }
        "ping" => Do::json(&asked.result(json!({}))),
        _ => Do::Answer(405, Vec::new(), String::new()),
    })
    .await;
    // The second may also be answered before the first.
    for order in [[0, 1], [1, 0]] {
        let mut host = Host::connect(&server.url());
        for id in [0, 1] {
            host.request(id, "initialize", json!({})).await;
            server.hear("initialize").await;
        }
        host.request(2, "ping", json!({})).await;
        let mut answered = Vec::new();
        for gate in order {
            gates[gate].add_permits(1);
            answered.push(host.next().await["id"].clone());
        }
        host.request(3, "ping", json!({})).await;
        while answered.len() < 4 {
            answered.push(host.next().await["id"].clone());
        }
        let sessions: Vec<_> =
            server.asked_for("ping").iter().map(|asked| asked.header("mcp-session-id").map(str::to_owned)).collect();
        assert!(sessions.iter().all(|session| session.as_deref() == Some("s1")), "{sessions:?} for {order:?}");
    }
}

#[tokio::test]
async fn a_stream_that_ends_at_once_is_opened_again_ever_more_seldom_and_when_the_server_says() {
    for (said, streams, least) in [("id: 1\ndata:\n\n", 9, 4), ("retry: 60000\n\n", 2, 50)] {
        let mut server = Upstream::start(move |asked| match (asked.verb.as_str(), asked.method()) {
            ("GET", _) => Do::Stream(vec![Event::Raw(said.into())]),
            (_, "initialize") => {
                let headers = vec![("content-type", "application/json".to_owned()), ("mcp-session-id", "s".to_owned())];
                Do::Answer(200, headers, asked.result(json!({ "protocolVersion": "2025-06-18" })).to_string())
            }
            _ => Do::accepted(),
        })
        .await;
        let clock = Recording::at_speed(50);
        let mut host = Host::connect_by(&server.url(), clock.clone());
        host.initialize().await;
        for _ in 0..streams {
            server.hear("").await;
        }
        let longest = clock.waits().into_iter().max().expect("it waited");
        assert!(longest >= Duration::from_secs(least), "{:?}", clock.waits());
    }
}

#[tokio::test]
async fn a_subscription_that_is_taken_and_ended_at_once_is_asked_for_ever_more_seldom() {
    let taken = json!({ "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {} });
    let mut server = Upstream::start(move |_| Do::Stream(vec![Event::Say(taken.clone())])).await;
    let clock = Recording::at_speed(50);
    let mut host = Host::connect_by(&server.url(), clock.clone());
    host.request(1, "subscriptions/listen", json!({ "notifications": {} })).await;
    for _ in 0..8 {
        server.hear("subscriptions/listen").await;
    }
    let longest = clock.waits().into_iter().max().expect("it waited");
    assert!(longest >= Duration::from_secs(1), "{:?}", clock.waits());
}
