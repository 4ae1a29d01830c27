//! Definitions of another tenant answer like those that never existed, whatever is asked.

use drawloom_net::Method;
use serde_json::{Value, json};

use crate::setup::{Answered, Server, Setup};

const ANN: (&str, &str) = ("authorization", "Bearer ann-token");
const EVE: (&str, &str) = ("authorization", "Bearer eve-token");

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
    let server = Setup { principals: true, ..Setup::default() }.start().await;
    let source = json!({ "description": "How to keep it.", "instructions": "Keep it secret." });
    let made =
        post(&server, ANN, "/v1/definitions", json!({ "kind": "skill", "name": "hers", "source": source })).await;
    assert_eq!((made.status, &made.body["def_id"]), (200, &json!("hers@1")), "{}", made.body);
    for (path, body) in [
        ("/v1/definitions:fork", json!({ "kind": "skill", "from": "hers", "name": "mine" })),
        ("/v1/definitions:fork", json!({ "kind": "skill", "from": "hers@1", "name": "mine" })),
        ("/v1/definitions:promote", json!({ "kind": "skill", "name": "hers", "version": 1 })),
        ("/v1/definitions:retire", json!({ "kind": "skill", "name": "hers" })),
        ("/v1/definitions:retire", json!({ "kind": "skill", "name": "hers", "version": 1 })),
        ("/v1/definitions:verify", json!({ "kind": "skill", "name": "hers" })),
        ("/v1/_agentdef", json!({ "op": "get", "name": "hers" })),
        ("/v1/_agentdef", json!({ "op": "promote", "def_id": "hers@1" })),
    ] {
        let asked = post(&server, EVE, path, body.clone()).await;
        let other: Value = serde_json::from_str(&body.to_string().replace("hers", "nope")).expect("JSON");
        let unknown = post(&server, EVE, path, other).await;
        assert_eq!(plain(&asked, "hers"), plain(&unknown, "nope"), "{path} {body}");
        assert_eq!(asked.status, 404, "{path} {body}: {}", asked.body);
    }
    for path in [
        "/v1/definitions/skill/hers",
        "/v1/definitions?kind=skill&name=hers",
        "/v1/definitions:diff?kind=skill&from=hers@1&to=hers",
    ] {
        let asked = server.send(Method::Get, path, &[EVE], None).await;
        let unknown = server.send(Method::Get, &path.replace("hers", "nope"), &[EVE], None).await;
        assert_eq!(plain(&asked, "hers"), plain(&unknown, "nope"), "{path}");
        assert_eq!(asked.status, 404, "{path}: {}", asked.body);
    }
    let listed = server.send(Method::Get, "/v1/definitions", &[EVE], None).await;
    assert_eq!(listed.body["definitions"], json!([]), "{}", listed.body);
    // The same name is free for her, and stays apart.
    let other = json!({ "description": "Mine.", "instructions": "Other." });
    let made = post(&server, EVE, "/v1/definitions", json!({ "kind": "skill", "name": "hers", "source": other })).await;
    assert_eq!((made.status, &made.body["version"]), (200, &json!(1)), "{}", made.body);
    let kept = server.send(Method::Get, "/v1/definitions/skill/hers", &[ANN], None).await;
    assert_eq!(kept.body["source"]["instructions"], "Keep it secret.");
    // A token without the scope reads and writes nothing.
    let bob = ("authorization", "Bearer bob-token");
    assert_eq!(server.send(Method::Get, "/v1/definitions", &[bob], None).await.status, 403);
    assert_eq!(
        post(&server, bob, "/v1/definitions", json!({ "kind": "skill", "name": "x", "source": {} })).await.status,
        403
    );
}
