//! Event streams, over real connections.

use std::time::Duration;

use drawloom_contract::{ids::RunId, record::Status};
use drawloom_net::Method;
use drawloom_server::Limits;
use drawloom_wire::{
    client::Events,
    events::{Event, Parser, Rebuilder},
    runs::SpawnRun,
};
use futures::StreamExt;
use serde_json::json;

use crate::{
    fake::FINAL,
    setup::{Server, Setup, read_until, within},
};

async fn events(server: &Server, path: &str, headers: &[(&'static str, &str)]) -> Vec<Event> {
    let response = server.open(Method::Get, path, headers, None).await;
    assert_eq!(response.header("content-type"), Some("text/event-stream"));
    let bytes = within(response.bytes(1 << 20)).await.expect("a stream that ends");
    let (mut parser, mut events) = (Parser::new(), Vec::new());
    parser.feed(&bytes, &mut events).expect("frames are short");
    events
}

fn names(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| &*event.name).collect()
}

async fn quick(server: &Server) -> RunId {
    server.post("/v1/runs", json!({"agent": "quick", "prompt": "go"})).await;
    *server.fake.run_ids().last().expect("a run")
}

#[tokio::test]
async fn a_post_streams_from_the_greeting_to_the_one_terminal_event() {
    let server = Setup::default().start().await;
    let body = br#"{"agent": "quick", "prompt": "go"}"#;
    let response = server.open(Method::Post, "/v1/runs", &[], Some(body)).await;
    assert_eq!((response.status(), response.header("content-type")), (200, Some("text/event-stream")));
    assert!(response.header("drawloom-run-id").is_some());
    let bytes = within(response.bytes(1 << 20)).await.expect("a stream that ends");
    let (mut parser, mut events) = (Parser::new(), Vec::new());
    parser.feed(&bytes, &mut events).expect("frames are short");
    assert_eq!(
        names(&events),
        [
            "session",
            "agent",
            "started",
            "text",
            "turn_reset",
            "retry",
            "text",
            "message",
            "usage",
            "tool_call",
            "tool_result",
            "text",
            "text",
            "message",
            "usage",
            "done"
        ]
    );
    let mut rebuilder = Rebuilder::new();
    events.iter().for_each(|event| rebuilder.apply(event));
    assert_eq!(rebuilder.final_text(), Some(FINAL));
    assert_eq!(events.last().map(|event| event.json()["final_text"].clone()), Some(json!(FINAL)));
}

#[tokio::test]
async fn a_stream_goes_on_after_any_id_in_every_spelling() {
    let server = Setup::default().start().await;
    let run = quick(&server).await;
    let all = events(&server, &format!("/v1/runs/{run}/events"), &[]).await;
    assert_eq!(all[0].name, "agent");
    let ids: Vec<u64> = all.iter().filter_map(|event| event.id).collect();
    for after in ids.iter().copied().filter(|id| Some(id) != ids.last()) {
        let rest: Vec<Event> = all.iter().filter(|event| event.id.is_some_and(|id| id > after)).cloned().collect();
        let last = after.to_string();
        let by_header = events(&server, &format!("/v1/runs/{run}/events"), &[("last-event-id", &last)]).await;
        let by_query = events(&server, &format!("/v1/runs/{run}/stream?from_seq={after}"), &[]).await;
        // A browser repeats the address it began with, and says where it is in the header.
        let by_both = events(&server, &format!("/v1/runs/{run}/events?from_seq=0"), &[("last-event-id", &last)]).await;
        for found in [by_header, by_query, by_both] {
            assert_eq!(found.into_iter().filter(|event| event.id.is_some()).collect::<Vec<_>>(), rest, "after {after}");
        }
    }
    let seen = ids.last().expect("a last event").to_string();
    let headers = [("last-event-id", seen.as_str())];
    assert_eq!(server.send(Method::Get, &format!("/v1/runs/{run}/events"), &headers, None).await.status, 204);
}

#[tokio::test]
async fn a_malformed_id_is_an_error() {
    let server = Setup::default().start().await;
    let run = quick(&server).await;
    for (path, headers) in [
        (format!("/v1/runs/{run}/events"), vec![("last-event-id", "abc")]),
        (format!("/v1/runs/{run}/events"), vec![("last-event-id", "-1")]),
        (format!("/v1/runs/{run}/events?from_seq=x"), Vec::new()),
    ] {
        let answer = server.send(Method::Get, &path, &headers, None).await;
        assert_eq!(answer.status, 400, "{path} {headers:?}");
        assert!(answer.body["error"]["message"].as_str().is_some_and(|text| text.contains("from_seq")));
    }
}

#[tokio::test]
async fn events_come_as_they_happen_and_silence_is_filled() {
    let limits = Limits { keep_alive: Duration::from_millis(20), ..Limits::default() };
    let server = Setup { limits, ..Setup::default() }.start().await;
    let body = r#"{"agent":"slow","prompt":"go"}"#;
    let request = format!("POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let mut stream = server.say(request.as_bytes()).await;
    read_until(&mut stream, "event: agent").await;
    read_until(&mut stream, ": keepalive").await;
    let run = server.fake.run_ids()[0];
    server.fake.admit(run);
    read_until(&mut stream, "event: started").await;
    server.fake.finish(run, Status::Cancelled);
    let rest = read_until(&mut stream, "\r\n0\r\n\r\n").await;
    assert!(rest.contains("event: error") && rest.contains("\"status\":\"cancelled\""), "{rest}");
}

/// Large events that are journaled are encoded once for all followers, known by their id and length. Deltas have no id: those of
/// two turns may be equally long, and must not be taken for each other while a slow follower still holds the first.
#[tokio::test]
async fn deltas_of_equal_length_are_not_mixed_up() {
    const LONG: usize = 6 * 1024 * 1024;
    let server = Setup::default().start().await;
    let body = r#"{"agent":"slow","prompt":"go","mode":"detach"}"#;
    server.send(Method::Post, "/v1/runs", &[], Some(body.as_bytes())).await;
    let run = *server.fake.run_ids().last().expect("a run");
    server.fake.admit(run);
    let request = format!("GET /v1/runs/{run}/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let mut slow = server.say(request.as_bytes()).await;
    server.fake.stream(run, 1, &"<".repeat(LONG));
    read_until(&mut slow, "<<<").await;
    server.fake.stream(run, 2, &">".repeat(LONG));
    server.fake.finish(run, Status::Cancelled);
    let answer = server.open(Method::Get, &format!("/v1/runs/{run}/events"), &[], None).await;
    let events = answer.bytes(1 << 27).await.expect("the whole stream");
    for sign in [b'<', b'>'] {
        let count = events.iter().filter(|byte| **byte == sign).count();
        assert_eq!(count, LONG, "{}", char::from(sign));
    }
    drop(slow);
}

#[tokio::test]
async fn a_follower_that_asks_for_json_gets_the_result() {
    let server = Setup::default().start().await;
    let run = quick(&server).await;
    let headers = [("accept", "application/json")];
    let answer = server.send(Method::Get, &format!("/v1/runs/{run}/events"), &headers, None).await;
    assert_eq!(answer.body["final_text"], FINAL);
}

#[tokio::test]
async fn the_client_takes_a_stream_up_again_when_the_server_comes_back() {
    let mut server = Setup::default().start().await;
    let client = server.client(None);
    let run = SpawnRun::new("slow".parse().expect("a name"), "go");
    let run = client.start(run).await.expect("it starts").run_id;
    let mut events = client.follow_run(run, 0);
    let mut seen = Vec::new();
    let mut next = async |events: &mut Events| {
        let event = within(events.next()).await.expect("an event").expect("no error");
        seen.push((event.name.to_string(), event.id));
        event
    };
    next(&mut events).await;
    server.fake.admit(run);
    next(&mut events).await;
    server.stop().await;
    server.fake.work(run);
    server.fake.finish(run, Status::Completed);
    server.restart().await;
    while !next(&mut events).await.is_terminal() {}
    assert!(events.next().await.is_none());
    let ids: Vec<u64> = seen.iter().filter_map(|(_, id)| *id).collect();
    assert!(ids.is_sorted_by(|left, right| left < right), "each record once, in order: {ids:?}");
    assert_eq!(seen.last().map(|(name, _)| name.as_str()), Some("done"));
    assert_eq!(ids.first().copied(), Some(1));
}

#[tokio::test]
async fn a_stream_of_a_tree_names_the_run_of_each_event_and_goes_on_after_any_id() {
    let server = Setup::default().start().await;
    let run = quick(&server).await;
    let path = format!("/v1/runs/{run}/events?tree=true");
    let all = events(&server, &path, &[]).await;
    assert_eq!((names(&all)[0], all.last().map(|event| &*event.name)), ("agent", Some("tree_done")));
    for event in &all {
        assert_eq!(event.json()["run_id"], run.to_string(), "{}", event.name);
    }
    let ids: Vec<u64> = all.iter().filter_map(|event| event.id).collect();
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "{ids:?}");
    for after in &ids {
        let rest = events(&server, &path, &[("last-event-id", &after.to_string())]).await;
        let journaled: Vec<u64> = rest.iter().filter_map(|event| event.id).collect();
        assert_eq!(journaled, ids.iter().copied().filter(|id| id > after).collect::<Vec<_>>());
        assert_eq!(rest.last().map(|event| &*event.name), Some("tree_done"));
    }
    // Without a stream it is an ordinary answer.
    let answer = server.send(Method::Get, &path, &[("accept", "application/json")], None).await.body;
    assert_eq!(answer["run_id"], run.to_string());
}

#[tokio::test]
async fn runs_are_found_by_the_beginning_of_their_id_by_age_and_by_their_prompt() {
    let server = Setup::default().start().await;
    for prompt in ["Write an INVOICE", "read a book", "write a letter"] {
        server.post("/v1/runs", json!({ "agent": "quick", "prompt": prompt })).await;
    }
    let ids = server.fake.run_ids();
    let found = async |query: &str| -> Vec<String> {
        let page = server.get(&format!("/v1/runs?{query}")).await.body;
        page["runs"].as_array().expect("runs").iter().map(|run| run["run_id"].as_str().expect("an id").into()).collect()
    };
    let id = |place: usize| ids[place].to_string();
    assert_eq!(found(&format!("id_prefix={}", id(1))).await, [id(1)]);
    assert_eq!(found("id_prefix=r_").await.len(), 3);
    assert_eq!(found("id_prefix=b_").await.len(), 0);
    assert_eq!(found("search=invoice").await, [id(0)]);
    assert_eq!(found("search=write&limit=1").await, [id(2)]);
    assert_eq!(found(&format!("search=write&before={}", id(2))).await, [id(0)]);
    assert_eq!(found("search=nothing").await.len(), 0);
    let page = server.get("/v1/runs?include=prompt,short_id&limit=1").await.body;
    let row = &page["runs"][0];
    assert_eq!(row["prompt"], "write a letter");
    assert!(id(2).starts_with(row["short_id"].as_str().expect("a short id")));
    assert!(server.get("/v1/runs").await.body["runs"][0].get("prompt").is_none(), "only when it is asked for");
    let one = server.get(&format!("/v1/runs/{}?include=prompt", id(0))).await.body;
    assert_eq!(one["prompt"], "Write an INVOICE");
}

#[tokio::test]
async fn the_past_of_a_run_is_streamed_and_ends_where_the_run_is() {
    let server = Setup::default().start().await;
    let body = json!({ "agent": "slow", "prompt": "go", "mode": "detach" });
    let started = server.post("/v1/runs", body).await.body;
    let run = started["run_id"].as_str().expect("an id").to_owned();
    let seq = server.get(&format!("/v1/runs/{run}")).await.body["seq"].as_u64().expect("a number");
    let past = events(&server, &format!("/v1/runs/{run}/events?past=true"), &[]).await;
    assert_eq!(names(&past)[0], "agent");
    assert!(past.iter().all(|event| !event.is_terminal() && event.id.is_none_or(|id| id <= seq)), "{past:?}");
    let client: Vec<_> = within(server.client(None).follow_past(run.parse().expect("an id")).collect::<Vec<_>>()).await;
    assert_eq!(client.len(), past.len());
    assert!(client.iter().all(Result::is_ok));
    // Of a run that has ended it is the whole.
    let ended = quick(&server).await;
    let past = events(&server, &format!("/v1/runs/{ended}/events?past=true"), &[]).await;
    assert_eq!(past.last().map(|event| &*event.name), Some("done"));
    let both = server.get(&format!("/v1/runs/{ended}/events?past=true&tree=true")).await;
    assert_eq!((both.status, both.code()), (400, "bad_value"));
}
