//! Readers that wait or follow: where they begin, and what they get when their channel is deleted. Lists and changes of channels.

use std::time::Duration;

use drawloom_net::Method;
use serde_json::{Value, json};

use crate::setup::{Answered, Server, Setup, read_until};

async fn patch(server: &Server, body: Value) -> Answered {
    server.send(Method::Patch, "/v1/channels/ch", &[], Some(body.to_string().as_bytes())).await
}

async fn as_json(server: &Server, query: &str) -> Answered {
    let path = format!("/v1/channels/jobs/events?{query}");
    server.send(Method::Get, &path, &[("accept", "application/json")], None).await
}

#[tokio::test]
async fn a_reader_cannot_begin_after_the_newest_message() {
    let server = Setup::default().start().await;
    server.post("/v1/channels/jobs/publish", json!({ "value": 1 })).await;
    let events = [("accept", "text/event-stream"), ("last-event-id", "99")];
    for refused in [
        server.get("/v1/channels/jobs/peek?from_cursor=cur_99").await,
        server.post("/v1/channels:await", json!({ "channels": ["jobs"], "from_cursors": { "jobs": "cur_99" } })).await,
        as_json(&server, "after=99").await,
        server.send(Method::Get, "/v1/channels/jobs/events", &events, None).await,
    ] {
        assert_eq!((refused.status, refused.code()), (400, "channel_cursor_invalid"), "{}", refused.body);
    }
}

#[tokio::test]
async fn a_follower_takes_a_sequence_or_a_cursor() {
    let server = Setup::default().start().await;
    for number in 1..=2 {
        server.post("/v1/channels/jobs/publish", json!({ "value": number })).await;
    }
    for query in ["after=1", "after=cur_1"] {
        let read = as_json(&server, query).await;
        assert_eq!((read.status, &read.body["messages"][0]["value"]), (200, &json!(2)), "{query} {}", read.body);
    }
    let both = as_json(&server, "after=1&tail=true").await;
    assert_eq!((both.status, both.code()), (400, "wrong_fields"), "{}", both.body);
    let wrong = as_json(&server, "after=cur_x").await;
    assert_eq!(wrong.status, 400, "{}", wrong.body);
    // A stream that a browser continues has both.
    let request = "GET /v1/channels/jobs/events?tail=true HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\
                   Last-Event-ID: 1\r\n\r\n";
    read_until(&mut server.say(request.as_bytes()).await, "\"value\":2").await;
}

#[tokio::test]
async fn a_deleted_channel_ends_every_wait_for_it() {
    let server = Setup::default().start().await;
    server.post("/v1/channels", json!({ "name": "ch" })).await;
    let request = "GET /v1/channels/ch/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n";
    server.post("/v1/channels/ch/publish", json!({ "value": "begun" })).await;
    let mut stream = server.say(request.as_bytes()).await;
    read_until(&mut stream, "begun").await;
    server.taken("ch").await;
    let wait = json!({ "wait_ms": 60_000 });
    let all = json!({ "channels": ["jobs", "ch"], "wait_ms": 60_000 });
    let delete = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        server.send(Method::Delete, "/v1/channels/ch", &[], None).await
    };
    let dead = server.post("/v1/channels/ch.dead/subscribe", wait.clone());
    let read = server.post("/v1/channels/ch/subscribe", wait.clone());
    let awaited = server.post("/v1/channels:await", all);
    let waits = async { tokio::join!(read, dead, awaited, delete) };
    let (read, dead, awaited, deleted) =
        tokio::time::timeout(Duration::from_secs(20), waits).await.expect("they end soon");
    assert_eq!(deleted.status, 200, "{}", deleted.body);
    for ended in [read, dead, awaited] {
        assert_eq!((ended.status, ended.code()), (404, "channel_not_declared"), "{}", ended.body);
    }
    let ended = read_until(&mut stream, "channel_not_declared").await;
    assert!(ended.contains("event: error"), "{ended}");
}

#[tokio::test]
async fn null_removes_a_setting_that_can_be_absent() {
    let server = Setup::default().start().await;
    let settings = json!({ "name": "ch", "default_ttl": 60, "dead_letter": "lost", "max_messages": 5 });
    server.post("/v1/channels", settings).await;
    let kept = patch(&server, json!({ "description": "x" })).await.body;
    assert_eq!((&kept["default_ttl"], &kept["dead_letter"]), (&json!(60), &json!("lost")));
    let removed = patch(&server, json!({ "default_ttl": null, "dead_letter": null, "max_messages": null })).await.body;
    assert_eq!((removed.get("default_ttl"), &removed["dead_letter"]), (None, &json!("ch.dead")), "{removed}");
    assert_eq!(removed["max_messages"], 5, "it has no absent value: {removed}");
    patch(&server, json!({ "default_ttl": 9 })).await;
    let body = json!({ "op": "update", "name": "ch", "default_ttl": null });
    let removed = server.post("/v1/channeldef", body).await;
    assert_eq!((removed.status, removed.body.get("default_ttl")), (200, None), "{}", removed.body);
    let body = json!({ "op": "delete", "name": "ch", "default_ttl": null });
    assert_eq!(server.post("/v1/channeldef", body).await.status, 200, "elsewhere null is not given");
}

#[tokio::test]
async fn channeldef_names_every_field_that_an_op_does_not_take() {
    let server = Setup::default().start().await;
    server.post("/v1/channels", json!({ "name": "ch" })).await;
    let body = json!({ "op": "update", "name": "ch", "scope": "user", "user_id": "kim", "max_messages": 5 });
    let refused = server.post("/v1/channeldef", body).await;
    assert_eq!((refused.status, refused.code()), (400, "unexpected_field"), "{}", refused.body);
    let text = refused.body["error"].to_string();
    assert!(text.contains("op=update does not take scope, user_id") && text.contains("max_messages"), "{text}");
}

#[tokio::test]
async fn a_dead_letter_channel_is_listed_when_it_has_messages() {
    let server = Setup::default().start().await;
    server.post("/v1/channels", json!({ "name": "ch" })).await;
    let names = async |query: &str| {
        let listed = server.get(&format!("/v1/channels?{query}")).await.body;
        let channels = listed["channels"].as_array().expect("channels").iter();
        let names: Vec<String> =
            channels.map(|channel| format!("{} {}", channel["name"], channel["source"]).replace('"', "")).collect();
        (names.join(", "), listed["next"].as_str().map(str::to_owned))
    };
    assert_eq!(names("prefix=ch").await, ("ch runtime".into(), None));
    server.post("/v1/channels/ch.dead/publish", json!({ "value": 1 })).await;
    assert_eq!(names("prefix=ch").await, ("ch runtime, ch.dead implicit".into(), None));
    assert_eq!(names("prefix=ch&limit=1").await, ("ch runtime".into(), Some("ch".into())));
    assert_eq!(names("prefix=ch&after=ch").await, ("ch.dead implicit".into(), None));
}
