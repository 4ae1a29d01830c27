//! Whose messages a request about channels means: purge under a bound token, and requests over channels of several scopes.

use drawloom_contract::caller::Scope;
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

/// Requests that would take messages from other users, for every operation that changes channels.
fn attacks(operation: &str) -> Vec<(Method, String, Value)> {
    let post = |path: &str, body: Value| (Method::Post, path.to_owned(), body);
    let small = json!({ "scope": "user", "max_messages": 1 });
    match operation {
        "update_channel" => [
            json!({ "max_messages": 1 }),
            json!({ "default_ttl": 1 }),
            json!({ "max_attempts": 1 }),
            json!({ "lease_ms": 100 }),
            json!({ "dead_letter": "jobs" }),
            json!({ "semantic": "queue" }),
        ]
        .map(|body| (Method::Patch, "/v1/channels/box".to_owned(), body))
        .to_vec(),
        "delete_channel" => vec![
            (Method::Delete, "/v1/channels/box".to_owned(), Value::Null),
            // Its dead-letter channel is a name that has messages of others.
            (Method::Delete, "/v1/channels/trap".to_owned(), Value::Null),
        ],
        "purge_channel" => vec![post("/v1/channels/box/purge", json!({ "user_id": "kim" }))],
        "channeldef" => vec![
            post("/v1/channeldef", json!({ "op": "update", "name": "box", "max_messages": 1 })),
            post("/v1/channeldef", json!({ "op": "delete", "name": "box" })),
            post("/v1/channeldef", json!({ "op": "purge", "name": "box", "user_id": "kim" })),
            post("/v1/channeldef", json!({ "op": "create", "name": "box.dead", "scope": "user", "max_messages": 1 })),
        ],
        // The dead-letter channel exists without a definition, with messages of others.
        "create_channel" => {
            vec![post("/v1/channels", json!({ "name": "box.dead", "scope": "user", "max_messages": 1 }))]
        }
        "create_definition" => ["box", "box.dead", "bare"]
            .map(|name| post("/v1/definitions", json!({ "kind": "channel", "name": name, "source": small })))
            .to_vec(),
        "fork_definition" => vec![post(
            "/v1/definitions:fork",
            json!({ "kind": "channel", "from": "box", "changes": { "max_messages": 1 }, "promote": true }),
        )],
        "promote_definition" => {
            vec![
                post("/v1/definitions:promote", json!({ "kind": "channel", "name": "box", "version": 2 })),
                post("/v1/definitions:promote", json!({ "kind": "channel", "name": "bare", "version": 1 })),
            ]
        }
        "retire_definition" => vec![post("/v1/definitions:retire", json!({ "kind": "channel", "name": "box" }))],
        // It changes agents alone.
        "agentdef" => Vec::new(),
        other => panic!("{other} needs definitions:write: say here how it could take messages of others"),
    }
}

