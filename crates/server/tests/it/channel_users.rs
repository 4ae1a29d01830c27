//! Whose messages a request about channels means: purge under a bound token, and requests over channels of several scopes.

use drawloom_net::Method;
use serde_json::{Value, json};

use crate::setup::{Answered, Server, Setup};

async fn bound() -> Server {
    let server = Setup { principals: true, ..Setup::default() }.start().await;
    for user in ["kim", "una"] {
        let sent = send(&server, user, "inbox/publish", json!({ "value": user })).await;
        assert_eq!(sent.status, 200, "{}", sent.body);
    }
    server
}

async fn send(server: &Server, user: &str, path: &str, body: Value) -> Answered {
    server
        .as_principal(&format!("{user}-token-of-the-tests"), Method::Post, &format!("/v1/channels/{path}"), Some(body))
        .await
}

/// How many messages Kim and Una have.
async fn left(server: &Server) -> (usize, usize) {
    let count = async |user: &str| {
        let token = format!("{user}-token-of-the-tests");
        let peeked = server.as_principal(&token, Method::Get, "/v1/channels/inbox/peek", None).await;
        peeked.body["messages"].as_array().map_or(0, Vec::len)
    };
    (count("kim").await, count("una").await)
}

#[tokio::test]
async fn a_bound_token_purges_its_own_messages_alone() {
    let server = bound().await;
    let named = send(&server, "una", "inbox/purge", json!({ "user_id": "kim" })).await;
    assert_eq!((named.status, named.code()), (403, "user_denied"), "{}", named.body);
    let body = json!({ "op": "purge", "name": "inbox", "user_id": "kim" });
    let defined = server.as_principal("una-token-of-the-tests", Method::Post, "/v1/channeldef", Some(body)).await;
    assert_eq!((defined.status, defined.code()), (403, "user_denied"), "{}", defined.body);
    assert_eq!(left(&server).await, (1, 1), "nothing was purged");
    let own = send(&server, "una", "inbox/purge", json!({})).await;
    assert_eq!((own.status, &own.body["purged"]), (200, &json!(1)), "{}", own.body);
    assert!(own.body["warnings"][0].as_str().is_some_and(|text| text.contains("only messages of una")), "{}", own.body);
    assert_eq!(left(&server).await, (1, 0));
    let body = json!({ "op": "purge", "name": "inbox" });
    let defined = server.as_principal("una-token-of-the-tests", Method::Post, "/v1/channeldef", Some(body)).await;
    assert_eq!((defined.body["purged"].as_u64(), left(&server).await), (Some(0), (1, 0)), "{}", defined.body);
}

#[tokio::test]
async fn a_token_that_sees_all_users_purges_those_of_one_or_of_all() {
    let server = bound().await;
    let one = send(&server, "ann", "inbox/purge", json!({ "user_id": "kim" })).await;
    assert_eq!((one.status, &one.body["purged"]), (200, &json!(1)), "{}", one.body);
    assert_eq!(left(&server).await, (0, 1));
    let all = send(&server, "ann", "inbox/purge", json!({})).await;
    assert_eq!((&all.body["purged"], left(&server).await), (&json!(1), (0, 0)), "{}", all.body);
}

#[tokio::test]
async fn a_field_is_used_by_the_channels_that_it_fits() {
    let server = Setup::default().start().await;
    server.post("/v1/channels", json!({ "name": "news", "semantic": "broadcast" })).await;
    let sent = json!({ "channels": ["jobs", "inbox", "desk"], "value": 1, "user_id": "kim", "agent": "quick" });
    let sent = server.post("/v1/channels:broadcast", sent).await;
    assert_eq!((sent.status, &sent.body["published"]), (200, &json!(3)), "{}", sent.body);
    let read = server.post("/v1/users/kim/channels/inbox/subscribe", json!({})).await;
    assert_eq!(read.body["messages"][0]["value"], 1);
    server.post("/v1/channels/news/publish", json!({ "value": 2 })).await;
    let awaited = json!({ "channels": ["jobs", "news", "inbox"], "user_id": "kim", "consumer": "c", "mode": "any" });
    let awaited = server.post("/v1/channels:await", awaited).await;
    assert_eq!((awaited.status, &awaited.body["fired"]), (200, &json!(["jobs", "news"])), "{}", awaited.body);
    for (body, code) in [
        (json!({ "channels": ["jobs", "news"], "user_id": "kim" }), "channel_scope_invalid"),
        (json!({ "channels": ["jobs", "inbox"], "agent": "quick" }), "channel_scope_invalid"),
        (json!({ "channels": ["jobs", "inbox"], "consumer": "c" }), "wrong_fields"),
    ] {
        let refused = server.post("/v1/channels:await", body).await;
        assert_eq!((refused.status, refused.code()), (400, code), "no channel uses it: {}", refused.body);
    }
}
