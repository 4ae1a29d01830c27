//! Every operation on every route: what must be refused is refused, in the same words, and the server goes on.

use drawloom_contract::caller::Scope;
use drawloom_net::Method;
use drawloom_server::{Card, Limits};
use drawloom_wire::request;
use schemars::SchemaGenerator;
use serde_json::json;

use crate::{
    artifacts::keep,
    setup::{Answered, Server, Setup},
};

const ANN: (&str, &str) = ("authorization", "Bearer ann-token-of-the-tests");

struct Route {
    card: Card,
    route: request::Route,
    /// With the ids of things that are there.
    path: String,
    /// The fields of the input that the path does not have.
    fields: Vec<String>,
}

/// Every route, of a server that has a run `mine` and a batch of ann's.
async fn routes(server: &Server) -> Vec<Route> {
    let spawns = json!({"spawns": [{"agent": "quick", "prompt": "go", "agent_id": "mine"}]}).to_string();
    let answer = server.send(Method::Post, "/v1/runs:batch", &[ANN], Some(spawns.as_bytes())).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let run = server.fake.run_ids()[0];
    let batch = answer.body["batch_id"].as_str().expect("a batch").to_owned();
    keep(server, run, "notes/one.md", "a note").await;
    let path = format!("/v1/runs/{run}/evaluations");
    let evaluated = server.send(Method::Post, &path, &[ANN], Some(br#"{"score": 0.5, "tag": "walk"}"#)).await;
    let evaluation = evaluated.body["eval_id"].as_str().expect("an evaluation").to_owned();
    let source = json!({"description": "How to note.", "instructions": "Note it."});
    let skill = json!({"kind": "skill", "name": "notes/one.md", "source": source}).to_string();
    let answer = server.send(Method::Post, "/v1/definitions", &[ANN], Some(skill.as_bytes())).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let goal = server.send(Method::Post, "/v1/goals", &[ANN], Some(br#"{"goal": "done"}"#)).await;
    let goal = goal.body["run_id"].as_str().expect("a goal").to_owned();
    let mut routes = Vec::new();
    for served in server.app.operations().iter() {
        let entry = served.entry();
        let schema = (entry.input)(&mut SchemaGenerator::default()).to_value();
        for route in entry.card.routes() {
            let is_of_goals = ["/v1/goals/", "/v1/worktrees/"].iter().any(|start| route.path.starts_with(start));
            let path = route
                .path
                .replace("{run_id}", &if is_of_goals { goal.clone() } else { run.to_string() })
                .replace("{agent_id}", "mine")
                .replace("{user_id}", "ann")
                .replace("{batch_id}", &batch)
                .replace("{scope}", "user")
                .replace("{eval_id}", &evaluation)
                .replace("{kind}", "skill")
                .replace("{key...}", "notes/one")
                .replace("{name...}", "notes/one.md")
                .replace("{channel}", "jobs")
                .replace("{name}", "jobs");
            let in_path: Vec<_> = route.parameters().collect();
            let names = schema["properties"].as_object().into_iter().flat_map(|fields| fields.keys().cloned());
            let fields = names.filter(|name| !in_path.contains(&name.as_str())).collect();
            routes.push(Route { card: entry.card.clone(), route: *route, path, fields });
        }
    }
    routes
}

async fn server() -> Server {
    let limits = Limits { body: 64 * 1024, ..Limits::default() };
    Setup { principals: true, limits, ..Setup::default() }.start().await
}

impl Route {
    async fn send(&self, server: &Server, token: &str, query: &str, body: &[u8]) -> Answered {
        let header = format!("Bearer {token}");
        let mut headers = vec![("accept", "application/json")];
        if !token.is_empty() {
            headers.push(("authorization", header.as_str()));
        }
        let body = self.route.has_body().then_some(body);
        server.send(self.route.method, &format!("{}{query}", self.path), &headers, body).await
    }

    /// Whether its path has the id of something of ann's. Keys of memory and channels are names that everybody can have.
    fn names_a_thing(&self) -> bool {
        self.route.parameters().any(|name| !["user_id", "scope", "key", "channel", "name"].contains(&name))
    }

    /// A body with what the operation cannot do without.
    fn body(&self) -> &'static [u8] {
        match self.card.name() {
            "submit_evaluation" => br#"{"score": 0.5}"#,
            "retry_run" => br#"{"completed": true}"#,
            "orchestrate_say" => br#"{"text": "faster"}"#,
            _ => b"{}",
        }
    }

    fn name(&self) -> String {
        format!("{} at {} {}", self.card.name(), self.route.method.as_str(), self.route.path)
    }
}

fn is_error_body(answer: &Answered) -> bool {
    let error = &answer.body["error"];
    error["message"].is_string()
        && error["retryable"].is_boolean()
        && error["request_id"].as_str() == answer.header("x-request-id")
        && answer.header("content-type") == Some("application/json")
}

#[tokio::test]
async fn a_caller_without_a_token_or_without_the_scope_is_refused() {
    let server = server().await;
    for route in routes(&server).await {
        for (token, code) in [("", "no_token"), ("wrong", "unknown_token")] {
            let answer = route.send(&server, token, "", b"{}").await;
            assert_eq!((answer.status, answer.code()), (401, code), "{}", route.name());
            assert!(answer.header("www-authenticate").is_some_and(|value| value.starts_with("Bearer")));
            assert!(is_error_body(&answer), "{}", answer.body);
        }
        let Some(scope) = route.card.scope else { continue };
        let answer = route.send(&server, "idle-token-of-the-tests", "", b"{}").await;
        assert_eq!((answer.status, answer.code()), (403, "insufficient_scope"), "{}", route.name());
        let challenge = answer.header("www-authenticate").unwrap_or_default();
        assert!(challenge.contains(&format!("scope=\"{scope}\"")), "{challenge}");
        assert!(answer.body["error"]["message"].as_str().is_some_and(|text| text.contains(scope.as_str())));
    }
}

#[tokio::test]
async fn a_foreign_tenants_things_are_not_there() {
    let server = server().await;
    let routes = routes(&server).await;
    let run = server.fake.run_ids()[0].to_string();
    for route in routes {
        let names_a_thing = route.names_a_thing();
        let mine = route.send(&server, "ann-token-of-the-tests", "", route.body()).await;
        let hers = route.send(&server, "eve-token-of-the-tests", "", route.body()).await;
        if names_a_thing {
            // Her run is part of a batch, which is deleted whole, and may have ended when something is said to it.
            let expected: &[u16] = match route.card.name() {
                "delete_run" => &[409],
                "orchestrate_say" => &[200, 409],
                _ => &[200],
            };
            assert!(expected.contains(&mine.status), "{}: {} {}", route.name(), mine.status, mine.body);
            assert_eq!(hers.status, 404, "{}: {}", route.name(), hers.body);
            assert!(is_error_body(&hers), "{}", hers.body);
        }
        let shown = hers.body.to_string();
        assert!(!shown.contains(&run), "{}: {shown}", route.name());
    }
}

#[tokio::test]
async fn another_subjects_things_are_not_there_and_a_token_that_reads_all_sees_them() {
    let server = server().await;
    let routes = routes(&server).await;
    let run = server.fake.run_ids()[0].to_string();
    for route in routes {
        // Definitions belong to the whole tenant.
        let names_a_thing = route.names_a_thing() && route.route.parameters().all(|name| name != "kind");
        let his = route.send(&server, "bob-token-of-the-tests", "", route.body()).await;
        let seen = route.send(&server, "auditor-token-of-the-tests", "", route.body()).await;
        assert!(!his.body.to_string().contains(&run), "{}: {}", route.name(), his.body);
        // What only a token of the whole tenant may do looks at no thing.
        if route.card.scope == Some(Scope::Tenant) {
            assert_eq!((his.status, seen.status), (403, 403), "{}", route.name());
        } else if names_a_thing {
            assert_eq!(his.status, 404, "{}: {}", route.name(), his.body);
            let expected = if route.card.is_read_only() { 200 } else { 403 };
            assert_eq!(seen.status, expected, "{}: {}", route.name(), seen.body);
        }
    }
}

#[tokio::test]
async fn an_unknown_key_is_refused_with_what_was_probably_meant() {
    let server = server().await;
    for route in routes(&server).await {
        let query = if !route.route.has_body() { "?qqqqqqqqqqqqqq=1" } else { "" };
        let answer = route.send(&server, "ann-token-of-the-tests", query, br#"{"qqqqqqqqqqqqqq": 1}"#).await;
        assert_eq!(answer.status, 400, "{}: {}", route.name(), answer.body);
        assert!(answer.body.to_string().contains("unknown_key"), "{}: {}", route.name(), answer.body);
        let Some(field) = route.fields.first() else { continue };
        let typo = format!("{field}x");
        let body = json!({ typo.clone(): 1 }).to_string();
        let query = format!("?{typo}=1");
        let query = if !route.route.has_body() { query.as_str() } else { "" };
        let answer = route.send(&server, "ann-token-of-the-tests", query, body.as_bytes()).await;
        let hint = answer.body["error"]["hint"].as_str().unwrap_or_default();
        assert!(hint.contains(&format!("did you mean {field}?")), "{}: {}", route.name(), answer.body);
    }
}

#[tokio::test]
async fn bad_bodies_are_refused_one_by_one() {
    let server = server().await;
    let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
    let long = format!("{{\"reason\": \"{}\"}}", "x".repeat(100 * 1024));
    for route in routes(&server).await {
        if !route.route.has_body() {
            let answer = server.send(route.route.method, &route.path, &[ANN], Some(b"{}")).await;
            assert_eq!((answer.status, answer.code()), (400, "unexpected_body"), "{}", route.name());
            continue;
        }
        let bodies: [(&[u8], u16, &str); 8] = [
            (b"{\"a\": {\"b\": 1, \"b\": 2}}", 400, "repeated_key"),
            (b"[]", 400, "wrong_type"),
            (b"\"text\"", 400, "wrong_type"),
            (b"{\"a\": ", 400, "invalid_json"),
            (b"{\"a\": \"\xff\"}", 400, "invalid_json"),
            (b"\xff\xfe", 400, "invalid_json"),
            (deep.as_bytes(), 400, "too_deep"),
            (long.as_bytes(), 413, "too_large"),
        ];
        for (body, status, code) in bodies {
            let answer = route.send(&server, "ann-token-of-the-tests", "", body).await;
            assert_eq!((answer.status, answer.code()), (status, code), "{}", route.name());
            assert!(is_error_body(&answer), "{}", answer.body);
        }
    }
    assert_eq!(server.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn bad_ids_and_wrong_types_are_refused() {
    let server = server().await;
    for route in routes(&server).await {
        for (name, bad) in [("run_id", "r_1"), ("agent_id", "a%20b"), ("user_id", "%C3%A9"), ("batch_id", "r_1")] {
            if route.route.parameters().all(|known| known != name) {
                continue;
            }
            let path = route.route.path.replace(&format!("{{{name}}}"), bad).replace("{name...}", "notes/one.md");
            let path = path.replace("{channel}", "jobs");
            let body = route.route.has_body().then_some(route.body());
            let answer = server.send(route.route.method, &path, &[ANN], body).await;
            assert_eq!(answer.status, 400, "{}: {}", route.name(), answer.body);
            let problem = &answer.body["error"]["problems"][0];
            assert_eq!((&problem["path"], &problem["code"]), (&json!(name), &json!("bad_form")), "{}", answer.body);
        }
        // Any text can be searched for or be a key of a request, and any JSON be a value.
        let any = |field: &&String| {
            !["grep", "query", "search", "value", "source", "changes", "overlay", "judgement", "idempotency_key"]
                .contains(&field.as_str())
        };
        for field in route.fields.iter().filter(any) {
            let (query, body) = match route.route.has_body() {
                false => (format!("?{field}=%00%00"), String::new()),
                true => (String::new(), json!({ field.as_str(): [[[]]] }).to_string()),
            };
            let answer = route.send(&server, "ann-token-of-the-tests", &query, body.as_bytes()).await;
            assert_eq!(answer.status, 400, "{} with a bad {field}: {}", route.name(), answer.body);
            assert!(answer.body["error"]["message"].to_string().contains(field.as_str()), "{}", answer.body);
        }
    }
    assert_eq!(server.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn what_the_engine_refuses_before_accept_is_a_status() {
    let server = Setup::default().start().await;
    let unknown = server.post("/v1/runs", json!({"agent": "nobody", "prompt": "go"})).await;
    assert_eq!((unknown.status, unknown.code()), (404, "unknown_agent"));
    let nothing = server.post("/v1/runs", json!({"agent": "quick"})).await;
    assert_eq!((nothing.status, nothing.code()), (400, "missing_key"));
    let both = json!({"agent": "quick", "prompt": "a", "segments": [{"role": "user", "content": []}]});
    assert_eq!(server.post("/v1/runs", both).await.code(), "both_spellings");
    let later = server.post("/v1/runs", json!({"agent": "quick", "prompt": "a", "user_bearer": "x"})).await;
    assert_eq!((later.status, later.code()), (400, "not_built"));
    let in_batch = server.post("/v1/runs:batch", json!({"spawns": [{"agent": "quick"}]})).await;
    assert!(in_batch.body["error"]["message"].as_str().is_some_and(|text| text.contains("spawns[0].prompt")));
    assert!(server.fake.run_ids().is_empty());
}
