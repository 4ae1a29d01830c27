//! Channels over REST: whose messages, once, waiting, groups, streams, and channels made at runtime.

use drawloom_net::Method;
use serde_json::{Value, json};

use crate::setup::{Answered, Server, Setup, read_until};

impl Server {
    pub(crate) async fn as_principal(&self, token: &str, method: Method, path: &str, body: Option<Value>) -> Answered {
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", bearer.as_str()), ("accept", "application/json")];
        let body = body.map(|body| body.to_string());
        self.send(method, path, &headers, body.as_deref().map(str::as_bytes)).await
    }

    pub(crate) async fn taken(&self, channel: &str) -> Vec<Value> {
        let answer = self.post(&format!("/v1/channels/{channel}/subscribe"), json!({"max_messages": 100})).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        let messages = answer.body["messages"].as_array().expect("messages").iter();
        messages.map(|message| message["value"].clone()).collect()
    }
}

#[tokio::test]
async fn a_message_is_published_peeked_acknowledged_and_taken() {
    let server = Setup::default().start().await;
    for (path, field) in [("/v1/channels", "value"), ("/v1/_channels", "payload")] {
        let answer = server.post(&format!("{path}/jobs/publish"), json!({ field: {"hop": 0} })).await;
        assert_eq!((answer.status, &answer.body["dropped_oldest"]), (200, &json!(0)), "{}", answer.body);
    }
    let peeked = server.get("/v1/_channels/jobs/peek?max_messages=1").await.body;
    assert_eq!((&peeked["next_cursor"], &peeked["more"]), (&json!("cur_1"), &json!(true)));
    let acked = server.post("/v1/channels/jobs/ack", json!({"cursor": peeked["next_cursor"]})).await;
    assert_eq!((acked.status, &acked.body["ok"]), (200, &json!(true)));
    let read = server.post("/v1/channels/jobs/subscribe", json!({})).await.body;
    assert_eq!((read["messages"].as_array().map(Vec::len), &read["effective_wait_ms"]), (Some(1), &json!(0)));
    let back = server.post("/v1/channels/jobs/ack", json!({"cursor": "cur_1"})).await;
    assert_eq!((back.status, back.code()), (409, "channel_cursor_regression"));
    let unknown = server.post("/v1/channels/jbos/publish", json!({"value": 1})).await;
    assert_eq!((unknown.status, unknown.code()), (404, "channel_not_declared"));
    assert!(unknown.body["error"]["hint"].as_str().is_some_and(|hint| hint.contains("did you mean \"jobs\"")));
    let reserved = server.post("/v1/channels/_system%2Fx/publish", json!({"value": 1})).await;
    assert_eq!(reserved.code(), "channel_name_invalid", "{}", reserved.body);
}

#[tokio::test]
async fn a_request_with_a_key_publishes_and_takes_once() {
    let server = Setup::default().start().await;
    let publish = json!({"value": 1, "idempotency_key": "p"});
    let first = server.post("/v1/channels/jobs/publish", publish.clone()).await.body;
    assert_eq!(server.post("/v1/channels/jobs/publish", publish).await.body, first);
    let read = json!({"idempotency_key": "s"});
    let taken = server.post("/v1/channels/jobs/subscribe", read.clone()).await.body;
    assert_eq!(taken["messages"][0]["value"], 1);
    assert_eq!(server.post("/v1/channels/jobs/subscribe", read).await.body, taken);
    assert_eq!(server.taken("jobs").await, Vec::<Value>::new());
    let other = server.post("/v1/channels/jobs/publish", json!({"value": 2, "idempotency_key": "p"})).await;
    assert_eq!((other.status, other.code()), (409, "idempotency_key_reused"));
}

#[tokio::test]
async fn a_wait_ends_with_the_message_and_one_above_the_limit_says_how_long_it_was() {
    let server = Setup { speed: 1_000, ..Setup::default() }.start().await;
    let timed_out = server.post("/v1/channels/jobs/subscribe", json!({"wait_ms": 600_000})).await.body;
    assert_eq!((&timed_out["timed_out"], &timed_out["effective_wait_ms"]), (&json!(true), &json!(60_000)));
    let warning = timed_out["warnings"][0].as_str().expect("a warning");
    assert!(warning.contains("600000") && warning.contains("60000"), "{warning}");
    let awaited = server.post("/v1/_channels/_await", json!({"channels": ["jobs"], "wait_ms": 90_000})).await.body;
    assert_eq!((&awaited["satisfied"], &awaited["effective_wait_ms"]), (&json!(false), &json!(60_000)));
    assert!(awaited["warnings"][0].is_string());
    let slow = Setup::default().start().await;
    let (read, _) = tokio::join!(
        slow.post("/v1/channels/jobs/subscribe", json!({"wait_ms": 60_000})),
        slow.post("/v1/channels/jobs/publish", json!({"value": "now"})),
    );
    assert_eq!(read.body["messages"][0]["value"], "now");
}

