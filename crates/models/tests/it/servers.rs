//! Servers of others that speak Chat Completions: what they say of their models is found out, and their ways are understood.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use drawloom_contract::{
    model::{Model, Turn, TurnError},
    time::{Clock, Instant, Timestamp},
};
use drawloom_testkit::providers::{Make, Provider, Reply, ServedModel, Settings, WallClock, parrot};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    sync::watch,
};

use crate::fixture::{after, open, request, with_tools};

const NAME: &str = "qwen3:8b";

/// Where the API of a server begins.
fn base_url(make: Make, provider: &Provider) -> String {
    let path = match make {
        Make::OpenRouter => "/api/v1",
        Make::Azure => "/openai/deployments/qwen3:8b?api-version=2024-10-21",
        Make::Openai | Make::Ollama | Make::LlamaCpp | Make::Vllm | Make::LmStudio => "/v1",
    };
    format!("{}{path}", provider.base_url())
}

async fn start(make: Make, models: impl IntoIterator<Item = ServedModel>) -> (Provider, Arc<dyn Model>) {
    start_with(make, Settings::of(make, models), json!({})).await
}

async fn start_with(make: Make, settings: Settings, mut options: Value) -> (Provider, Arc<dyn Model>) {
    let provider = Provider::start(settings.key("sk-servers"), parrot).await.expect("a free port");
    if make == Make::Azure {
        options["key_header"] = "api-key".into();
    }
    let config = json!({ "driver": "openai", "base_url": base_url(make, &provider), "options": options });
    let model = open(config, Some("sk-servers"));
    (provider, model)
}

async fn ask(model: &dyn Model, request: drawloom_contract::model::TurnRequest) -> Result<Turn, TurnError> {
    model.turn(request, &crate::fixture::RecordedDeltas::default()).await
}

/// Context and tools of the card, after the server was asked.
async fn looked_up(model: &dyn Model, name: &str) -> (Option<u64>, Option<bool>) {
    model.look_up(name).await;
    let card = model.card(name);
    (card.context_tokens, card.takes_tools)
}

#[tokio::test]
async fn a_card_has_what_the_server_says_of_the_model() {
    for (make, expected) in [
        (Make::OpenRouter, (Some(20_000), Some(true))),
        (Make::Ollama, (Some(20_000), Some(true))),
        (Make::LlamaCpp, (Some(20_000), Some(true))),
        (Make::Vllm, (Some(20_000), None)),
        (Make::LmStudio, (Some(20_000), Some(true))),
        (Make::Azure, (None, None)),
    ] {
        let (_provider, model) = start(make, [ServedModel::new(NAME, 20_000)]).await;
        assert_eq!(model.card(NAME).context_tokens, None, "{make:?}");
        assert_eq!(looked_up(&*model, NAME).await, expected, "{make:?}");
    }
}

#[tokio::test]
async fn a_list_has_context_and_tools_of_each_model() {
    for make in [Make::OpenRouter, Make::Ollama, Make::LmStudio] {
        let models = [ServedModel::new("a:1", 8_192), ServedModel::new("b:1", 4_096).without_tools()];
        let (_provider, model) = start(make, models).await;
        let listed = model.list().await.expect("a list");
        let found: Vec<_> =
            listed.iter().map(|model| (&*model.id, model.context_tokens, model.takes_tools == Some(true))).collect();
        assert_eq!(found, [("a:1", Some(8_192), true), ("b:1", Some(4_096), false)], "{make:?}");
        assert_eq!(listed[0].price.is_some(), make == Make::OpenRouter, "{make:?}");
    }
    // Azure lists what could be deployed, beside its deployments.
    let (_provider, model) = start(Make::Azure, [ServedModel::new(NAME, 1)]).await;
    assert_eq!(model.list().await.expect("a list").len(), 2);
}

#[tokio::test]
async fn a_model_that_is_not_loaded_has_no_context_yet() {
    for make in [Make::Ollama, Make::LmStudio] {
        let (_provider, model) = start(make, [ServedModel::new(NAME, 8_192).not_loaded()]).await;
        assert_eq!(looked_up(&*model, NAME).await, (None, Some(true)), "{make:?}");
    }
}

