//! Providers that refuse, break off, stay silent or talk too much.

use std::time::Duration;

use drawloom_contract::model::TurnError;
use drawloom_contract::time::Clock as _;
use drawloom_testkit::providers::{
    Ending, Outcome, Provider, Raw, Refusal, Reply, RetryAfter, ServerReply, Settings, Shape, WallClock, parrot,
};
use serde_json::json;

use crate::fixture::{Fixture, KEY, config, open, request};

const SHAPES: [(Shape, &str); 4] = [
    (Shape::Anthropic, "claude-sonnet-4-5"),
    (Shape::Openai, "gpt-4.1"),
    (Shape::Responses, "gpt-6-sol"),
    (Shape::Deepseek, "deepseek-flash"),
];

#[tokio::test]
async fn statuses_become_typed_failures() {
    let cases = [
        (429, "", "throttled"),
        (529, "", "model_overloaded"),
        (500, "", "model_unavailable"),
        (502, "", "model_unavailable"),
        (403, "", "model_auth"),
        (404, "", "model_bad_request"),
        (413, "", "context_too_long"),
        (400, "context_length_exceeded", "context_too_long"),
        (429, "insufficient_quota", "model_auth"),
        (307, "", "model_bad_request"),
    ];
    for (shape, model) in SHAPES {
        for (status, kind, code) in cases {
            let fixture = Fixture::new(shape, move |_| {
                let refusal = Refusal::new(status, "so it is");
                if kind.is_empty() { refusal.into() } else { refusal.kind(kind).into() }
            });
            let error = fixture.await.ask(request(model)).await.expect_err("a refusal");
            assert_eq!(error.code(), code, "{shape:?} {status} {kind}");
            let text = error.to_string();
            assert!(text.contains(&format!("loom/{model}: ")) && text.contains(&format!("HTTP {status}")), "{text}");
        }
    }
}

