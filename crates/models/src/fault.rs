//! Why a call came to nothing: typed by what the provider says, by its words only where it gives no code.

use std::time::Duration;

use drawloom_contract::model::TurnError;
use serde_json::Value;

use crate::Secret;

/// Most characters of what a provider said that an error shows.
const MOST_MESSAGE: usize = 400;

/// Which failure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Throttled,
    Overloaded,
    Unavailable,
    Cut,
    Refused,
    BadRequest,
    Auth,
    ContextTooLong,
}

/// A failure, before it is known whose call it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    pub(crate) message: String,
    pub(crate) retry_after: Option<Duration>,
}

impl Fault {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after: None }
    }

    /// A stream that ended before the turn did.
    pub(crate) fn cut(message: impl Into<String>) -> Self {
        Self::new(Kind::Cut, message)
    }

    /// What an answer that is no success means.
    pub(crate) fn of_answer(status: u16, body: &[u8], retry_after: Option<Duration>) -> Self {
        let mut said = Said::read(body);
        if (300..400).contains(&status) {
            said.text = "it sends us elsewhere, where we do not go: check `base_url`".into();
        }
        let kind = match (said.kind(Some(status)), retry_after) {
            // Whoever says when to come back is not down.
            (Kind::Unavailable, Some(_)) if status == 503 => Kind::Overloaded,
            (kind, _) => kind,
        };
        Self { kind, message: format!("{} (HTTP {status})", said.message(kind)), retry_after }
    }

    /// What an error inside a stream means.
    pub(crate) fn of_event(error: &Value) -> Self {
        let said = Said::of(error);
        let kind = said.kind(None);
        Self::new(kind, said.message(kind))
    }

    /// The error of the call of `who`: short, and without the key, whoever put it there.
    pub(crate) fn into_error(self, who: &str, key: Option<&Secret>) -> TurnError {
        let mut said = self.message;
        if let Some(key) = key.map(Secret::reveal).filter(|key| !key.is_empty()) {
            said = said.replace(key, "***");
        }
        let message = format!("{who}: {}", clip(&said));
        let retry_after = self.retry_after;
        match self.kind {
            Kind::Throttled => TurnError::Throttled { message, retry_after },
            Kind::Overloaded => TurnError::Overloaded { message, retry_after },
            Kind::Unavailable => TurnError::Unavailable { message },
            Kind::Cut => TurnError::Cut { message },
            Kind::Refused => TurnError::Refused { message },
            Kind::BadRequest => TurnError::BadRequest { message },
            Kind::Auth => TurnError::Auth { message },
            Kind::ContextTooLong => TurnError::ContextTooLong { message },
        }
    }
}

/// What a provider said of a failure.
struct Said {
    /// Its words for programs: type and code.
    words: Vec<String>,
    /// Its words for people.
    text: String,
}

impl Said {
    fn read(body: &[u8]) -> Self {
        match serde_json::from_slice::<Value>(body) {
            Ok(value) => Self::of(&value),
            Err(_) => {
                let text = String::from_utf8_lossy(body);
                let text = text.trim();
                let text = if text.starts_with('<') { "it answers with a web page" } else { text };
                Self { words: Vec::new(), text: text.to_owned() }
            }
        }
    }

    /// Finds the error in `{"error": {…}}`, `{"error": "…"}`, `{"message": …}`, `{"detail": …}`, or a list of them.
    fn of(value: &Value) -> Self {
        let value = value.as_array().and_then(|list| list.first()).unwrap_or(value);
        let error = value.get("error").filter(|error| !error.is_null()).unwrap_or(value);
        let words = ["type", "code", "status"]
            .iter()
            .filter_map(|key| error.get(key)?.as_str())
            .map(str::to_ascii_lowercase)
            .collect();
        let text = ["message", "detail", "msg"].iter().find_map(|key| error.get(key));
        let text = match (error, text) {
            (Value::String(text), _) | (_, Some(Value::String(text))) => text.clone(),
            (_, Some(other)) => other.to_string(),
            (Value::Null, None) => String::new(),
            (other, None) => other.to_string(),
        };
        Self { words, text }
    }