#[tokio::test]
async fn a_server_is_asked_once_and_what_the_config_says_wins() {
    let settings = || Settings::of(Make::Vllm, [ServedModel::new(NAME, 8_192)]);
    let (provider, model) = start_with(Make::Vllm, settings(), json!({})).await;
    futures::future::join_all((0..20).map(|_| model.look_up(NAME))).await;
    let asked = provider.others().iter().filter(|path| path.ends_with("/models")).count();
    assert_eq!(asked, 1, "{:?}", provider.others());

    let said = json!({ "capabilities": { "max_context_tokens": 1_000 } });
    let (_provider, model) = start_with(Make::Vllm, settings(), said).await;
    assert_eq!(looked_up(&*model, NAME).await.0, Some(1_000));

    let all = json!({ "capabilities": { "max_context_tokens": 1_000, "supports_tools": true } });
    let (provider, model) = start_with(Make::Vllm, settings(), all).await;
    assert_eq!(looked_up(&*model, NAME).await, (Some(1_000), Some(true)));
    assert_eq!(provider.others(), Vec::<String>::new());
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_no_failure() {
    let (provider, model) = start(Make::Vllm, [ServedModel::new(NAME, 8_192)]).await;
    drop(provider);
    assert_eq!(looked_up(&*model, NAME).await, (None, None));
    assert_eq!(looked_up(&*model, "another").await, (None, None));
}

#[tokio::test]
async fn tools_for_a_model_without_them_are_refused_before_the_server_is_asked() {
    for make in [Make::OpenRouter, Make::Ollama, Make::LlamaCpp] {
        let (provider, model) = start(make, [ServedModel::new(NAME, 8_192).without_tools()]).await;
        model.look_up(NAME).await;
        let error = ask(&*model, with_tools(request(NAME))).await.expect_err("no tools");
        assert!(
            matches!(&error, TurnError::NoTools { message }
            if message.contains("loom/qwen3:8b") && message.contains(&provider.address().to_string())),
            "{make:?} {error}"
        );
        assert!(provider.asked().is_empty(), "{make:?}");
        ask(&*model, request(NAME)).await.expect("a question without tools");
    }
}

#[tokio::test]
async fn a_server_that_refuses_tools_is_understood() {
    for make in [Make::OpenRouter, Make::Ollama, Make::Vllm] {
        let (_provider, model) = start(make, [ServedModel::new(NAME, 8_192).without_tools()]).await;
        let error = ask(&*model, with_tools(request(NAME))).await.expect_err("no tools");
        assert_eq!(error.code(), "model_without_tools", "{make:?} {error}");
    }
}

#[tokio::test]
async fn every_server_runs_a_tool_loop() {
    for make in [Make::OpenRouter, Make::Azure, Make::Ollama, Make::LlamaCpp, Make::Vllm, Make::LmStudio] {
        let (_provider, model) = start(make, [ServedModel::new(NAME, 20_000)]).await;
        let mut first = with_tools(request(NAME));
        first.messages = vec![Arc::new(drawloom_contract::message::Message::user(
            "call Read {\"path\":\"a.md\"}\ncall Read {\"path\":\"b.md\"}",
        ))];
        let turn = ask(&*model, first.clone()).await.unwrap_or_else(|error| panic!("{make:?}: {error}"));
        let inputs: Vec<Value> = turn.calls.iter().map(|call| call.input.clone()).collect();
        assert_eq!(inputs, [json!({ "path": "a.md" }), json!({ "path": "b.md" })], "{make:?}");
        assert!(turn.usage.total() > 0, "{make:?}");
        assert_eq!(turn.cost.is_some(), make == Make::OpenRouter, "{make:?}");
        assert_eq!(turn.thoughts.is_empty(), make == Make::Azure, "{make:?}");
        let second = after(first, turn, &[("one", false), ("two", false)]);
        let turn = ask(&*model, second).await.unwrap_or_else(|error| panic!("{make:?}: {error}"));
        assert_eq!(turn.text, "It came to: one / two", "{make:?}");
    }
}

#[tokio::test]
async fn a_server_that_never_counts_leaves_the_usage_empty() {
    let settings = Settings::of(Make::LmStudio, [ServedModel::new(NAME, 8_192)]).without_usage();
    let (_provider, model) = start_with(Make::LmStudio, settings, json!({})).await;
    assert_eq!(ask(&*model, request(NAME)).await.expect("a turn").usage.total(), 0);
}

/// Each rule of a strict server has a request that breaks only that one.
#[tokio::test]
async fn the_servers_reject_what_the_real_ones_reject() {
    let long = |mut request: drawloom_contract::model::TurnRequest| {
        request.messages = vec![Arc::new(drawloom_contract::message::Message::user("word ".repeat(8_000)))];
        request
    };
    for (make, asked, code, says) in [
        (Make::Vllm, request("other"), "model_bad_request", "does not exist"),
        (
            Make::Vllm,
            {
                let mut large = request(NAME);
                large.max_tokens = 8_192;
                large
            },
            "context_too_long",
            "maximum context length",
        ),
        (Make::LlamaCpp, long(request(NAME)), "context_too_long", "available context size"),
        (Make::Ollama, request("other"), "model_bad_request", "not found"),
        (Make::LmStudio, request("other"), "model_bad_request", "not found"),
        (Make::OpenRouter, request("other"), "model_bad_request", "not a valid model ID"),
    ] {
        let (_provider, model) = start(make, [ServedModel::new(NAME, 8_192)]).await;
        let error = ask(&*model, asked).await.expect_err("a strict server");
        assert!(error.code() == code && error.to_string().contains(says), "{make:?} {error}");
    }
    let azure = |path: &str, key_header: Option<&str>| {
        let (path, key_header) = (path.to_owned(), key_header.map(str::to_owned));
        async move {
            let settings = Settings::of(Make::Azure, [ServedModel::new("chat", 8_192)]).key("sk-azure");
            let provider = Provider::start(settings, |_| Reply::text("yes").into()).await.expect("a free port");
            let base_url = format!("{}{path}", provider.base_url());
            let options = json!({ "key_header": key_header });
            let model = open(json!({ "driver": "openai", "base_url": base_url, "options": options }), Some("sk-azure"));
            ask(&*model, request("chat")).await.map(|turn| turn.text).map_err(|error| error.to_string())
        }
    };
    let version = "?api-version=2024-10-21";
    let failed = async |path: &str, key: Option<&str>| azure(path, key).await.expect_err("a strict server");
    assert!(failed("/openai/deployments/chat", Some("api-key")).await.contains("Resource not found"));
    assert!(failed(&format!("/openai/deployments/other{version}"), Some("api-key")).await.contains("deployment"));
    assert!(failed(&format!("/openai/deployments/chat{version}"), None).await.contains("rejected the API key"));
    assert_eq!(azure(&format!("/openai/deployments/chat{version}"), Some("api-key")).await.as_deref(), Ok("yes"));
    assert_eq!(azure("/openai/v1", Some("api-key")).await.as_deref(), Ok("yes"));
}

/// A clock whose limits of 20 s and more pass as soon as the server has been silent for long.
struct Hasty {
    is_silent: watch::Receiver<bool>,
}

#[async_trait]
impl Clock for Hasty {
    fn wall(&self) -> Timestamp {
        WallClock.wall()
    }

    fn now(&self) -> Instant {
        Instant::from_origin(Duration::ZERO)
    }

    async fn sleep_until(&self, time: Instant) {
        // The times of the listing are the shortest limits here; those of single requests are longer.
        let is_listing = time <= Instant::from_origin(Duration::from_secs(30));
        if !is_listing || self.is_silent.clone().wait_for(|is_silent| *is_silent).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// A server that looks like Ollama and says nothing more at `silent`: `head` is what it sends there.
async fn falls_silent(silent: &'static str, head: &'static str) -> (String, watch::Receiver<bool>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("its address");
    let (told, is_silent) = watch::channel(false);
    tokio::spawn(async move {
        let mut held = Vec::new();
        loop {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut asked = vec![0; 4096];
            let length = stream.read(&mut asked).await.expect("a request");
            let asked = String::from_utf8_lossy(&asked[..length]).into_owned();
            if asked.contains(silent) {
                stream.write_all(head.as_bytes()).await.expect("a client that waits");
                held.push(stream);
                told.send_replace(true);
                continue;
            }
            let body = match asked.contains("/api/ps") {
                true => json!({ "models": [] }),
                false => json!({ "data": [{ "id": "a" }, { "id": "b" }] }),
            }
            .to_string();
            let answer =
                format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            stream.write_all(answer.as_bytes()).await.expect("a client that waits");
        }
    });
    (format!("http://{address}/v1"), is_silent)
}

#[tokio::test]
async fn all_requests_for_a_list_have_one_deadline() {
    let list = async |silent, head| {
        let (base_url, is_silent) = falls_silent(silent, head).await;
        let config = json!({ "driver": "openai", "base_url": base_url });
        let config = serde_json::from_value(config).expect("a config of the test");
        let clock = Arc::new(Hasty { is_silent });
        let model = drawloom_models::open("loom", &config, None, clock).expect("a provider of the test");
        let listed = tokio::time::timeout(Duration::from_secs(60), model.list()).await.expect("a deadline");
        listed.map(|models| models.into_iter().map(|model| model.id).collect::<Vec<_>>())
    };
    // What came in time is told; the details did not.
    assert_eq!(list("/api/show", "").await.expect("a list"), ["a", "b"]);
    for head in ["", "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"] {
        let error = list("/v1/models", head).await.expect_err("no list");
        assert!(error.to_string().contains("did not come within 30000 ms"), "{error}");
    }
}

#[tokio::test]
async fn what_is_said_of_one_model_has_less_room_than_a_list() {
    let long = json!({ "models": [], "x": "x".repeat(1024 * 1024) }).to_string();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{long}", long.len());
    let (base_url, _silent) = falls_silent("/api/ps", head.leak()).await;
    let model = open(json!({ "driver": "openai", "base_url": base_url }), None);
    // It was not understood, so it is not Ollama: nothing more is asked.
    assert_eq!(model.list().await.expect("a list").len(), 2);
}