#[tokio::test]
async fn no_operation_removes_messages_of_other_users() {
    let server = Setup { principals: true, ..Setup::default() }.start().await;
    let ann = async |method, path: &str, body: Value| {
        let answer = server.as_principal("ann-token-of-the-tests", method, path, Some(body)).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    };
    let settings = json!({ "name": "box", "scope": "user", "semantic": "broadcast", "default_ttl": 9_000 });
    ann(Method::Post, "/v1/channels", settings).await;
    let fork = json!({ "kind": "channel", "from": "box", "changes": { "max_messages": 1 } });
    ann(Method::Post, "/v1/definitions:fork", fork).await;
    ann(Method::Post, "/v1/channels", json!({ "name": "bare", "scope": "user" })).await;
    for channel in ["box", "box.dead", "bare"] {
        for value in 1..=3 {
            let sent = send(&server, "kim", &format!("{channel}/publish"), json!({ "value": value })).await;
            assert_eq!(sent.status, 200, "{}", sent.body);
        }
    }
    ann(Method::Post, "/v1/definitions:retire", json!({ "kind": "channel", "name": "bare" })).await;
    let trap = json!({ "name": "trap", "scope": "user", "dead_letter": "box.dead" });
    ann(Method::Post, "/v1/channels", trap).await;
    ann(Method::Post, "/v1/channels:broadcast", json!({ "channels": ["jobs"], "value": 1 })).await;
    let mut tried = 0;
    for served in server.app.operations().iter() {
        if served.card().scope != Some(Scope::DefinitionsWrite) {
            continue;
        }
        for (method, path, body) in attacks(served.card().name()) {
            let refused = server
                .as_principal(
                    "una-token-of-the-tests",
                    method,
                    &path,
                    Some(body.clone()).filter(|body| !body.is_null()),
                )
                .await;
            let is_own_trap = path.ends_with("/trap");
            // The dead letters of `box` are of `box` too, so they do not go with `trap`.
            let expected = if is_own_trap { (200, "") } else { (403, "user_denied") };
            assert_eq!((refused.status, refused.code()), expected, "{path} {body}: {}", refused.body);
            tried += 1;
        }
    }
    assert!(tried >= 18, "{tried}");
    let back = json!({ "kind": "channel", "name": "bare", "version": 1, "retired": false });
    ann(Method::Post, "/v1/definitions:retire", back).await;
    ann(Method::Post, "/v1/definitions:promote", json!({ "kind": "channel", "name": "bare", "version": 1 })).await;
    for channel in ["box", "box.dead", "bare"] {
        let path = format!("/v1/channels/{channel}/peek?consumer=c");
        let path = if channel == "box" { path } else { path.replace("?consumer=c", "") };
        let kept = server.as_principal("kim-token-of-the-tests", Method::Get, &path, None).await;
        let kept = kept.body["messages"].as_array().map_or(0, Vec::len);
        assert_eq!(kept, 3, "{channel}");
    }
    // What takes nothing away is allowed, and so is everything while only one's own messages are there.
    let more = send_patch(&server, "box", json!({ "max_messages": 20_000, "description": "more" })).await;
    assert_eq!(more.status, 200, "{}", more.body);
    let made = post_channel(&server, json!({ "name": "own", "scope": "user" })).await;
    assert_eq!(made.status, 200, "{}", made.body);
    send(&server, "una", "own/publish", json!({ "value": 1 })).await;
    let lowered = send_patch(&server, "own", json!({ "max_messages": 1 })).await;
    assert_eq!(lowered.status, 200, "{}", lowered.body);
}

async fn send_patch(server: &Server, channel: &str, body: Value) -> Answered {
    let path = format!("/v1/channels/{channel}");
    server.as_principal("una-token-of-the-tests", Method::Patch, &path, Some(body)).await
}

async fn post_channel(server: &Server, body: Value) -> Answered {
    server.as_principal("una-token-of-the-tests", Method::Post, "/v1/channels", Some(body)).await
}

#[tokio::test]
async fn nobody_has_dead_letters_of_other_users_come_out_where_others_read_them() {
    let server = Setup { principals: true, ..Setup::default() }.start().await;
    let ann = async |method, path: &str, body: Value| {
        server.as_principal("ann-token-of-the-tests", method, path, Some(body)).await
    };
    let una = async |method, path: &str, body: Value| {
        server.as_principal("una-token-of-the-tests", method, path, Some(body)).await
    };
    let made = ann(Method::Post, "/v1/channels", json!({ "name": "mine", "scope": "user" })).await;
    assert_eq!(made.status, 200, "{}", made.body);
    let all = una(Method::Post, "/v1/channels", json!({ "name": "all", "scope": "tenant" })).await;
    assert_eq!(all.status, 200, "{}", all.body);
    let tenant = json!({ "scope": "tenant" });
    let promoted = json!({ "kind": "channel", "name": "mine.dead", "source": tenant, "promote": true });
    let forked = json!({ "kind": "channel", "from": "mine", "changes": { "dead_letter": "all" }, "promote": true });
    for (method, path, body) in [
        (Method::Post, "/v1/channels", json!({ "name": "mine.dead", "scope": "tenant" })),
        (Method::Patch, "/v1/channels/mine", json!({ "dead_letter": "all" })),
        (Method::Post, "/v1/channels", json!({ "name": "trap", "scope": "user", "dead_letter": "all" })),
        (Method::Post, "/v1/definitions", promoted),
        (Method::Post, "/v1/definitions:fork", forked),
    ] {
        let refused = una(method, path, body.clone()).await;
        assert_eq!((refused.status, refused.code()), (400, "channel_scope_invalid"), "{path} {body}: {}", refused.body);
        assert!(refused.body.to_string().contains("runs:read:all"), "{}", refused.body);
    }
    let own = una(Method::Post, "/v1/channels", json!({ "name": "mine.dead", "scope": "user" })).await;
    assert_eq!(own.status, 200, "the same scope: {}", own.body);
    let operator =
        ann(Method::Post, "/v1/channels", json!({ "name": "seen", "scope": "user", "dead_letter": "all" })).await;
    assert_eq!(operator.status, 200, "who sees all may read them anyway: {}", operator.body);
}