#[tokio::test]
async fn retry_after_is_heard_as_seconds_as_a_date_and_not_at_all() {
    let waits = async |retry_after| {
        let fixture =
            Fixture::new(Shape::Anthropic, move |_| Refusal::new(429, "later").retry_after(retry_after).into());
        match fixture.await.ask(request("claude-sonnet-4-5")).await {
            Err(TurnError::Throttled { retry_after, .. }) => retry_after,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(waits(RetryAfter::Absent).await, None);
    assert_eq!(waits(RetryAfter::Seconds(7)).await, Some(Duration::from_secs(7)));
    let date = waits(RetryAfter::Date(600)).await.expect("a wait");
    assert!((Duration::from_secs(300)..=Duration::from_secs(601)).contains(&date), "{date:?}");
    let fixture =
        Fixture::new(Shape::Anthropic, |_| Refusal::new(529, "later").retry_after(RetryAfter::Seconds(3)).into());
    match fixture.await.ask(request("claude-sonnet-4-5")).await {
        Err(TurnError::Overloaded { retry_after, .. }) => assert_eq!(retry_after, Some(Duration::from_secs(3))),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_provider_that_answers_says_when_nothing_is_left() {
    for shape in [Shape::Openai, Shape::Responses] {
        let fixture = Fixture::new(shape, |asked| {
            let left = if asked.number == 1 { "0" } else { "5" };
            let reply = Reply::text("last one").header("x-ratelimit-remaining-requests", left);
            reply.header("x-ratelimit-reset-requests", "1m30s").into()
        })
        .await;
        let began = WallClock.wall();
        let until = fixture.ask(request("gpt-4.1")).await.expect("a turn").closed_until.expect("nothing is left");
        let later = |time: drawloom_contract::time::Timestamp| time.after(Duration::from_secs(90));
        assert!((later(began)..=later(WallClock.wall())).contains(&until), "{shape:?}");
        assert_eq!(fixture.ask(request("gpt-4.1")).await.expect("a turn").closed_until, None, "{shape:?}");
    }
}

#[tokio::test]
async fn the_key_is_in_no_error() {
    for (shape, model) in SHAPES {
        let provider = Provider::start(Settings::new(shape).key("the-real-one"), parrot).await.expect("a port");
        let model_api = open(config(shape, &provider, json!({})), Some(KEY));
        let turn =
            model_api.turn(request(model), &crate::fixture::RecordedDeltas::default()).await.expect_err("a wrong key");
        let list = model_api.list().await.expect_err("a wrong key");
        for error in [turn, list] {
            assert_eq!(error.code(), "model_auth");
            let text = format!("{error} {error:?}");
            assert!(text.contains("invalid key ***") && !text.contains(KEY), "{text}");
        }
        let echo = Fixture::new(shape, |asked| {
            let said = format!("{:?}", asked.headers);
            Raw { status: 400, headers: vec![], pieces: vec![said.into_bytes()] }.into()
        });
        let error = echo.await.ask(request(model)).await.expect_err("a refusal");
        assert!(!error.to_string().contains(KEY) && error.to_string().contains("***"), "{error}");
    }
}

#[tokio::test]
async fn a_stream_that_breaks_or_ends_early_or_turns_to_garbage_is_cut() {
    for (shape, model) in SHAPES {
        for ending in [Ending::Broken(2), Ending::Short(2), Ending::Short(0), Ending::Garbage(2)] {
            let reply = Reply::text("a longer text").pieces(3, Duration::ZERO).ending(ending.clone());
            let fixture = Fixture::new(shape, move |_| reply.clone().into()).await;
            let error = fixture.ask(request(model)).await.expect_err("a cut");
            assert_eq!(error.code(), "model_stream_cut", "{shape:?} {ending:?}: {error}");
        }
        let reply = Reply::text("x").ending(Ending::Error(2, "rate_limit_error".into()));
        let fixture = Fixture::new(shape, move |_| reply.clone().into()).await;
        assert_eq!(fixture.ask(request(model)).await.expect_err("an error").code(), "throttled");
    }
}

#[tokio::test]
async fn silence_is_noticed() {
    let settings = Settings::new(Shape::Openai).key(KEY);
    let silent = |_: &_| ServerReply::from(Reply::text("a b c").pieces(3, Duration::ZERO).ending(Ending::Silent(2)));
    let fixture = Fixture::with(settings.clone(), json!({ "idle_timeout_ms": 80 }), silent).await;
    let error = fixture.ask(request("gpt-4.1")).await.expect_err("silence");
    assert_eq!(error.to_string(), "the model's response stream was interrupted: loom/gpt-4.1: no data for 80 ms");
    let slow = settings.delay(Duration::from_secs(60));
    let fixture = Fixture::with(slow, json!({ "header_timeout_ms": 80 }), parrot).await;
    let error = fixture.ask(request("gpt-4.1")).await.expect_err("silence");
    assert_eq!(error.to_string(), "the provider is unavailable: loom/gpt-4.1: no response within 80 ms");
}

#[tokio::test]
async fn a_stream_that_goes_on_is_waited_for() {
    let reply = Reply::text("one two three four five six").pieces(6, Duration::from_millis(60));
    let settings = Settings::new(Shape::Anthropic).key(KEY);
    let fixture = Fixture::with(settings, json!({ "idle_timeout_ms": 2_000 }), move |_| reply.clone().into()).await;
    let turn = fixture.ask(request("claude-sonnet-4-5")).await.expect("a slow turn");
    assert_eq!(turn.text, "one two three four five six");
}

#[tokio::test]
async fn nobody_at_home_is_unavailable() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    let model = open(json!({ "driver": "openai", "base_url": format!("http://{free}") }), None);
    let error = model.turn(request("m"), &crate::fixture::RecordedDeltas::default()).await.expect_err("nobody");
    assert_eq!(error.code(), "model_unavailable");
    let nowhere = open(json!({ "driver": "openai", "base_url": "http://[x" }), None);
    assert_eq!(nowhere.list().await.expect_err("no address").code(), "model_bad_request");
    assert!(error.to_string().contains("cannot connect to http://127.0.0.1:"), "{error}");
}

#[tokio::test]
async fn an_answer_without_end_is_bounded() {
    let line = format!("data: {}\n\n", json!({ "choices": [{ "delta": { "content": "x".repeat(1 << 20) } }] }));
    let pieces = vec![line.into_bytes(); 80];
    let fixture =
        Fixture::new(Shape::Openai, move |_| Raw { status: 200, headers: vec![], pieces: pieces.clone() }.into());
    let error = fixture.await.ask(request("gpt-4.1")).await.expect_err("too much");
    assert!(error.to_string().contains("longer than 67108864 bytes"), "{error}");
}

#[tokio::test]
async fn a_connection_is_used_again() {
    for (shape, model) in SHAPES {
        let fixture = Fixture::new(shape, parrot).await;
        for _ in 0..10 {
            fixture.ask(request(model)).await.expect("a turn");
        }
        assert_eq!(fixture.provider.connections(), 1, "{shape:?}");
    }
}

#[tokio::test]
async fn an_abandoned_call_ends_at_the_server_too() {
    let settings = Settings::new(Shape::Anthropic).key(KEY).delay(Duration::from_secs(60));
    let fixture = Fixture::with(settings, json!({}), parrot).await;
    let arrived = async {
        while fixture.provider.asked().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        turn = fixture.ask(request("claude-sonnet-4-5")) => panic!("{turn:?}"),
        () = arrived => {}
    }
    let gone = async {
        while fixture.provider.calls().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), gone).await.expect("the server notices");
    let calls = fixture.provider.calls();
    assert_eq!((calls[0].status, calls[0].outcome), (0, Outcome::Broken));
}
