//! A thinking conversation that one provider throttles in the middle: it goes on at a strict other one, and back, also
//! when the server is killed at any step of it.

use std::sync::Mutex;

use drawloom_testkit::providers::{Asked, Provider, Refusal, Reply, RetryAfter, ServerReply, Settings, Shape};
use serde_json::{Value, json};

use crate::{
    http::{Response, get, post},
    kill::{events, for_each, report_number},
    process::Case,
};

const CONFIG: &str = r#"
providers:
  claude: { driver: anthropic, base_url: "CLAUDE" }
  deep: { driver: deepseek, base_url: "DEEP" }
tiers:
  high:
    - { provider: claude, model: claude-sonnet-4-5 }
    - { provider: deep, model: deepseek-reasoner }
user_tiers:
  default: { fallback_on_error: true, rate_limit_cooldown_ms: 1000 }
volumes:
  files: { path: "FILES", mode: ro, default: true }
agents:
  thinker: { tier: high, effort: high, tools: [Read], retry_attempts: 2 }
"#;

/// Turns of the model that a request holds.
fn turns(asked: &Asked) -> usize {
    asked.messages().iter().filter(|message| message["role"] == "assistant").count()
}

fn busy() -> ServerReply {
    Refusal::new(429, "slow down").retry_after(RetryAfter::Seconds(0)).into()
}

fn read(thinking: &str) -> ServerReply {
    Reply::text("I look.").thinking(thinking).call("Read", &json!({ "path": "in.txt" })).into()
}

/// What the first provider says depends on nothing but the conversation, so that a restart changes nothing.
fn claude(asked: &Asked) -> ServerReply {
    match turns(asked) {
        0 => read("Where is it?"),
        1 => read("Look again."),
        // The other one makes the third turn.
        2 => busy(),
        3 => read("Back again."),
        _ => Reply::text("Claude is done.").thinking("All is said.").into(),
    }
}

fn deep(asked: &Asked) -> ServerReply {
    match turns(asked) {
        2 => read("My turn."),
        _ => busy(),
    }
}

/// Both providers, on a runtime of their own.
struct Providers {
    _runtime: tokio::runtime::Runtime,
    claude: Provider,
    deep: Provider,
}

impl Providers {
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let start = |shape, script: fn(&Asked) -> ServerReply| {
            runtime.block_on(Provider::start(Settings::new(shape), script)).expect("a provider")
        };
        let (claude, deep) = (start(Shape::Anthropic, claude), start(Shape::Deepseek, deep));
        Self { _runtime: runtime, claude, deep }
    }

    fn config(&self) -> String {
        CONFIG.replace("CLAUDE", &self.claude.base_url()).replace("DEEP", &self.deep.base_url())
    }
}

/// What came of the run: its end, and what was told of changes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Report {
    result: [String; 4],
    told: Vec<String>,
    turns: Vec<String>,
}

fn request() -> Value {
    json!({ "agent": "thinker", "prompt": "Read it.", "idempotency_key": "the one" })
}

fn crash_at(providers: &Providers, point: Option<&str>) -> Result<Report, String> {
    let case = Case::new(&providers.config());
    if let Some(point) = point {
        let mut server = case.start(&json!({ "kill": point }));
        if post(&server.url, "/v1/runs", &request()).and_then(Response::json).is_ok() {
            return Err(format!("the run ended without passing {point:?}"));
        }
        server.ended();
    }
    let server = case.start(&json!({}));
    let result = post(&server.url, "/v1/runs", &request()).and_then(Response::json);
    let result = result.map_err(|error| format!("no result: {error}"))?;
    let text = |name: &str| result[name].as_str().unwrap_or_default().to_owned();
    let run = text("run_id");
    let events = events(&server.url, &run);
    let told = events.iter().filter_map(|(name, data)| match name.as_str() {
        "provider_fallback" => {
            let change = &data["fallback"];
            let words = ["failed_model", "new_model", "reason"].map(|key| change[key].as_str().unwrap_or_default());
            Some(words.join(" "))
        }
        "cache_invalidated" | "reasoning_invalidated" | "model_downgraded" | "fallback_suppressed" => {
            Some(name.clone())
        }
        _ => None,
    });
    let told = told.collect();
    let turns = events.iter().filter(|(name, _)| name == "message");
    let turns = turns.map(|(_, data)| data["thinking"].as_str().unwrap_or("-").to_owned()).collect();
    let replay = get(&server.url, &format!("/v1/runs/{run}/replay"));
    if replay["ok"] != true {
        return Err(format!("the replay differs: {replay}"));
    }
    Ok(Report { result: ["status", "final_text", "provider", "model"].map(text), told, turns })
}

#[test]
fn a_thinking_conversation_goes_to_a_strict_provider_and_back_also_through_crashes() {
    let providers = Providers::start();
    let whole = crash_at(&providers, None).expect("an uncrashed run");
    assert_eq!(whole.result, ["completed", "Claude is done.", "claude", "claude-sonnet-4-5"]);
    assert_eq!(
        whole.told,
        [
            "claude-sonnet-4-5 deepseek-chat throttled",
            "cache_invalidated",
            "reasoning_invalidated",
            "model_downgraded",
            "deepseek-chat claude-sonnet-4-5 throttled",
            "cache_invalidated",
        ]
    );
    assert_eq!(whole.turns, ["Where is it?", "Look again.", "-", "-", "-"]);
    // Every point of the run, and a crash at each.
    let case = Case::new(&providers.config());
    let server = case.start(&json!({ "points": case.path("points") }));
    post(&server.url, "/v1/runs", &request()).and_then(Response::json).expect("a result");
    drop(server);
    let mut points = case.lines("points");
    points.sort();
    points.dedup();
    assert!(points.len() > 30, "only {} points", points.len());
    let wrong = Mutex::new(Vec::new());
    for_each(&points, |point| {
        match crash_at(&providers, Some(point)) {
            Ok(report) if report == whole => {}
            other => wrong.lock().expect("no panic while held").push(format!("{point}: {other:?}")),
        }
        false
    });
    let wrong = wrong.into_inner().expect("no panic while held");
    assert!(wrong.is_empty(), "{} of {} points:\n{}\nwanted {whole:?}", wrong.len(), points.len(), wrong.join("\n"));
    report_number(&format!("fallback: killed at {} points, the same end each time", points.len()));
    // The strict providers were never shown what they reject.
    for provider in [&providers.claude, &providers.deep] {
        let statuses: Vec<u16> =
            provider.calls().iter().map(|call| call.status).filter(|status| *status == 400).collect();
        assert!(statuses.is_empty(), "{} requests were rejected", statuses.len());
    }
}
