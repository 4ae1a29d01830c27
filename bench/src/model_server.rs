//! A model provider on loopback that speaks Anthropic's stream, so that what is measured is Drawloom's own client.
//!
//! The model's name says how it answers: `quick` at once, `chunks-N-MS` in N pieces with MS milliseconds between them.

use std::{convert::Infallible, time::Duration};

use anyhow::{Context as _, Result};
use axum::{
    Router,
    body::{Body, Bytes},
    http::header::CONTENT_TYPE,
    response::{IntoResponse as _, Response},
    routing::post,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::report;

/// The request that Drawloom's client would send, as short as it can be.
pub(crate) fn request(model: &str) -> Vec<u8> {
    let message = json!({ "role": "user", "content": "hello" });
    let body = json!({ "model": model, "max_tokens": 100, "stream": true, "messages": [message] });
    crate::http::post("/v1/messages", "text/event-stream", &body.to_string())
}

/// Serves until it is killed, and says where on its first line.
pub(crate) fn serve() -> Result<()> {
    let routes = Router::new().route("/v1/messages", post(answer));
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        report::line(&format!("the model serves at http://{}", listener.local_addr()?))?;
        let listener = axum::serve::ListenerExt::tap_io(listener, |stream| _ = stream.set_nodelay(true));
        axum::serve(listener, routes).await.context("the model's server ended")
    })
}

async fn answer(body: Bytes) -> Response {
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    let model = request["model"].as_str().unwrap_or_default();
    let mut words = model.split('-').skip(1).map(|word| word.parse::<u64>().unwrap_or(0));
    let (chunks, pause) = (words.next().unwrap_or(1), words.next().unwrap_or(0));
    let body = match pause {
        0 => {
            let mut whole = begin(model);
            for _ in 0..chunks {
                whole.push_str(&piece());
            }
            Body::from(whole + &end(chunks))
        }
        _ => Body::from_stream(slowly(model.to_owned(), chunks, Duration::from_millis(pause))),
    };
    ([(CONTENT_TYPE, "text/event-stream")], body).into_response()
}

/// The same answer, piece by piece. The pauses are counted from the beginning, so that lateness does not add up.
fn slowly(model: String, chunks: u64, pause: Duration) -> Pieces {
    let (sender, pieces) = mpsc::channel(1);
    tokio::spawn(async move {
        let begun = tokio::time::Instant::now();
        // Who hung up needs no more pieces.
        _ = sender.send(begin(&model)).await;
        for chunk in 1..=chunks {
            tokio::time::sleep_until(begun + pause * u32::try_from(chunk).unwrap_or(u32::MAX)).await;
            _ = sender.send(piece()).await;
        }
        _ = sender.send(end(chunks)).await;
    });
    Pieces(pieces)
}

struct Pieces(mpsc::Receiver<String>);

impl futures::Stream for Pieces {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| Ok(Bytes::from(piece))))
    }
}

fn event(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

fn begin(model: &str) -> String {
    let usage = json!({ "input_tokens": 8, "output_tokens": 1 });
    let message = json!({
        "id": "msg_bench", "type": "message", "role": "assistant", "model": model, "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": usage,
    });
    let block = json!({ "type": "text", "text": "" });
    event("message_start", &json!({ "type": "message_start", "message": message }))
        + &event("content_block_start", &json!({ "type": "content_block_start", "index": 0, "content_block": block }))
}

fn piece() -> String {
    let delta = json!({ "type": "text_delta", "text": "a few words " });
    event("content_block_delta", &json!({ "type": "content_block_delta", "index": 0, "delta": delta }))
}

fn end(chunks: u64) -> String {
    let delta = json!({ "stop_reason": "end_turn", "stop_sequence": null });
    let usage = json!({ "output_tokens": 4 * chunks });
    event("content_block_stop", &json!({ "type": "content_block_stop", "index": 0 }))
        + &event("message_delta", &json!({ "type": "message_delta", "delta": delta, "usage": usage }))
        + &event("message_stop", &json!({ "type": "message_stop" }))
}
