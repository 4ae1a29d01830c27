//! Messages as they are in bodies: several in one, which one old revision of the protocol has, and errors that are answers of
//! the protocol also when they were said in plain words.

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::Response,
};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Collected};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

/// The most messages in one body.
pub(super) const MOST: usize = 64;
/// The first version in which an event can have no data.
const WITH_EMPTY_EVENTS: &str = "2025-11-25";
/// The most bytes of plain words that are passed on.
const MOST_WORDS: usize = 1_000;

const INVALID_REQUEST: i32 = -32600;
const PARSE_ERROR: i32 = -32700;
/// What the official servers say of a session that is gone; Claude Code opens a new one when it hears it.
const NO_SESSION: i32 = -32001;
/// How `rmcp` refuses a request that needs a session and names none.
const SESSION_NEEDED: &str = "Session ID is required";

/// What is looked at of a message.
#[derive(Deserialize)]
struct Named {
    jsonrpc: Option<String>,
    method: Option<String>,
    id: Option<Value>,
}

impl Named {
    fn is_ping(&self) -> bool {
        let has_id = self.id.as_ref().is_some_and(|id| id.is_string() || id.is_i64() || id.is_u64());
        self.jsonrpc.as_deref() == Some("2.0") && self.method.as_deref() == Some("ping") && has_id
    }
}

fn named(body: &[u8]) -> Option<Named> {
    serde_json::from_slice(body).ok()
}

pub(super) fn is_initialize(body: &[u8]) -> bool {
    named(body).is_some_and(|named| named.method.as_deref() == Some("initialize"))
}

/// The messages of a body that is a list of them. They hear of no progress: there is one answer, at the end.
pub(super) fn split(body: &[u8]) -> Option<Result<Vec<Bytes>, &'static str>> {
    if body.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'[') {
        return None;
    }
    Some(match serde_json::from_slice::<Vec<&RawValue>>(body) {
        Err(_) => Err("the body is not JSON"),
        Ok(list) if list.is_empty() => Err("the list of messages is empty"),
        Ok(list) if list.len() > MOST => Err("the list has more than 64 messages"),
        Ok(list) => Ok(list.iter().map(|message| without_token(message.get())).collect()),
    })
}

/// A message without the token under which its sender would hear of progress.
fn without_token(message: &str) -> Bytes {
    let Ok(mut value) = serde_json::from_str::<Value>(message) else {
        return Bytes::copy_from_slice(message.as_bytes());
    };
    if let Some(meta) = value.pointer_mut("/params/_meta").and_then(Value::as_object_mut) {
        meta.remove("progressToken");
    }
    value.to_string().into()
}

/// Whether a client knows events that have an id to come back with and no data, which there are since version 2025-11-25.
/// Older clients read all data as JSON; Codex does not, and comes back.
pub(super) fn knows_empty_events(headers: &HeaderMap) -> bool {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    header("mcp-protocol-version").is_some_and(|version| version >= WITH_EMPTY_EVENTS)
        || header("user-agent").is_some_and(|agent| agent.starts_with("codex"))
}

/// A stream without events that have no data. A comment ends no event either: what reads lines in the old Python clients
/// takes the empty line after it for the end of one.
pub(super) fn without_empty_events(response: Response) -> Response {
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if !kind.is_some_and(|kind| kind.starts_with("text/event-stream")) {
        return response;
    }
    response.map(|body| {
        Body::new(body.map_frame(|frame| {
            frame.map_data(|event| {
                let is_empty = [&b"data: \n"[..], b"data:\n"].into_iter().any(|empty| event.starts_with(empty));
                match is_empty {
                    true => Bytes::new(),
                    false if event.starts_with(b":") && event.ends_with(b"\n\n") => event.slice(..event.len() - 1),
                    false => event,
                }
            })
        }))
    })
}