    fn kind(&self, status: Option<u16>) -> Kind {
        let says = |list: &[&str]| self.words.iter().any(|word| list.contains(&word.as_str()));
        let lower = self.text.to_ascii_lowercase();
        let mentions = |list: &[&str]| list.iter().any(|part| lower.contains(part));
        if says(NO_CREDIT) || status == Some(402) || mentions(NO_CREDIT_SHAPES) {
            // The key is good but buys nothing: no wait mends that, another provider does.
            return Kind::Auth;
        }
        if says(TOO_LONG) {
            return Kind::ContextTooLong;
        }
        if says(&["content_filter", "content_policy_violation"]) {
            return Kind::Refused;
        }
        if says(OVERLOADED) {
            return Kind::Overloaded;
        }
        let says_throttled = says(&["rate_limit_error", "rate_limit_exceeded", "too_many_requests"]);
        let says_auth = says(&["authentication_error", "permission_error", "invalid_api_key", "permission_denied"]);
        let too_long = mentions(TOO_LONG_SHAPES);
        match status {
            Some(401 | 403) => Kind::Auth,
            Some(408 | 409 | 425) => Kind::Unavailable,
            Some(413) => Kind::ContextTooLong,
            // One request that is larger than what a minute allows fits in no minute.
            Some(429) if mentions(&["request too large"]) => Kind::ContextTooLong,
            Some(429) => Kind::Throttled,
            Some(529) => Kind::Overloaded,
            Some(503) if mentions(&["overloaded", "slow down", "too many requests", "capacity"]) => Kind::Overloaded,
            // Some servers count tokens too late and answer 500.
            Some(500..) if !too_long => Kind::Unavailable,
            _ if says_throttled => Kind::Throttled,
            _ if says_auth => Kind::Auth,
            _ if too_long => Kind::ContextTooLong,
            None if !says(&["invalid_request_error", "not_found_error"]) => Kind::Unavailable,
            _ => Kind::BadRequest,
        }
    }

    fn message(&self, kind: Kind) -> String {
        let text = if self.text.is_empty() { "it does not say why" } else { &self.text };
        match (kind, self.words.iter().any(|word| NO_CREDIT.contains(&word.as_str()))) {
            (Kind::Auth, true) => format!("the account has no credit left: {text}"),
            _ => text.to_owned(),
        }
    }
}

const NO_CREDIT: &[&str] = &["insufficient_quota", "billing_error", "insufficient_balance", "billing_not_active"];

/// How providers without a code for it say the same.
const NO_CREDIT_SHAPES: &[&str] = &["credit balance is too low", "reached your specified api usage limits"];

const TOO_LONG: &[&str] = &["context_length_exceeded", "request_too_large", "exceed_context_size_error"];

const OVERLOADED: &[&str] = &["overloaded_error", "overloaded", "engine_overloaded", "server_overloaded"];

/// How providers without a code for it say that a conversation is too long.
const TOO_LONG_SHAPES: &[&str] = &[
    "prompt is too long",
    "input is too long",
    "maximum context length",
    "context length exceeded",
    "exceeds the context window",
    "exceed context limit",
    "exceeds the available context size",
    "exceeds the maximum number of tokens",
];

