use drawloom_contract::{
    message::{Message, ToolResult},
    model::{DeltaKind, Deltas},
    time::Timestamp,
};
use drawloom_testkit::providers::{Provider, Settings, Shape, WallClock, parrot};
use serde_json::{Value, json};

use super::*;

pub(crate) struct Frozen;

#[async_trait::async_trait]
impl Clock for Frozen {
    fn wall(&self) -> Timestamp {
        Timestamp::from_millis(0)
    }

    fn now(&self) -> drawloom_contract::time::Instant {
        drawloom_contract::time::Instant::from_origin(std::time::Duration::ZERO)
    }

    async fn sleep_until(&self, _: drawloom_contract::time::Instant) {}
}

fn opened(config: Value, key: Option<&str>) -> Result<(), String> {
    let config = serde_json::from_value(config).map_err(|error| error.to_string())?;
    match open("p", &config, key.map(Secret::new), Arc::new(Frozen)) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("{error}; {}", error.hint().unwrap_or_default())),
    }
}

#[test]
fn each_driver_of_the_list_is_opened_by_its_name() {
    for api in DRIVERS {
        assert_eq!(json!(api.driver()), json!(api.name()));
        opened(json!({ "driver": api.name() }), Some("k")).expect("a key is enough");
        opened(json!({ "driver": api.name(), "base_url": "http://127.0.0.1:1" }), None).expect("no key is needed");
        let error = opened(json!({ "driver": api.name() }), None).expect_err("the usual address wants a key");
        assert!(error.contains("has no API key for https://") && error.contains("api_key_env"), "{error}");
        assert!(opened(json!({ "driver": api.name() }), Some("  ")).is_err());
    }
}

#[test]
fn what_means_nothing_to_a_driver_is_named() {
    let cases = [
        (json!({ "driver": "script", "base_url": "http://x" }), "providers.p.base_url is not supported"),
        (json!({ "driver": "script", "options": { "idle_timeout_ms": 1 } }), "providers.p.options.idle_timeout_ms"),
        (
            json!({ "driver": "script", "options": { "capabilities": { "supports_vision": true } } }),
            "options.capabilities",
        ),
        (json!({ "driver": "openai", "options": { "rules": [{ "text": "x" }] } }), "providers.p.options.rules"),
        (json!({ "driver": "openai", "options": { "seed": 1 } }), "by the driver `openai`"),
        (json!({ "driver": "openai", "base_url": "ftp://x" }), "password; write it like https://"),
        (json!({ "driver": "openai", "base_url": "http://" }), "not an absolute URL"),
        (json!({ "driver": "openai", "base_url": "http://me:hunter2@h" }), "invalid providers.p.base_url"),
    ];
    for (config, expected) in cases {
        let error = opened(config.clone(), None).expect_err("it cannot be opened");
        assert!(error.contains(expected), "{config}: {error}");
    }
    let error = opened(json!({ "driver": "openai" }), Some("a\nb")).expect_err("no header can carry it");
    assert!(error.contains("contains invalid characters") && !error.contains("a\nb"), "{error}");
}

#[test]
fn an_address_may_end_with_a_slash_or_a_version_or_neither() {
    let root = |api: &dyn Api, address: &str| api.root(address.trim_end_matches('/'));
    for address in ["http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/v1/"] {
        assert_eq!(root(&anthropic::Anthropic, address), "http://h:1");
        assert_eq!(root(&openai::Openai, address), "http://h:1/v1");
    }
    assert_eq!(root(&anthropic::Anthropic, "https://api.deepseek.com/anthropic"), "https://api.deepseek.com/anthropic");
    assert_eq!(root(&openai::Openai, "https://h/v1beta/openai/"), "https://h/v1beta/openai");
    assert_eq!(root(&deepseek::Deepseek, "https://api.deepseek.com/"), "https://api.deepseek.com");
}

struct Silent;

impl Deltas for Silent {
    fn push(&self, _: DeltaKind, _: &str) {}
}

/// Which API is asked at an address.
fn api_at(base_url: &str, options: Value) -> &'static dyn Api {
    let config = json!({ "driver": "openai", "base_url": base_url, "options": options });
    api(&serde_json::from_value(config).expect("a config")).expect("not the script")
}

#[test]
fn the_driver_openai_takes_the_api_of_its_address_unless_told_otherwise() {
    for (address, options, path, name) in [
        ("https://api.openai.com/v1", json!({}), "/responses", "openai"),
        ("https://api.openai.com/v1", json!({ "api": "chat" }), "/chat/completions", "openai"),
        ("https://gateway.example/v1", json!({}), "/chat/completions", "openai"),
        ("https://gateway.example/v1", json!({ "api": "responses" }), "/responses", "openai"),
        ("https://API.deepseek.com", json!({}), "/chat/completions", "deepseek"),
        ("https://api.deepseek.com/v1", json!({ "api": "chat" }), "/chat/completions", "deepseek"),
        ("https://api.deepseek.com.example/v1", json!({}), "/chat/completions", "openai"),
    ] {
        let found = api_at(address, options);
        assert_eq!((found.turn_path(), found.name()), (path, name), "{address}");
    }
}

#[test]
fn what_deepseek_does_not_have_is_refused_at_its_address() {
    for (options, key) in [
        (json!({ "api": "responses" }), "options.api"),
        (json!({ "reasoning_summary": "auto" }), "options.reasoning_summary"),
    ] {
        let config = json!({ "driver": "openai", "base_url": "https://api.deepseek.com", "options": options });
        let error = opened(config, Some("k")).expect_err("DeepSeek has none");
        assert!(error.contains(&format!("{key} is not supported by the driver `deepseek`")), "{error}");
    }
}

/// The server rejects what Chat Completions sends: fields that it does not know, and a conversation without its reasoning.
#[tokio::test]
async fn the_driver_openai_at_deepseeks_address_holds_a_conversation_with_reasoning() {
    let server = Provider::start(Settings::new(Shape::Deepseek), parrot).await.expect("a port of loopback");
    let open = |api| {
        let client = Configured::new().expect("a client");
        Remote::new("p", api, &server.base_url(), None, client, &Options::default(), Arc::new(WallClock))
    };
    let converse = async |model: Remote| {
        let mut request = table::request("deepseek-v4-pro");
        request.messages = vec![Arc::new(Message::user("call Read {}"))];
        let turn = model.turn(request.clone(), &Silent).await?;
        let results =
            turn.calls.iter().map(|call| ToolResult { id: call.id.clone(), text: "x".into(), is_error: false });
        let results = results.collect();
        request.messages.push(Arc::new(Message::Assistant {
            text: turn.text,
            thoughts: turn.thoughts,
            calls: turn.calls,
        }));
        request.messages.push(Arc::new(Message::Results(results)));
        model.turn(request, &Silent).await
    };
    let answer = converse(open(api_at("https://api.deepseek.com", json!({})))).await.expect("an answer");
    assert_eq!((answer.text.as_str(), answer.thoughts.is_empty()), ("It came to: x", false));
    let error =
        converse(open(api_at("https://gateway.example", json!({})))).await.expect_err("no reasoning comes back");
    assert_eq!(error.code(), "model_bad_request", "{error}");
}
