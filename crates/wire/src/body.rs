//! JSON bodies: parsed once, with a typed error for each way in which bytes are not JSON.

use drawloom_contract::failure::{Failure, FailureKind};
use serde_json::Value;

use crate::validate::Problem;

/// The most bytes of a request body.
pub const MAX_BODY: usize = 16 * 1024 * 1024;

/// The most bytes of a batch's body.
pub const MAX_BATCH_BODY: usize = 8 * 1024 * 1024;

/// How deep JSON may be nested; the parser's own limit.
pub const MAX_DEPTH: usize = 127;

/// Reads a body. No bytes at all are an empty object, for operations that need nothing.
pub fn parse(bytes: &[u8]) -> Result<Value, Failure> {
    if bytes.is_empty() {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    serde_json::from_slice(bytes).map_err(|error| {
        let refuse = |code, message| Failure::new(FailureKind::Invalid, code, message);
        // The parser has no kind for this, only words.
        if error.to_string().starts_with("recursion limit") {
            return refuse("too_deep", format!("the body is nested deeper than {MAX_DEPTH} levels"))
                .with_hint("flatten it, or send the deep part as text");
        }
        match std::str::from_utf8(bytes) {
            Err(bad) => refuse("invalid_json", format!("the body is not UTF-8: byte {} is wrong", bad.valid_up_to()))
                .with_hint("send JSON in UTF-8"),
            Ok(_) => refuse("invalid_json", format!("the body is not JSON: {error}")).with_hint("send one JSON object"),
        }
    })
}

/// The failure that a surface shows for a value with problems. Its code is the problems' own when they agree.
pub fn refuse(problems: &[Problem]) -> Failure {
    let code = match problems {
        [first, rest @ ..] if rest.iter().all(|problem| problem.code == first.code) => first.code,
        _ => "invalid_request",
    };
    let messages: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
    let mut failure = Failure::new(FailureKind::Invalid, code, messages.join("; "));
    let hints: Vec<&str> = problems.iter().filter_map(|problem| problem.hint.as_deref()).collect();
    if !hints.is_empty() {
        failure.hint = Some(hints.join("; "));
    }
    failure
}
