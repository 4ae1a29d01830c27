//! Memory over REST: whose it is, once, in conflict, and as a stream.

use drawloom_net::Method;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::setup::{Answered, Server, Setup, read_until};

impl Server {
    async fn at(&self, token: &str, method: Method, path: &str, body: Option<Value>) -> Answered {
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", bearer.as_str()), ("accept", "application/json")];
        let body = body.map(|body| body.to_string());
        self.send(method, path, &headers, body.as_deref().map(str::as_bytes)).await
    }
}

async fn server() -> Server {
    Setup { principals: true, ..Setup::default() }.start().await
}

#[tokio::test]
async fn a_key_is_set_read_changed_listed_and_removed() {
    let server = Setup::default().start().await;
    let key = "/v1/memory/user/keys/review/42:findings";
    let missing = server.get(key).await.body;
    assert_eq!(missing, json!({"found": false, "revision": 0}));
    let set = server.send(Method::Put, key, &[], Some(br#"{"value": {"n": 1}, "ttl": 60, "if_revision": 0}"#)).await;
    assert_eq!((set.status, &set.body["ok"]), (200, &json!(true)), "{}", set.body);
    let got = server.get(key).await.body;
    assert_eq!((&got["value"], &got["revision"]), (&json!({"n": 1}), &set.body["revision"]));
    assert!(got["expires_at"].is_string());
    assert_eq!(
        (&got["provenance"]["user_id"], &got["provenance"]["operation"]),
        (&json!("default"), &json!("set_memory"))
    );
    let stale = server.send(Method::Put, key, &[], Some(br#"{"value": 1, "if_revision": 0}"#)).await;
    assert_eq!((stale.status, stale.code()), (409, "stale"));
    let merged = server.post(key, json!({"op": "merge", "value": {"m": [1]}})).await;
    assert_eq!(merged.body["value"], json!({"n": 1, "m": [1]}), "{}", merged.body);
    let wrong = server.post(key, json!({"op": "incr"})).await;
    assert_eq!((wrong.status, wrong.code()), (400, "wrong_type"));
    let fields = server.post(key, json!({"op": "incr", "value": 1})).await;
    assert_eq!((fields.status, fields.code()), (400, "wrong_fields"));
    for number in 0..3 {
        server.post(&format!("/v1/memory/user/keys/n{number}"), json!({"op": "incr", "delta": number})).await;
    }
    let page = server.get("/v1/memory/user/keys?prefix=n&limit=2").await.body;
    assert_eq!(
        (&page["entries"][1]["key"], &page["next"], &page["truncated"]),
        (&json!("n1"), &json!("n1"), &json!(true))
    );
    let rest = server.get("/v1/memory/user/keys?prefix=n&limit=2&after=n1&keys_only=true").await.body;
    assert_eq!((rest["entries"].as_array().map(Vec::len), rest.get("next")), (Some(1), None));
    assert_eq!(rest["entries"][0].get("value"), None);
    let removed = server.send(Method::Delete, key, &[], None).await;
    assert_eq!(removed.body["deleted"], true);
    assert_eq!(server.send(Method::Delete, key, &[], None).await.body["deleted"], false);
    let null = server.send(Method::Put, key, &[], Some(br#"{"value": null}"#)).await;
    assert_eq!(null.status, 200, "null is a value: {}", null.body);
    assert_eq!(server.get(key).await.body["found"], true);
}

#[tokio::test]
async fn a_request_with_a_key_happens_once_and_another_body_is_a_conflict() {
    let server = Setup::default().start().await;
    let (path, key) = ("/v1/memory/tenant/keys/n", [("idempotency-key", "one")]);
    let incr = |delta: i64| json!({"op": "incr", "delta": delta}).to_string();
    let first = server.send(Method::Post, path, &key, Some(incr(2).as_bytes())).await;
    assert_eq!(first.body["value"], 2);
    assert_eq!(server.send(Method::Post, path, &key, Some(incr(2).as_bytes())).await.body, first.body);
    assert_eq!(server.get(path).await.body["value"], 2);
    let other = server.send(Method::Post, path, &key, Some(incr(3).as_bytes())).await;
    assert_eq!((other.status, other.code()), (409, "idempotency_key_reused"));
    let entries = json!({"entries": [{"key": "a", "value": 1}, {"key": "b", "value": 2, "expires_at": "2001-01-01T00:00:00Z"}],
        "idempotency_key": "file-0"});
    let imported = server.post("/v1/memory/tenant/import", entries.clone()).await;
    assert_eq!(imported.body, json!({"imported": 1, "expired": 1}));
    assert_eq!(server.post("/v1/memory/tenant/import", entries).await.body, imported.body);
    let bad = json!({"entries": [{"key": "a", "value": 1, "expires_at": "soon"}]});
    assert_eq!(server.post("/v1/memory/tenant/import", bad).await.code(), "bad_time");
}

#[tokio::test]
async fn a_principal_reaches_its_own_memory_and_its_tenants_and_no_other() {
    let server = server().await;
    for (scope, query) in [("user", ""), ("tenant", ""), ("agent", "?agent=quick")] {
        let body = match query {
            "" => json!({"value": "canary"}),
            _ => json!({"value": "canary", "agent": "quick"}),
        };
        let path = format!("/v1/memory/{scope}/keys/k");
        let set = server.at("ann-token-of-the-tests", Method::Put, &path, Some(body)).await;
        assert_eq!(set.status, 200, "{}", set.body);
        let path = format!("{path}{query}");
        assert_eq!(server.at("ann-token-of-the-tests", Method::Get, &path, None).await.body["value"], "canary");
        // Another tenant, with the same rights there.
        let hers = server.at("eve-token-of-the-tests", Method::Get, &path, None).await;
        assert_eq!((hers.status, &hers.body["found"]), (200, &json!(false)));
        let listed =
            server.at("eve-token-of-the-tests", Method::Get, &format!("/v1/memory/{scope}/keys{query}"), None).await;
        assert_eq!(listed.body["entries"], json!([]));
    }
    // As for runs, a token fixes the user; another one in the request is overridden, and the answer says so.
    let warned = json!(["user_id bob ignored: the token belongs to ann"]);
    let foreign = server.at("ann-token-of-the-tests", Method::Get, "/v1/memory/user/keys/k?user_id=bob", None).await;
    assert_eq!((foreign.status, &foreign.body["value"], &foreign.body["warnings"]), (200, &json!("canary"), &warned));
    let body = json!({"value": "hers", "user_id": "bob"});
    let set = server.at("ann-token-of-the-tests", Method::Put, "/v1/memory/user/keys/k2", Some(body)).await;
    assert_eq!((set.status, &set.body["warnings"]), (200, &warned), "{}", set.body);
    assert_eq!(
        server.at("ann-token-of-the-tests", Method::Get, "/v1/memory/user/keys/k2", None).await.body["value"],
        "hers"
    );
    for path in ["keys?user_id=bob", "search?user_id=bob&query=canary", "watch?user_id=bob"] {
        let answer = server.at("ann-token-of-the-tests", Method::Get, &format!("/v1/memory/user/{path}"), None).await;
        assert_eq!((answer.status, &answer.body["warnings"]), (200, &warned), "{path}: {}", answer.body);
    }
    let own = server.at("ann-token-of-the-tests", Method::Get, "/v1/memory/user/keys/k?user_id=ann", None).await;
    assert_eq!(own.body["found"], true);
    // Bob's token has no scope of memory.
    let his = server.at("bob-token-of-the-tests", Method::Get, "/v1/memory/user/keys/k", None).await;
    assert_eq!((his.status, his.code()), (403, "insufficient_scope"));
}

#[tokio::test]
async fn what_is_kept_otherwise_than_asked_is_said() {
    let server = Setup::default().start().await;
    let secret = format!("sk-ant-api03-{}", "A1b2C3d4".repeat(8));
    let masked = "which is masked in the stored value";
    let path = "/v1/memory/tenant/keys/k";
    let put = json!({"value": {"token": secret}}).to_string();
    let set = server.send(Method::Put, path, &[], Some(put.as_bytes())).await;
    assert!(set.body["warnings"].to_string().contains(masked), "{}", set.body);
    assert!(!server.get(path).await.body.to_string().contains(&secret));
    for body in [
        json!({"op": "merge", "value": {"other": secret}}),
        json!({"op": "merge", "value": {"other": "plain"}}),
        json!({"op": "append_dedupe", "value": secret}),
        json!({"op": "bounded_list", "value": secret, "limit": 3}),
    ] {
        let op = body["op"].as_str().expect("an op").to_owned();
        let path = if op == "merge" { path.to_owned() } else { format!("/v1/memory/tenant/keys/{op}") };
        let is_secret = body.to_string().contains(&secret);
        let changed = server.post(&path, body).await.body;
        assert_eq!(changed["warnings"].to_string().contains(masked), is_secret, "{op}: {changed}");
    }
    let entries = json!({"entries": [{"key": "a", "value": secret}, {"key": "b", "value": 2}]});
    let imported = server.post("/v1/memory/tenant/import", entries).await.body;
    assert_eq!(imported["warnings"].as_array().map(Vec::len), Some(1), "{imported}");
    assert!(imported["warnings"][0].as_str().is_some_and(|warning| warning.contains("\"a\"")), "{imported}");
    let body = br#"{"value": 1, "agent": "qiuck"}"#;
    let unknown = server.send(Method::Put, "/v1/memory/agent/keys/k", &[], Some(body)).await;
    assert_eq!((unknown.status, unknown.code()), (404, "unknown_agent"), "{}", unknown.body);
    let body = br#"{"value": 1, "agent": "quick"}"#;
    let known = server.send(Method::Put, "/v1/memory/agent/keys/k", &[], Some(body)).await.body;
    assert_eq!(known.get("warnings"), None, "{known}");
    let far = json!({"entries": [{"key": "far", "value": 1, "expires_at": "9999-12-31T23:59:59Z"}]});
    assert_eq!(server.post("/v1/memory/tenant/import", far).await.body["imported"], 1);
    let kept = server.get("/v1/memory/tenant/keys/far").await.body;
    assert_eq!(kept["expires_at"], "9999-12-31T23:59:59.000Z");
}

#[tokio::test]
async fn the_memory_of_a_tree_that_has_ended_is_read_and_not_written() {
    let server = Setup::default().start().await;
    let ended = server.post("/v1/runs", json!({"agent": "quick", "prompt": "go"})).await.body;
    assert_eq!(ended["status"], "completed", "{ended}");
    let run = &ended["run_id"];
    let body = json!({"value": 1, "run_id": run}).to_string();
    let refused = server.send(Method::Put, "/v1/memory/run/keys/k", &[], Some(body.as_bytes())).await;
    assert_eq!((refused.status, refused.code()), (409, "run_ended"), "{}", refused.body);
    let import = json!({"entries": [{"key": "a", "value": 1}], "run_id": run});
    assert_eq!(server.post("/v1/memory/run/import", import).await.code(), "run_ended");
    let read = server.get(&format!("/v1/memory/run/keys/k?run_id={}", run.as_str().expect("an id"))).await;
    assert_eq!((read.status, &read.body["found"]), (200, &json!(false)));
}

#[tokio::test]
async fn the_memory_of_a_tree_needs_a_run_that_the_caller_may_see() {
    let server = server().await;
    server
        .at(
            "ann-token-of-the-tests",
            Method::Post,
            "/v1/runs",
            Some(json!({"agent": "slow", "prompt": "go", "wait_ms": 0})),
        )
        .await;
    let run = server.fake.run_ids()[0];
    let body = json!({"value": 1, "run_id": run});
    assert_eq!(
        server.at("ann-token-of-the-tests", Method::Put, "/v1/memory/run/keys/k", Some(body.clone())).await.status,
        200
    );
    let path = format!("/v1/memory/run/keys/k?run_id={run}");
    assert_eq!(server.at("ann-token-of-the-tests", Method::Get, &path, None).await.body["value"], 1);
    assert_eq!(server.at("eve-token-of-the-tests", Method::Get, &path, None).await.status, 404);
    assert_eq!(server.at("eve-token-of-the-tests", Method::Put, "/v1/memory/run/keys/k", Some(body)).await.status, 404);
    for (path, code) in [
        ("/v1/memory/run/keys/k", "missing_key"),
        ("/v1/memory/agent/keys/k", "missing_key"),
        ("/v1/memory/user/keys/k?agent=quick", "unexpected_field"),
        ("/v1/memory/tenant/keys/k?user_id=ann", "unexpected_field"),
        ("/v1/memory/rum/keys/k", "bad_value"),
    ] {
        let answer = server.at("ann-token-of-the-tests", Method::Get, path, None).await;
        assert_eq!((answer.status, answer.code()), (400, code), "{path}: {}", answer.body);
    }
}

async fn stream(server: &Server, query: &str, headers: &str) -> TcpStream {
    let request = format!("GET /v1/memory/user/watch{query} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
    server.say(request.as_bytes()).await
}

#[tokio::test]
async fn a_stream_tells_what_is_there_then_each_change_and_says_a_gap_when_it_is_resumed() {
    let server = Setup::default().start().await;
    let put = async |key: &str, value: Value| {
        let path = format!("/v1/memory/user/keys/{key}");
        let body = json!({"value": value}).to_string();
        let set = server.send(Method::Put, &path, &[], Some(body.as_bytes())).await;
        set.body["revision"].as_u64().expect("a revision")
    };
    let first = put("p/one", json!(1)).await;
    put("q", json!(1)).await;
    let mut watch = stream(&server, "?prefix=p/", "").await;
    let head = read_until(&mut watch, "event: caught_up").await;
    assert!(head.contains("text/event-stream") && head.contains(&format!("event: change\nid: {first}")), "{head}");
    assert!(!head.contains("\"q\""), "{head}");
    let second = put("p/two", json!("hello")).await;
    let told = read_until(&mut watch, "hello").await;
    assert!(told.contains(&format!("id: {second}")), "{told}");
    server.send(Method::Delete, "/v1/memory/user/keys/p/one", &[], None).await;
    read_until(&mut watch, "\"removed\":true").await;
    // Resumed after the first change: what changed since is told, and that removals are not.
    let mut again = stream(&server, "?prefix=p/", &format!("Last-Event-ID: {first}\r\n")).await;
    let told = read_until(&mut again, "event: caught_up").await;
    let gap = told.find("event: gap").expect("a gap");
    assert!(told.find(&format!("id: {second}")).is_some_and(|change| change > gap), "{told}");
    assert!(!told.contains(&format!("id: {first}\n")), "{told}");
}

#[tokio::test]
async fn without_a_stream_changes_come_by_revision_or_are_waited_for() {
    let server = Setup::default().start().await;
    let watch = |query: String| {
        let (path, headers) = (format!("/v1/memory/user/watch{query}"), [("accept", "application/json")]);
        let server = &server;
        async move { server.send(Method::Get, &path, &headers, None).await.body }
    };
    let nothing = watch(String::new()).await;
    assert_eq!(nothing, json!({"changes": [], "next": 0, "gap": false, "truncated": false}));
    server.send(Method::Put, "/v1/memory/user/keys/a", &[], Some(br#"{"value": 1}"#)).await;
    let one = watch(String::new()).await;
    assert_eq!((&one["changes"][0]["key"], &one["gap"]), (&json!("a"), &json!(false)));
    let next = one["next"].as_u64().expect("a revision");
    let (waited, _) = futures::join!(watch(format!("?after={next}&wait_ms=60000")), async {
        // The change may come before or after the wait begins: both are told.
        server.send(Method::Put, "/v1/memory/user/keys/b", &[], Some(br#"{"value": 2}"#)).await
    });
    assert_eq!((&waited["changes"][0]["key"], &waited["gap"]), (&json!("b"), &json!(true)), "{waited}");
    let timed = watch(format!("?after={}&wait_ms=1", waited["next"])).await;
    assert_eq!(timed["changes"], json!([]));
}
