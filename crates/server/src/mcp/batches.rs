//! Several messages in one body, which one old revision of the protocol has: each is answered by itself.

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use bytes::Bytes;
use serde_json::{Value, json, value::RawValue};

/// The most messages in one body.
const MOST: usize = 64;

/// The messages of a body that is a list of them.
pub(super) fn split(body: &[u8]) -> Option<Result<Vec<Bytes>, &'static str>> {
    if body.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'[') {
        return None;
    }
    Some(match serde_json::from_slice::<Vec<&RawValue>>(body) {
        Err(_) => Err("the body is not JSON"),
        Ok(list) if list.is_empty() => Err("the list of messages is empty"),
        Ok(list) if list.len() > MOST => Err("the list has more than 64 messages"),
        Ok(list) => Ok(list.iter().map(|message| Bytes::copy_from_slice(message.get().as_bytes())).collect()),
    })
}

/// The answer in a body: JSON as it is, or the last event of a stream that answers something.
pub(super) fn answer_in(body: &[u8]) -> Option<Value> {
    let is_answer = |value: &Value| value.get("id").is_some() && value.get("method").is_none();
    if let Ok(value) = serde_json::from_slice::<Value>(body) {
        return Some(value).filter(is_answer);
    }
    let text = String::from_utf8_lossy(body);
    let events = text.lines().filter_map(|line| line.strip_prefix("data:"));
    events.filter_map(|data| serde_json::from_str(data.trim()).ok()).find(is_answer)
}

/// All answers together; nothing but a word when there is none.
pub(super) fn join(answers: Vec<Value>) -> Response {
    match answers.is_empty() {
        true => super::endpoint::accepted(),
        false => json_response(StatusCode::OK, &Value::Array(answers)),
    }
}

/// An error of the protocol, for a body that is no message.
pub(super) fn refuse(body: &[u8], message: &str) -> Response {
    let (code, id) = match serde_json::from_slice::<Value>(body) {
        Err(_) => (-32700, Value::Null),
        Ok(value) => {
            (-32600, value.get("id").filter(|id| id.is_string() || id.is_number()).cloned().unwrap_or_default())
        }
    };
    let error = json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } });
    json_response(StatusCode::BAD_REQUEST, &error)
}

fn json_response(status: StatusCode, value: &Value) -> Response {
    let mut response = Response::new(Body::from(value.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