#[tokio::test]
async fn the_wire_names_the_user_under_a_shared_token_and_a_bound_token_does_not_obey() {
    let server = Setup::default().start().await;
    let kickoff = server.post("/v1/users/exp3/channels/inbox/publish", json!({"payload": {"hop": 0}})).await;
    assert_eq!((kickoff.status, kickoff.body.get("warnings")), (200, None), "{}", kickoff.body);
    assert_eq!(server.taken("inbox").await, Vec::<Value>::new(), "it is not the default user's");
    let read = server.post("/v1/channels/inbox/subscribe", json!({"user_id": "exp3"})).await.body;
    assert_eq!(read["messages"][0]["value"], json!({"hop": 0}));
    let bound = Setup { principals: true, ..Setup::default() }.start().await;
    let path = "/v1/users/bob/channels/inbox/publish";
    let overridden = bound.as_principal("ann-token-of-the-tests", Method::Post, path, Some(json!({"value": 1}))).await;
    assert_eq!(overridden.body["warnings"], json!(["user_id bob ignored: the token belongs to ann"]));
    let own = bound
        .as_principal("ann-token-of-the-tests", Method::Post, "/v1/channels/inbox/subscribe", Some(json!({})))
        .await;
    assert_eq!(own.body["messages"][0]["value"], 1, "it went to ann");
    let foreign = bound.as_principal("eve-token-of-the-tests", Method::Get, "/v1/channels/inbox/peek", None).await;
    assert_eq!(foreign.body["messages"], json!([]), "another tenant sees nothing");
}

#[tokio::test]
async fn fields_that_do_not_fit_the_scope_are_refused() {
    let server = Setup::default().start().await;
    for (path, body) in [
        ("/v1/channels/jobs/publish", json!({"value": 1, "user_id": "ann"})),
        ("/v1/channels/inbox/publish", json!({"value": 1, "agent": "quick"})),
        ("/v1/channels/desk/publish", json!({"value": 1})),
        ("/v1/channels/jobs/publish", json!({"value": 1, "scope": "user"})),
    ] {
        let answer = server.post(path, body).await;
        assert_eq!((answer.status, answer.code()), (400, "channel_scope_invalid"), "{}", answer.body);
    }
    let desk = server.post("/v1/channels/desk/publish", json!({"value": 1, "agent": "quick"})).await;
    assert_eq!(desk.status, 200, "{}", desk.body);
    let jobs = server.post("/v1/channels/jobs/publish", json!({"value": 1, "scope": "global"})).await;
    assert_eq!(jobs.status, 200, "{}", jobs.body);
}