/// `text` on one line, and not too much of it.
fn clip(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MOST_MESSAGE) {
        None => line,
        Some((end, _)) => format!("{} [{} more bytes]", &line[..end], line.len() - end),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kind(status: u16, body: Value) -> Kind {
        Fault::of_answer(status, body.to_string().as_bytes(), None).kind
    }

    #[test]
    fn a_code_decides_before_the_status_and_the_status_before_words() {
        let error =
            |kind: &str, message: &str| json!({ "type": "error", "error": { "type": kind, "message": message } });
        let code = |code: &str, message: &str| json!({ "error": { "message": message, "type": "x", "code": code } });
        let cases = [
            (429, error("rate_limit_error", "slow down"), Kind::Throttled),
            (529, error("overloaded_error", "Overloaded"), Kind::Overloaded),
            (503, error("overloaded_error", "Overloaded"), Kind::Overloaded),
            (503, json!({ "error": { "message": "The server is overloaded or not ready yet." } }), Kind::Overloaded),
            (503, json!({ "error": { "message": "Slow down" } }), Kind::Overloaded),
            (503, json!({ "error": { "message": "Maintenance" } }), Kind::Unavailable),
            (500, error("api_error", "Internal server error"), Kind::Unavailable),
            (504, error("timeout_error", "late"), Kind::Unavailable),
            (401, error("authentication_error", "invalid x-api-key"), Kind::Auth),
            (403, error("permission_error", "no"), Kind::Auth),
            (402, error("billing_error", "pay"), Kind::Auth),
            (400, error("invalid_request_error", "Your credit balance is too low to use the API"), Kind::Auth),
            (404, error("not_found_error", "model: nope"), Kind::BadRequest),
            (413, error("request_too_large", "Request exceeds the maximum size"), Kind::ContextTooLong),
            (
                400,
                error("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
                Kind::ContextTooLong,
            ),
            (400, error("invalid_request_error", "max_tokens: Field required"), Kind::BadRequest),
            (400, code("context_length_exceeded", "too many"), Kind::ContextTooLong),
            (400, code("", "This model's maximum context length is 8192 tokens."), Kind::ContextTooLong),
            (429, code("insufficient_quota", "You exceeded your current quota"), Kind::Auth),
            (429, code("rate_limit_exceeded", "Rate limit reached"), Kind::Throttled),
            (
                429,
                code("rate_limit_exceeded", "Request too large for gpt-4.1 on tokens per min: Limit 1, Requested 2"),
                Kind::ContextTooLong,
            ),
            (400, code("content_filter", "filtered"), Kind::Refused),
            (422, json!({ "detail": [{ "msg": "field required" }] }), Kind::BadRequest),
            (302, json!(null), Kind::BadRequest),
            (
                500,
                json!([{ "error": { "code": 500, "message": "the request exceeds the available context size" } }]),
                Kind::ContextTooLong,
            ),
        ];
        for (status, body, expected) in cases {
            assert_eq!(kind(status, body.clone()), expected, "{status} {body}");
        }
    }

    #[test]
    fn errors_inside_a_stream_have_no_status() {
        let kind = |error: Value| Fault::of_event(&error).kind;
        assert_eq!(kind(json!({ "type": "overloaded_error", "message": "Overloaded" })), Kind::Overloaded);
        assert_eq!(kind(json!({ "type": "rate_limit_error", "message": "slow" })), Kind::Throttled);
        assert_eq!(kind(json!({ "type": "api_error", "message": "oops" })), Kind::Unavailable);
        assert_eq!(kind(json!({ "type": "invalid_request_error", "message": "no" })), Kind::BadRequest);
        assert_eq!(kind(json!({ "message": "upstream gone", "code": 502 })), Kind::Unavailable);
        assert_eq!(kind(json!("plain words")), Kind::Unavailable);
    }

    #[test]
    fn a_message_is_one_short_line_without_the_key() {
        let long = format!("bad key hunter2hunter2\n{}", "x".repeat(10_000));
        let fault = Fault::of_answer(401, long.as_bytes(), None);
        let error = fault.into_error("claude/opus", Some(&Secret::new("hunter2hunter2"))).to_string();
        assert!(error.starts_with("the provider rejected the credential: claude/opus: bad key *** xxx"), "{error}");
        assert!(error.len() < 600 && error.contains("more bytes]"), "{error}");
        let page = Fault::of_answer(502, b"<html><body>Bad Gateway</body></html>", None);
        assert_eq!(page.message, "it answers with a web page (HTTP 502)");
    }
}
