//! Every limit of answers of models is crossed, and ends in the error on the list.

use std::time::Duration;

use drawloom_contract::{
    limits::{Amount, Limit},
    model::TurnError,
};
use drawloom_models::LIMITS;
use drawloom_testkit::providers::{Ending, Raw, Reply, ServerReply, Settings, Shape, parrot};
use serde_json::{Value, json};

use crate::fixture::{Fixture, KEY, request};

const MODEL: &str = "gpt-4.1";

fn most(limit: &Limit) -> usize {
    match limit.default {
        Amount::Bytes(number) => usize::try_from(number).expect("a number that fits"),
        other => panic!("{} allows {other:?}", limit.name),
    }
}

/// The error of a turn.
async fn asking(
    settings: Settings,
    options: Value,
    answer: impl Fn() -> ServerReply + Send + Sync + 'static,
) -> TurnError {
    Fixture::with(settings.key(KEY), options, move |_| answer()).await.ask(request(MODEL)).await.expect_err("an error")
}

/// The code of a turn whose answer consists of these bytes.
async fn sending(pieces: Vec<Vec<u8>>) -> String {
    let answer = move || Raw { status: 200, headers: vec![], pieces: pieces.clone() }.into();
    asking(Settings::new(Shape::Openai), json!({}), answer).await.code().to_owned()
}

/// Crosses a limit; returns the code of the error.
async fn cross(limit: &Limit) -> String {
    let settings = Settings::new(Shape::Openai);
    match limit.name {
        "model_header_time" => {
            let slow = settings.key(KEY).delay(Duration::from_secs(3_600));
            let fixture = Fixture::with(slow, json!({ "header_timeout_ms": 50 }), parrot).await;
            fixture.ask(request(MODEL)).await.expect_err("no answer").code().into()
        }
        "model_idle_time" => {
            let silent = || Reply::text("a b c").pieces(3, Duration::ZERO).ending(Ending::Silent(2)).into();
            asking(settings, json!({ "idle_timeout_ms": 50 }), silent).await.code().into()
        }
        "model_answer_bytes" => {
            let line = format!("data: {}\n\n", json!({ "choices": [{ "delta": { "content": "x".repeat(1 << 20) } }] }));
            sending(vec![line.into_bytes(); most(limit) >> 20]).await
        }
        "model_event_bytes" => {
            let line = format!("data: {}\n", "x".repeat(1 << 20));
            sending(vec![line.into_bytes(); (most(limit) >> 20) + 1]).await
        }
        "model_line_bytes" => {
            let begin = b"data: ".to_vec();
            sending([vec![begin], vec![vec![b'x'; 1 << 20]; most(limit) >> 20]].concat()).await
        }
        "model_list_bytes" => {
            let listing =
                crate::fixture::open(json!({ "driver": "openai", "base_url": long_list(most(limit)).await }), None);
            let error = listing.list().await.expect_err("too long");
            error.code().into()
        }
        "model_retry_after" => {
            let refused =
                || Raw { status: 429, headers: vec![("retry-after".into(), "1e12".into())], pieces: vec![] }.into();
            let error = asking(settings, json!({}), refused).await;
            let TurnError::Throttled { retry_after, .. } = &error else { panic!("{error}") };
            assert_eq!(retry_after.map(Amount::time), Some(limit.default));
            error.code().into()
        }
        other => panic!("no test crosses the limit `{other}`: add one here"),
    }
}

/// The address of a server whose list of models is longer than `length`.
async fn long_list(length: usize) -> String {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("its address");
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let mut request = [0; 4096];
        _ = stream.read(&mut request).await;
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", length + 1);
        _ = stream.write_all(head.as_bytes()).await;
        _ = stream.write_all(" ".repeat(length + 1).as_bytes()).await;
    });
    format!("http://{address}")
}

#[tokio::test]
async fn every_limit_is_crossed_and_told() {
    for limit in LIMITS {
        let code = tokio::time::timeout(Duration::from_secs(120), cross(limit)).await;
        assert_eq!(code.unwrap_or_else(|_| panic!("{} hangs", limit.name)), limit.code, "{}", limit.name);
    }
    let report = format_args!("limits: {} limits of answers of models crossed\n", LIMITS.len());
    std::io::Write::write_fmt(&mut std::io::stderr(), report).expect("stderr");
}