/// What was said in plain words, as an error of the protocol; everything else as it is.
pub(super) async fn in_protocol(response: Response, message: &[u8]) -> Response {
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !response.status().is_client_error() || kind.starts_with("application/json") {
        return response;
    }
    let (parts, body) = response.into_parts();
    let body = body.collect().await.map(Collected::to_bytes).unwrap_or_default();
    let words = String::from_utf8_lossy(&body[..body.len().min(MOST_WORDS)]).into_owned();
    match parts.status {
        // The one request that needs no session.
        StatusCode::BAD_REQUEST if words.contains(SESSION_NEEDED) => match named(message).filter(Named::is_ping) {
            Some(ping) => json_response(StatusCode::OK, &json!({ "jsonrpc": "2.0", "id": ping.id, "result": {} })),
            None => refuse(message, "a session is required; send initialize to open one"),
        },
        // The same status says that the body cannot be read.
        StatusCode::UNSUPPORTED_MEDIA_TYPE if !words.contains("Content-Type") => {
            refuse(message, "the body is not an MCP message")
        }
        StatusCode::NOT_FOUND => no_session(message),
        status => json_response(status, &error(message, &words)),
    }
}

/// The error of a message whose session is not there.
pub(super) fn no_session(message: &[u8]) -> Response {
    let mut error = error(message, "unknown session; send initialize to open one");
    error["error"]["code"] = NO_SESSION.into();
    json_response(StatusCode::NOT_FOUND, &error)
}

/// The answers to a list of messages together; nothing but a word when there is none. Without the session, or for somebody
/// who does not take the answers, there is but one answer.
pub(super) async fn join(responses: Vec<Response>) -> Response {
    let mut answers = Vec::new();
    for response in responses {
        if matches!(response.status(), StatusCode::NOT_FOUND | StatusCode::NOT_ACCEPTABLE) {
            return response;
        }
        let body = response.into_body().collect().await.map(Collected::to_bytes).unwrap_or_default();
        answers.extend(answer_in(&body));
    }
    match answers.is_empty() {
        true => super::endpoint::accepted(),
        false => json_response(StatusCode::OK, &Value::Array(answers)),
    }
}

/// The answer in a body: JSON as it is, or the event of a stream that answers something.
fn answer_in(body: &[u8]) -> Option<Value> {
    let is_answer = |value: &Value| value.get("id").is_some() && value.get("method").is_none();
    if let Ok(value) = serde_json::from_slice::<Value>(body) {
        return Some(value).filter(is_answer);
    }
    let text = String::from_utf8_lossy(body);
    let events = text.lines().filter_map(|line| line.strip_prefix("data:"));
    events.filter_map(|data| serde_json::from_str(data.trim()).ok()).find(is_answer)
}

/// An error of the protocol, for a body that is no message.
pub(super) fn refuse(body: &[u8], message: &str) -> Response {
    json_response(StatusCode::BAD_REQUEST, &error(body, message))
}

fn error(body: &[u8], words: &str) -> Value {
    let (code, id) = match serde_json::from_slice::<Value>(body) {
        Err(_) => (PARSE_ERROR, Value::Null),
        Ok(value) => {
            let id = value.get("id").filter(|id| id.is_string() || id.is_number()).cloned();
            (INVALID_REQUEST, id.unwrap_or_default())
        }
    };
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": words } })
}

fn json_response(status: StatusCode, value: &Value) -> Response {
    let mut response = Response::new(Body::from(value.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse as _;

    use super::*;

    #[tokio::test]
    async fn what_old_clients_get_has_no_event_without_data() {
        let frames = ["data: \nid: 0/0\nretry: 3000\n\n", ": \n\n", "data: {}\nid: 0/1\n\n", ":\n\n"];
        let frames = futures::stream::iter(frames.map(Ok::<_, std::convert::Infallible>));
        let stream = ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(frames)).into_response();
        let body = without_empty_events(stream).into_body().collect().await.expect("a body").to_bytes();
        assert_eq!(body, &b": \ndata: {}\nid: 0/1\n\n:\n"[..]);
    }

    #[test]
    fn messages_of_a_list_come_apart_and_without_the_token_for_progress() {
        let call = |meta: Value| json!({ "id": 1, "method": "tools/call", "params": { "name": "x", "_meta": meta } });
        let list = json!([call(json!({ "progressToken": 7, "other": true })), { "method": "ping" }, 5]);
        let all = split(list.to_string().as_bytes()).expect("a list").expect("messages");
        let all: Vec<Value> = all.iter().map(|message| serde_json::from_slice(message).expect("JSON")).collect();
        assert_eq!(all, [call(json!({ "other": true })), json!({ "method": "ping" }), json!(5)]);
        assert!(split(b"{}").is_none());
        assert!(split(b" [").expect("a list").is_err() && split(b"[]").expect("a list").is_err());
    }
}
