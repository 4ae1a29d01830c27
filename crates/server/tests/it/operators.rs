//! What operators ask for: pruning, models, and errors without secrets.

use drawloom_net::Method;
use serde_json::{Value, json};

use crate::setup::{Answered, SECRET, Server, Setup};

async fn prune(server: &Server, token: &str, body: Value) -> Answered {
    let bearer = format!("Bearer {token}");
    let body = body.to_string();
    server.send(Method::Post, "/v1/runs:prune", &[("authorization", &bearer)], Some(body.as_bytes())).await
}

#[tokio::test]
async fn a_tenant_prunes_itself_and_only_an_admin_all_of_them() {
    let server =
        Setup { principals: true, shared: Some("shared-token-of-the-tests"), ..Setup::default() }.start().await;
    let dry = prune(&server, "eve-token-of-the-tests", json!({ "older_than_seconds": 60, "dry_run": true })).await;
    assert_eq!((dry.status, &dry.body["runs"], &dry.body["dry_run"]), (200, &json!(2), &json!(true)));
    assert!(server.broom.0.lock().expect("no panic").is_empty(), "nothing was removed");
    let done = prune(&server, "eve-token-of-the-tests", json!({ "older_than_seconds": 60 })).await;
    assert_eq!((done.status, &done.body["blobs"]), (200, &json!(4)), "{}", done.body);
    let refused =
        prune(&server, "eve-token-of-the-tests", json!({ "older_than_seconds": 60, "all_tenants": true })).await;
    assert_eq!((refused.status, refused.code()), (403, "insufficient_scope"));
    let all =
        prune(&server, "shared-token-of-the-tests", json!({ "older_than_seconds": 0, "all_tenants": true })).await;
    assert_eq!(all.status, 200, "{}", all.body);
    let tenants: Vec<Option<String>> = {
        let asked = server.broom.0.lock().expect("no panic");
        asked.iter().map(|prune| prune.tenant.as_ref().map(ToString::to_string)).collect()
    };
    assert_eq!(tenants, [Some("other".to_owned()), None]);
    // What a question named is what goes, however late the answer comes; a later time does not widen the age.
    for (wanted, kept) in [("2001-01-01T00:00:00.000Z", true), ("2999-01-01T00:00:00Z", false)] {
        let body = json!({ "older_than_seconds": 60, "dry_run": true, "ended_before": wanted });
        let answer = prune(&server, "eve-token-of-the-tests", body).await;
        assert_eq!((answer.status, answer.body["ended_before"] == wanted), (200, kept), "{}", answer.body);
    }
    let wrong =
        prune(&server, "eve-token-of-the-tests", json!({ "older_than_seconds": 60, "ended_before": "yesterday" }))
            .await;
    assert_eq!((wrong.status, wrong.code()), (400, "invalid_request"), "{}", wrong.body);
    let missing = prune(&server, "eve-token-of-the-tests", json!({})).await;
    assert_eq!(missing.status, 400, "how old is never guessed");
}

#[tokio::test]
async fn a_provider_is_asked_only_when_somebody_wants_it() {
    let server = Setup::default().start().await;
    for path in ["/v1/models", "/v1/_models"] {
        let plain = server.send(Method::Get, path, &[], None).await;
        assert_eq!((plain.status, &plain.body["remote"]), (200, &Value::Null), "{}", plain.body);
    }
    let asked = server.send(Method::Get, "/v1/models?remote=script", &[], None).await;
    assert_eq!(asked.body["remote"], json!([{ "id": "test" }]));
    let unknown = server.send(Method::Get, "/v1/models?remote=nobody", &[], None).await;
    assert_eq!((unknown.status, unknown.code()), (404, "unknown_provider"));
}

#[tokio::test]
async fn no_error_shows_a_secret() {
    let server = Setup::default().start().await;
    let bodies = [
        server.send(Method::Get, &format!("/v1/{SECRET}"), &[], None).await,
        server.send(Method::Get, &format!("/v1/models?remote={SECRET}"), &[], None).await,
        server.send(Method::Get, &format!("/v1/models?{SECRET}=1"), &[], None).await,
        server
            .send(Method::Post, "/v1/runs", &[], Some(json!({ "agent": SECRET, "prompt": 1 }).to_string().as_bytes()))
            .await,
    ];
    for answer in bodies {
        assert!(answer.status >= 400, "{}", answer.status);
        let message = answer.body["error"]["message"].as_str().expect("a message");
        assert!(!message.contains(SECRET), "{}", answer.body);
    }
}
