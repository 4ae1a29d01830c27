//! Definitions of another tenant answer like those that never existed, whatever is asked.

use drawloom_net::Method;
use serde_json::{Value, json};

use crate::setup::{Answered, Server, Setup};

const ANN: (&str, &str) = ("authorization", "Bearer ann-token-of-the-tests");
const EVE: (&str, &str) = ("authorization", "Bearer eve-token-of-the-tests");

async fn post(server: &Server, who: (&'static str, &str), path: &str, body: Value) -> Answered {
    server.send(Method::Post, path, &[who], Some(body.to_string().as_bytes())).await
}

/// An answer without what differs from request to request, and without the name that was asked for.
fn plain(answer: &Answered, name: &str) -> (u16, String) {
    let mut body = answer.body.clone();
    body["error"]["request_id"] = Value::Null;
    (answer.status, body.to_string().replace(name, "NAME"))
}

#[tokio::test]
async fn what_another_tenant_defined_cannot_be_told_from_what_nobody_defined() {
    let source = json!({ "description": "How to keep it.", "instructions": "Keep it secret." });
    let other = json!({ "description": "Mine.", "instructions": "Other." });
    stays_apart("skill", source, other).await;
    stays_apart("channel", json!({ "description": "Secret.", "scope": "user" }), json!({ "max_messages": 7 })).await;
}

async fn stays_apart(kind: &str, source: Value, other: Value) {
    let server = Setup { principals: true, ..Setup::default() }.start().await;
    let made = post(&server, ANN, "/v1/definitions", json!({ "kind": kind, "name": "hers", "source": source })).await;
    assert_eq!((made.status, &made.body["def_id"]), (200, &json!("hers@1")), "{}", made.body);
    for (path, body) in [
        ("/v1/definitions:fork", json!({ "kind": kind, "from": "hers", "name": "mine" })),
        ("/v1/definitions:fork", json!({ "kind": kind, "from": "hers@1", "name": "mine" })),
        ("/v1/definitions:promote", json!({ "kind": kind, "name": "hers", "version": 1 })),
        ("/v1/definitions:retire", json!({ "kind": kind, "name": "hers" })),
        ("/v1/definitions:retire", json!({ "kind": kind, "name": "hers", "version": 1 })),
        ("/v1/definitions:verify", json!({ "kind": kind, "name": "hers" })),
        ("/v1/_agentdef", json!({ "op": "get", "name": "hers" })),
        ("/v1/_agentdef", json!({ "op": "promote", "def_id": "hers@1" })),
        ("/v1/channeldef", json!({ "op": "update", "name": "hers", "max_messages": 3 })),
        ("/v1/channeldef", json!({ "op": "delete", "name": "hers" })),
    ] {
        let asked = post(&server, EVE, path, body.clone()).await;
        let unknown: Value = serde_json::from_str(&body.to_string().replace("hers", "nope")).expect("JSON");
        let unknown = post(&server, EVE, path, unknown).await;
        assert_eq!(plain(&asked, "hers"), plain(&unknown, "nope"), "{path} {body}");
        assert_eq!(asked.status, 404, "{path} {body}: {}", asked.body);
    }
    for path in [
        "/v1/definitions/KIND/hers",
        "/v1/definitions?kind=KIND&name=hers",
        "/v1/definitions:diff?kind=KIND&from=hers@1&to=hers",
    ] {
        let path = path.replace("KIND", kind);
        let asked = server.send(Method::Get, &path, &[EVE], None).await;
        let unknown = server.send(Method::Get, &path.replace("hers", "nope"), &[EVE], None).await;
        assert_eq!(plain(&asked, "hers"), plain(&unknown, "nope"), "{path}");
        assert_eq!(asked.status, 404, "{path}: {}", asked.body);
    }
    let listed = server.send(Method::Get, "/v1/definitions", &[EVE], None).await;
    assert!(!listed.body["definitions"].to_string().contains("runtime"), "{}", listed.body);
    // The same name is free for her, and stays apart.
    let made = post(&server, EVE, "/v1/definitions", json!({ "kind": kind, "name": "hers", "source": other })).await;
    assert_eq!((made.status, &made.body["version"]), (200, &json!(1)), "{}", made.body);
    let kept = server.send(Method::Get, &format!("/v1/definitions/{kind}/hers"), &[ANN], None).await;
    assert_eq!(kept.body["source"], source);
    // A token without the scope reads and writes nothing.
    let bob = ("authorization", "Bearer bob-token-of-the-tests");
    assert_eq!(server.send(Method::Get, "/v1/definitions", &[bob], None).await.status, 403);
    let refused = post(&server, bob, "/v1/definitions", json!({ "kind": kind, "name": "x", "source": {} })).await;
    assert_eq!(refused.status, 403);
}

#[tokio::test]
async fn a_channel_has_one_history_whichever_operation_changes_it() {
    let server = Setup::default().start().await;
    let made = server.post("/v1/channels", json!({ "name": "ch", "max_messages": 5 })).await.body;
    assert_eq!((&made["version"], &made["message_count"]), (&json!(1), &json!(0)), "{made}");
    server.post("/v1/channels/ch/publish", json!({ "value": 1 })).await;
    let alike = server.post("/v1/channeldef", json!({ "op": "update", "name": "ch", "max_messages": 2 })).await.body;
    let fields = |value: &Value| value.as_object().map(|fields| fields.keys().cloned().collect::<Vec<_>>());
    assert_eq!((fields(&alike), &alike["version"]), (fields(&made), &json!(2)), "the same fields: {alike}");
    assert_eq!(alike["message_count"], 1);
    let shown = server.get("/v1/definitions/channel/ch").await.body;
    assert_eq!(
        (&shown["def_id"], &shown["parent"], &shown["content_sha256"], &shown["source"]),
        (&json!("ch@2"), &json!("ch@1"), &alike["digest"], &json!({ "max_messages": 2 }))
    );
    let ask = json!({ "kind": "channel", "from": "ch", "changes": { "semantic": "broadcast", "max_messages": null } });
    let forked = server.post("/v1/definitions:fork", ask).await.body;
    assert_eq!((&forked["def_id"], &forked["active"]), (&json!("ch@3"), &json!(false)), "{forked}");
    let diff = server.get("/v1/definitions:diff?kind=channel&from=ch&to=ch@3").await.body;
    assert!(diff["diff"].as_str().is_some_and(|diff| diff.contains("+semantic: \"broadcast\"")), "{diff}");
    let row = async || {
        let listed = server.get("/v1/channels?prefix=ch").await.body;
        (listed["channels"][0]["version"].clone(), listed["channels"][0]["max_messages"].clone())
    };
    assert_eq!(row().await, (json!(2), json!(2)));
    server.post("/v1/definitions:promote", json!({ "kind": "channel", "name": "ch", "version": 1 })).await;
    assert_eq!(row().await, (json!(1), json!(5)), "the settings of the version are used at once");
    let scope = json!({ "kind": "channel", "name": "ch", "source": { "scope": "user" } });
    let refused = server.post("/v1/definitions", scope.clone()).await;
    assert_eq!((refused.status, refused.code()), (400, "invalid_definition"), "{}", refused.body);
    let verified = server.post("/v1/definitions:verify", scope).await.body;
    assert_eq!((&verified["valid"], &verified["problems"][0]["path"]), (&json!(false), &json!("scope")), "{verified}");
    // Retired: nobody can publish, and nothing is lost.
    let retired = server.post("/v1/definitions:retire", json!({ "kind": "channel", "name": "ch" })).await.body;
    assert!(retired["warnings"][0].as_str().is_some_and(|text| text.contains("its messages stay")), "{retired}");
    let refused = server.post("/v1/channels/ch/publish", json!({ "value": 2 })).await;
    assert_eq!((refused.status, refused.code()), (404, "channel_not_declared"));
    assert!(refused.body["error"]["hint"].as_str().is_some_and(|hint| hint.contains("promote")), "{}", refused.body);
    let again = server.post("/v1/channels", json!({ "name": "ch" })).await;
    assert_eq!((again.status, again.code()), (409, "channel_name_in_use"), "{}", again.body);
    server.post("/v1/definitions:promote", json!({ "kind": "channel", "name": "ch", "version": 2 })).await;
    let read = server.post("/v1/channels/ch/subscribe", json!({})).await.body;
    assert_eq!(read["messages"][0]["value"], 1, "{read}");
    // Deleted, its versions are gone, and a new one begins with the first.
    let deleted = server.send(Method::Delete, "/v1/channels/ch", &[], None).await;
    assert_eq!(deleted.status, 200, "{}", deleted.body);
    assert_eq!(server.get("/v1/definitions/channel/ch").await.status, 404);
    let made = server.post("/v1/channels", json!({ "name": "ch", "max_messages": 9 })).await.body;
    assert_eq!((&made["version"], &made["max_messages"]), (&json!(1), &json!(9)));
    // One of the config can be forked under another name, and not changed.
    let immutable = json!({ "kind": "channel", "name": "jobs", "source": {} });
    assert_eq!(server.post("/v1/definitions", immutable).await.code(), "channel_yaml_immutable");
    let forked =
        server.post("/v1/definitions:fork", json!({ "kind": "channel", "from": "jobs", "name": "more" })).await;
    assert_eq!((&forked.body["parent"], forked.status), (&json!("jobs@config"), 200), "{}", forked.body);
    let shown = server.get("/v1/definitions/channel/more").await.body;
    assert_eq!(shown["source"], json!({ "max_messages": 100 }));
}
