//! Who calls, and whose things they see.

use drawloom_contract::caller::Scope;
use drawloom_net::Method;
use drawloom_wire::server::AskWhoAmI;
use serde_json::json;

use crate::setup::Setup;

const ANN: (&str, &str) = ("authorization", "Bearer ann-token-of-the-tests");
const EVE: (&str, &str) = ("authorization", "Bearer eve-token-of-the-tests");
const JSON: (&str, &str) = ("accept", "application/json");

#[tokio::test]
async fn a_principals_token_decides_and_the_result_says_what_it_overrode() {
    let server =
        Setup { principals: true, shared: Some("shared-token-of-the-tests"), ..Setup::default() }.start().await;
    let body = json!({"agent": "quick", "prompt": "go", "user_id": "bob", "tenant_id": "acme"}).to_string();
    let answer = server.send(Method::Post, "/v1/runs", &[ANN, JSON], Some(body.as_bytes())).await;
    assert_eq!(answer.body["user_id"], "ann");
    assert_eq!(
        answer.body["warnings"],
        json!([
            "user_id bob ignored: the token belongs to ann",
            "tenant_id acme ignored: the caller belongs to tenant default"
        ])
    );
    let shared = [("authorization", "Bearer shared-token-of-the-tests"), JSON];
    let answer = server.send(Method::Post, "/v1/runs", &shared, Some(body.as_bytes())).await;
    assert_eq!(answer.body["user_id"], "bob");
}

#[tokio::test]
async fn lists_end_at_the_tenants_wall() {
    let server = Setup { principals: true, ..Setup::default() }.start().await;
    let body = br#"{"agent": "quick", "prompt": "go"}"#;
    server.send(Method::Post, "/v1/runs", &[ANN, JSON], Some(body)).await;
    let mine = server.send(Method::Get, "/v1/runs", &[ANN], None).await;
    assert_eq!(mine.body["runs"].as_array().map(Vec::len), Some(1));
    assert_eq!(mine.body["runs"][0].get("final_text"), None);
    let hers = server.send(Method::Get, "/v1/runs", &[EVE], None).await;
    assert_eq!(hers.body, json!({"runs": []}));
    let agents = server.send(Method::Get, "/v1/agents", &[EVE], None).await;
    assert_eq!(agents.body, json!({"agents": []}));
}

#[tokio::test]
async fn the_server_says_who_it_takes_the_caller_for() {
    let server = Setup { principals: true, ..Setup::default() }.start().await;
    let me = server.client(Some("eve-token-of-the-tests")).call(&AskWhoAmI {}).await.expect("she is known");
    assert_eq!((me.tenant_id.as_str(), me.subject.as_str()), ("other", "eve"));
    assert_eq!(me.scopes, [Scope::RunsCreate, Scope::RunsRead, Scope::Tenant]);
    assert!(!me.is_admin && !me.open_mode && !me.honours_user_id);
    let idle = server.client(Some("idle-token-of-the-tests")).call(&AskWhoAmI {}).await.expect("being known is enough");
    assert_eq!(idle.scopes, []);
    let open = Setup::default().start().await.client(None).call(&AskWhoAmI {}).await.expect("it is open");
    assert!(open.is_admin && open.open_mode && open.honours_user_id);
}

#[tokio::test]
async fn each_run_of_a_batch_is_for_its_own_user() {
    let server = Setup::default().start().await;
    let spawns = json!([{"agent": "quick", "prompt": "1", "user_id": "ann"}, {"agent": "quick", "prompt": "2"}]);
    let answer = server.post("/v1/runs:batch", json!({"spawns": spawns})).await;
    assert_eq!(answer.status, 200);
    assert_eq!(server.fake.users(), ["ann", "default"]);
}

#[tokio::test]
async fn a_page_of_another_site_cannot_call() {
    let server = Setup::default().start().await;
    let body = br#"{"agent": "quick", "prompt": "go"}"#;
    let answer = server.send(Method::Post, "/v1/runs", &[("origin", "https://evil.example")], Some(body)).await;
    assert_eq!((answer.status, answer.code()), (403, "origin_denied"));
    assert!(answer.header("x-request-id").is_some());
    let answer = server.send(Method::Get, "/v1/runs", &[("host", "evil.example")], None).await;
    assert_eq!((answer.status, answer.code()), (403, "host_denied"));
    assert!(server.fake.run_ids().is_empty());
}
