//! Evaluations over REST: once, by tag, of one's own runs only.

use drawloom_net::Method;
use serde_json::{Value, json};

use crate::setup::{Answered, Server, Setup};

impl Server {
    async fn judge(&self, token: &str, method: Method, path: &str, body: Option<Value>) -> Answered {
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", bearer.as_str()), ("accept", "application/json")];
        let body = body.map(|body| body.to_string());
        self.send(method, path, &headers, body.as_deref().map(str::as_bytes)).await
    }
}

/// A server with a run of ann's.
async fn server() -> (Server, String) {
    let server = Setup { principals: true, ..Setup::default() }.start().await;
    let start = json!({ "agent": "quick", "prompt": "go" });
    let ran = server.judge("ann-token-of-the-tests", Method::Post, "/v1/runs", Some(start)).await;
    let run = ran.body["run_id"].as_str().expect("a run").to_owned();
    (server, run)
}

#[tokio::test]
async fn an_evaluation_is_submitted_once_replaced_by_tag_listed_and_summed() {
    let (server, run) = server().await;
    let path = format!("/v1/runs/{run}/evaluations");
    let submit = async |body: Value| server.judge("ann-token-of-the-tests", Method::Post, &path, Some(body)).await;
    let keyed = json!({ "score": 0.5, "idempotency_key": "one" });
    let first = submit(keyed.clone()).await;
    assert_eq!(
        (first.status, &first.body["emitter_role"], &first.body["revision"]),
        (200, &json!("external"), &json!(1))
    );
    assert_eq!(submit(keyed).await.body, first.body, "a repeat is the same request");
    let reused = submit(json!({ "score": 0.6, "idempotency_key": "one" })).await;
    assert_eq!((reused.status, reused.code()), (409, "idempotency_key_reused"));
    let tagged =
        submit(json!({ "score": 0.7, "tag": "t", "dimensions": { "tone": 1 }, "judgement": [1], "rationale": "why" }))
            .await;
    let again = submit(json!({ "score": 0.9, "tag": "t" })).await;
    assert_eq!((&again.body["eval_id"], &again.body["replaced"]["score"]), (&tagged.body["eval_id"], &json!(0.7)));
    for (bad, status, code) in [
        (json!({ "score": 1.1 }), 400, "out_of_range"),
        (json!({ "score": "high" }), 400, "wrong_type"),
        (json!({ "score": 0.5, "dimensions": { "tone": 2 } }), 400, "bad_score"),
        (json!({ "score": 0.5, "rationale": "x".repeat(9_000) }), 413, "too_long"),
        (json!({ "scroe": 0.5 }), 400, "unknown_key"),
    ] {
        let refused = submit(bad).await;
        assert_eq!((refused.status, refused.body.to_string().contains(code)), (status, true), "{}", refused.body);
    }
    let get = async |path: &str| server.judge("ann-token-of-the-tests", Method::Get, path, None).await;
    let listed = get(&format!("{path}?limit=1")).await.body;
    assert_eq!((&listed["evaluations"][0]["score"], &listed["truncated"]), (&json!(0.9), &json!(true)));
    let rest = get(&format!("{path}?after={}", listed["next"].as_str().expect("more"))).await.body;
    assert_eq!((rest["evaluations"].as_array().map(Vec::len), &rest["truncated"]), (Some(1), &json!(false)), "{rest}");
    let one = get(&format!("/v1/evaluations/{}", first.body["eval_id"].as_str().expect("an id"))).await.body;
    assert_eq!((&one["score"], &one["emitter"]["user_id"]), (&json!(0.5), &json!("ann")));
    let def_id = first.body["def_id"].as_str().expect("a definition");
    let sums = get(&format!("/v1/evaluations:aggregate?def_id={def_id}")).await.body;
    assert_eq!(
        (&sums["count"], &sums["score"]["mean"], &sums["score"]["latest"]),
        (&json!(2), &json!(0.7), &json!(0.9))
    );
    assert_eq!(sums["versions"][0]["agent"], "quick");
    for (query, code) in [
        ("", "wrong_fields"),
        ("?def_id=nothing", "unknown_definition"),
        ("?agent=qiuck", "unknown_agent"),
        ("?agent=quick&include_lineage=true", "wrong_fields"),
    ] {
        assert_eq!(get(&format!("/v1/evaluations:aggregate{query}")).await.code(), code, "{query}");
    }
    for (query, code) in [("", "wrong_fields"), ("?def_id=quick&latest_per_tag=true", "wrong_fields")] {
        assert_eq!(get(&format!("/v1/evaluations{query}")).await.code(), code, "{query}");
    }
}

#[tokio::test]
async fn another_tenant_and_another_user_find_and_count_nothing() {
    let (server, run) = server().await;
    let path = format!("/v1/runs/{run}/evaluations");
    let submitted =
        server.judge("ann-token-of-the-tests", Method::Post, &path, Some(json!({ "score": 0.5 }))).await.body;
    let (id, def_id) = (submitted["eval_id"].as_str().expect("an id"), submitted["def_id"].as_str().expect("a digest"));
    for token in ["bob-token-of-the-tests", "eve-token-of-the-tests"] {
        let refused = server.judge(token, Method::Post, &path, Some(json!({ "score": 0.5 }))).await;
        assert_eq!((refused.status, refused.code()), (404, "unknown_run"), "{token}");
        assert_eq!(server.judge(token, Method::Get, &path, None).await.code(), "unknown_run");
        assert_eq!(
            server.judge(token, Method::Get, &format!("/v1/evaluations/{id}"), None).await.code(),
            "unknown_evaluation"
        );
        let sums = |of: String| {
            let path = format!("/v1/evaluations:aggregate?{of}");
            let server = &server;
            async move { server.judge(token, Method::Get, &path, None).await }
        };
        assert_eq!(sums(format!("def_id={def_id}")).await.body["count"], 0, "{token}");
        let of_agent = sums("agent=quick".to_owned()).await;
        match token {
            "bob-token-of-the-tests" => assert_eq!(of_agent.body["count"], 0),
            _ => assert_eq!((of_agent.status, of_agent.code()), (404, "unknown_agent"), "another tenant has no agents"),
        }
        let listed = server.judge(token, Method::Get, &format!("/v1/evaluations?def_id={def_id}"), None).await.body;
        assert_eq!(listed["evaluations"], json!([]), "{token}");
    }
    let narrowed = server
        .judge("bob-token-of-the-tests", Method::Get, &format!("/v1/evaluations:aggregate?def_id={def_id}"), None)
        .await;
    assert_eq!(narrowed.body["warnings"][0], "only evaluations of runs of user bob are included");
    let seen = server.judge("auditor-token-of-the-tests", Method::Get, &format!("/v1/evaluations/{id}"), None).await;
    assert_eq!((seen.status, &seen.body["score"]), (200, &json!(0.5)));
}