#[tokio::test]
async fn a_channel_made_at_runtime_is_used_changed_purged_and_deleted() {
    let server = Setup::default().start().await;
    let made = server.post("/v1/_channels", json!({"name": "exp3-ch1", "scope": "global", "semantic": "queue"})).await;
    assert_eq!((made.status, &made.body["source"], &made.body["scope"]), (200, &json!("runtime"), &json!("tenant")));
    let twice = server.post("/v1/channels", json!({"name": "exp3-ch1"})).await;
    assert_eq!((twice.status, twice.code()), (409, "channel_name_in_use"));
    server.post("/v1/channels/exp3-ch1/publish", json!({"value": 1})).await;
    let listed = server.get("/v1/_channels?prefix=exp3").await.body;
    assert_eq!(
        (&listed["channels"][0]["name"], &listed["channels"][0]["message_count"]),
        (&json!("exp3-ch1"), &json!(1))
    );
    let patched = server.send(Method::Patch, "/v1/channels/exp3-ch1", &[], Some(br#"{"max_messages": 5}"#)).await;
    assert_eq!((&patched.body["max_messages"], &patched.body["version"]), (&json!(5), &json!(2)), "{}", patched.body);
    let purged = server.post("/v1/channels/exp3-ch1/purge", json!({})).await;
    assert_eq!(purged.body["purged"], 1);
    let deleted = server.send(Method::Delete, "/v1/channels/exp3-ch1", &[], None).await;
    assert_eq!(deleted.body, json!({"name": "exp3-ch1", "deleted": true}));
    assert_eq!(server.post("/v1/channels/exp3-ch1/publish", json!({"value": 1})).await.status, 404);
    // A channel of the config cannot be changed, but purged.
    server.post("/v1/channels/jobs/publish", json!({"value": 1})).await;
    for (method, body) in [(Method::Patch, Some(&b"{}"[..])), (Method::Delete, None)] {
        let refused = server.send(method, "/v1/_channels/jobs", &[], body).await;
        assert_eq!((refused.status, refused.code()), (409, "channel_yaml_immutable"));
    }
    assert_eq!(server.post("/v1/_channels/jobs/purge", json!({})).await.body["purged"], 1);
}

#[tokio::test]
async fn a_group_gives_leases_that_are_acknowledged_given_back_and_extended() {
    let server = Setup::default().start().await;
    for number in 0..3 {
        server.post("/v1/channels/jobs/publish", json!({"value": number})).await;
    }
    let take = async || server.post("/v1/channels/jobs/subscribe", json!({"group": "g", "max_messages": 1})).await.body;
    let (first, second) = (take().await, take().await);
    let lease = |taken: &Value| taken["messages"][0]["lease"].clone();
    let acked = server.post("/v1/channels/jobs/ack", json!({"group": "g", "leases": [lease(&first)]})).await;
    assert_eq!(acked.body["settled"], 1);
    let again = server.post("/v1/channels/jobs/ack", json!({"group": "g", "leases": [lease(&first)]})).await;
    assert_eq!((again.status, again.code()), (409, "channel_lease_lost"));
    let body = json!({"group": "g", "leases": [lease(&second)], "lease_ms": 5_000});
    let extended = server.post("/v1/channels/jobs/extend", body).await.body;
    let nak = server.post("/v1/channels/jobs/nak", json!({"group": "g", "leases": extended["leases"]})).await;
    assert_eq!(nak.body["settled"], 1, "{}", nak.body);
    let back = take().await;
    assert_eq!((&back["messages"][0]["value"], &back["messages"][0]["attempt"]), (&json!(1), &json!(2)));
    let wrong = server.post("/v1/channels/jobs/ack", json!({"group": "g", "cursor": "cur_1"})).await;
    assert_eq!((wrong.status, wrong.code()), (400, "wrong_fields"));
}

#[tokio::test]
async fn a_stream_has_sequences_as_ids_and_continues_after_the_last_event() {
    let server = Setup::default().start().await;
    for number in 1..=2 {
        server.post("/v1/channels/jobs/publish", json!({"value": number})).await;
    }
    let request = |last: &str| {
        format!("GET /v1/channels/jobs/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n{last}\r\n")
    };
    let mut stream = server.say(request("").as_bytes()).await;
    let begun = read_until(&mut stream, "\"value\":2").await;
    assert!(begun.contains("id: 1\n") && begun.contains("event: message"), "{begun}");
    server.post("/v1/channels/jobs/publish", json!({"value": 3})).await;
    assert!(read_until(&mut stream, "\"value\":3").await.contains("id: 3\n"));
    drop(stream);
    let mut resumed = server.say(request("Last-Event-ID: 2\r\n").as_bytes()).await;
    let rest = read_until(&mut resumed, "\"value\":3").await;
    assert!(!rest.contains("\"value\":2"), "{rest}");
    let path = "/v1/channels/jobs/events?after=1&max_messages=1";
    let past = server.send(Method::Get, path, &[("accept", "application/json")], None).await.body;
    assert_eq!(past["messages"][0]["value"], 2);
    assert_eq!(server.taken("jobs").await, [1, 2, 3], "a follower takes nothing");
}

#[tokio::test]
async fn a_broadcast_names_an_unknown_channel_before_anything_is_published() {
    let server = Setup::default().start().await;
    let refused = server.post("/v1/channels:broadcast", json!({"channels": ["jobs", "nope"], "value": 1})).await;
    assert_eq!((refused.status, refused.code()), (404, "channel_not_declared"));
    assert_eq!(server.taken("jobs").await, Vec::<Value>::new());
    server.post("/v1/_channels", json!({"name": "b"})).await;
    let sent = server.post("/v1/_channels/_broadcast", json!({"channels": ["jobs", "b"], "payload": 1})).await;
    assert_eq!((&sent.body["published"], &sent.body["failed"]), (&json!(2), &json!(0)));
    let awaited = server.post("/v1/channels:await", json!({"channels": ["jobs", "b"], "mode": "all"})).await.body;
    assert_eq!((&awaited["satisfied"], &awaited["total_messages"]), (&json!(true), &json!(2)));
}

#[tokio::test]
async fn channeldef_repeats_its_first_answer_under_one_key_whatever_the_op() {
    let server = Setup::default().start().await;
    let define = async |op: &str, key: &str| {
        let body = json!({ "op": op, "name": "desk-2", "idempotency_key": key });
        server.post("/v1/channeldef", body).await
    };
    let made = define("create", "a").await;
    assert_eq!((made.status, &made.body["source"]), (200, &json!("runtime")), "{}", made.body);
    assert_eq!(define("create", "a").await.body, made.body, "a repeat makes no second one");
    assert_eq!(define("create", "b").await.status, 409, "another request finds the name in use");
    assert_eq!(define("purge", "a").await.status, 409, "the key was used for another request");
    let publish = async || server.post("/v1/channels/desk-2/publish", json!({ "value": 1 })).await;
    publish().await;
    assert_eq!(define("purge", "c").await.body["purged"], 1);
    publish().await;
    assert_eq!(define("purge", "c").await.body["purged"], 1, "a repeat removes nothing more");
    assert_eq!(server.taken("desk-2").await, [json!(1)]);
    let all = json!({ "op": "purge", "name": "inbox", "user_id": "exp3" });
    server.post("/v1/users/exp3/channels/inbox/publish", json!({ "value": 1 })).await;
    server.post("/v1/users/bob/channels/inbox/publish", json!({ "value": 2 })).await;
    assert_eq!(server.post("/v1/channeldef", all).await.body["purged"], 1, "only those of the named user");
    let deleted = define("delete", "d").await;
    assert_eq!(deleted.body, json!({ "name": "desk-2", "deleted": true }));
    assert_eq!(define("delete", "d").await.body, deleted.body);
}
