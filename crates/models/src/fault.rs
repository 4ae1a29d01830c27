//! Why a call failed: by the provider's error code, and by its message only where it gives no code.

use std::time::Duration;

use drawloom_contract::model::TurnError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Secret;

/// Most characters of a provider's message that an error shows.
const MOST_MESSAGE: usize = 400;

/// How a turn fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailKind {
    /// The provider rate limits the call.
    Throttled,
    /// The provider is overloaded.
    Overloaded,
    /// The provider is unreachable or failed internally.
    Unavailable,
    /// The stream is interrupted.
    Cut,
    /// The model refuses.
    Refused,
    /// The request is invalid.
    BadRequest,
    /// The API key is rejected.
    Auth,
    /// The conversation exceeds the context window.
    ContextTooLong,
    /// The model cannot call tools.
    NoTools,
}

impl FailKind {
    pub(crate) fn error(self, message: String, retry_after: Option<Duration>) -> TurnError {
        match self {
            Self::Throttled => TurnError::Throttled { message, retry_after },
            Self::Overloaded => TurnError::Overloaded { message, retry_after },
            Self::Unavailable => TurnError::Unavailable { message },
            Self::Cut => TurnError::Cut { message },
            Self::Refused => TurnError::Refused { message },
            Self::BadRequest => TurnError::BadRequest { message },
            Self::Auth => TurnError::Auth { message },
            Self::ContextTooLong => TurnError::ContextTooLong { message },
            Self::NoTools => TurnError::NoTools { message },
        }
    }
}

/// A failure, before it is known whose call it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: FailKind,
    pub(crate) message: String,
    pub(crate) retry_after: Option<Duration>,
}

impl Fault {
    pub(crate) fn new(kind: FailKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after: None }
    }

    /// A stream that ended before the turn did.
    pub(crate) fn cut(message: impl Into<String>) -> Self {
        Self::new(FailKind::Cut, message)
    }

    /// The failure that an HTTP status and body mean.
    pub(crate) fn of_answer(status: u16, body: &[u8], retry_after: Option<Duration>) -> Self {
        let mut error = ProviderError::read(body);
        if (300..400).contains(&status) {
            error.text = "redirected, and redirects are not followed: check `base_url`".into();
        }
        let kind = match (error.kind(Some(status)), retry_after) {
            // A provider that gives a retry time is not down.
            (FailKind::Unavailable, Some(_)) if status == 503 => FailKind::Overloaded,
            (kind, _) => kind,
        };
        Self { kind, message: format!("{} (HTTP {status})", error.message(kind)), retry_after }
    }

    /// The failure that an error inside a stream means.
    pub(crate) fn of_event(event: &Value) -> Self {
        let error = ProviderError::of(event);
        let kind = error.kind(None);
        Self::new(kind, error.message(kind))
    }

    /// The error of a call to `who`: short, and without the key.
    pub(crate) fn into_error(self, who: &str, key: Option<&Secret>) -> TurnError {
        let mut message = self.message;
        if let Some(key) = key.map(Secret::reveal).filter(|key| !key.is_empty()) {
            message = message.replace(key, "***");
        }
        self.kind.error(format!("{who}: {}", clip(&message)), self.retry_after)
    }
}

/// An error as a provider describes it.
struct ProviderError {
    /// Type, code and status, in lower case.
    codes: Vec<String>,
    /// The message.
    text: String,
}

impl ProviderError {
    fn read(body: &[u8]) -> Self {
        match serde_json::from_slice::<Value>(body) {
            Ok(value) => Self::of(&value),
            Err(_) => {
                let text = String::from_utf8_lossy(body);
                let text = text.trim();
                let text = if text.starts_with('<') { "the response is a web page" } else { text };
                Self { codes: Vec::new(), text: text.to_owned() }
            }
        }
    }

    /// Finds the error in `{"error": {…}}`, `{"error": "…"}`, `{"message": …}`, `{"detail": …}`, or a list of them.
    fn of(value: &Value) -> Self {
        let value = value.as_array().and_then(|list| list.first()).unwrap_or(value);
        let error = value.get("error").filter(|error| !error.is_null()).unwrap_or(value);
        let codes = ["type", "code", "status"]
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
        Self { codes, text }
    }

    fn kind(&self, status: Option<u16>) -> FailKind {
        let says = |list: &[&str]| self.codes.iter().any(|code| list.contains(&code.as_str()));
        let lower = self.text.to_ascii_lowercase();
        let mentions = |list: &[&str]| list.iter().any(|part| lower.contains(part));
        if says(NO_CREDIT) || status == Some(402) || mentions(NO_CREDIT_MESSAGES) {
            // The key is valid but the account has no credit: another provider helps, waiting does not.
            return FailKind::Auth;
        }
        if says(TOO_LONG) {
            return FailKind::ContextTooLong;
        }
        if says(&["content_filter", "content_policy_violation"]) {
            return FailKind::Refused;
        }
        if says(OVERLOADED) {
            return FailKind::Overloaded;
        }
        let says_throttled = says(&["rate_limit_error", "rate_limit_exceeded", "too_many_requests"]);
        let says_auth = says(&["authentication_error", "permission_error", "invalid_api_key", "permission_denied"]);
        let too_long = mentions(TOO_LONG_MESSAGES);
        if mentions(NO_TOOLS_MESSAGES) && matches!(status, Some(400 | 404 | 422 | 500) | None) {
            return FailKind::NoTools;
        }
        match status {
            Some(401 | 403) => FailKind::Auth,
            Some(408 | 409 | 425) => FailKind::Unavailable,
            Some(413) => FailKind::ContextTooLong,
            // A request that is larger than the quota of a minute never fits.
            Some(429) if mentions(&["request too large"]) => FailKind::ContextTooLong,
            Some(429) => FailKind::Throttled,
            Some(529) => FailKind::Overloaded,
            Some(503) if mentions(&["overloaded", "slow down", "too many requests", "capacity"]) => {
                FailKind::Overloaded
            }
            // Some servers count tokens too late and answer 500.
            Some(500..) if !too_long => FailKind::Unavailable,
            _ if says_throttled => FailKind::Throttled,
            _ if says_auth => FailKind::Auth,
            _ if too_long => FailKind::ContextTooLong,
            None if !says(&["invalid_request_error", "not_found_error"]) => FailKind::Unavailable,
            _ => FailKind::BadRequest,
        }
    }

    fn message(&self, kind: FailKind) -> String {
        let text = if self.text.is_empty() { "no reason given" } else { &self.text };
        match (kind, self.codes.iter().any(|code| NO_CREDIT.contains(&code.as_str()))) {
            (FailKind::Auth, true) => format!("the account has no credit left: {text}"),
            _ => text.to_owned(),
        }
    }
}

const NO_CREDIT: &[&str] = &["insufficient_quota", "billing_error", "insufficient_balance", "billing_not_active"];

/// Messages of providers without a code for it.
const NO_CREDIT_MESSAGES: &[&str] = &["credit balance is too low", "reached your specified api usage limits"];

const TOO_LONG: &[&str] = &["context_length_exceeded", "request_too_large", "exceed_context_size_error"];

const OVERLOADED: &[&str] = &["overloaded_error", "overloaded", "engine_overloaded", "server_overloaded"];

/// Messages of providers without a code for a conversation that is too long.
const TOO_LONG_MESSAGES: &[&str] = &[
    "prompt is too long",
    "input is too long",
    "maximum context length",
    "context length exceeded",
    "exceeds the context window",
    "exceed context limit",
    "exceeds the available context size",
    "exceeds the maximum number of tokens",
];

/// What servers say of a model that cannot call tools. None has a code for it. Ollama: ollama/ollama#11131; OpenRouter:
/// evalstate/fast-agent#122; llama.cpp without its templates: defilantech/LLMKube#126; vLLM without a parser:
/// vllm-project/vllm#9986.
const NO_TOOLS_MESSAGES: &[&str] = &[
    "does not support tools",
    "no endpoints found that support tool use",
    "tools param requires --jinja flag",
    "tool choice requires --enable-auto-tool-choice",
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

    fn kind(status: u16, body: Value) -> FailKind {
        Fault::of_answer(status, body.to_string().as_bytes(), None).kind
    }

    #[test]
    fn a_code_decides_before_the_status_and_the_status_before_the_message() {
        let error =
            |kind: &str, message: &str| json!({ "type": "error", "error": { "type": kind, "message": message } });
        let code = |code: &str, message: &str| json!({ "error": { "message": message, "type": "x", "code": code } });
        let cases = [
            (429, error("rate_limit_error", "slow down"), FailKind::Throttled),
            (529, error("overloaded_error", "Overloaded"), FailKind::Overloaded),
            (503, error("overloaded_error", "Overloaded"), FailKind::Overloaded),
            (
                503,
                json!({ "error": { "message": "The server is overloaded or not ready yet." } }),
                FailKind::Overloaded,
            ),
            (503, json!({ "error": { "message": "Slow down" } }), FailKind::Overloaded),
            (503, json!({ "error": { "message": "Maintenance" } }), FailKind::Unavailable),
            (500, error("api_error", "Internal server error"), FailKind::Unavailable),
            (504, error("timeout_error", "late"), FailKind::Unavailable),
            (401, error("authentication_error", "invalid x-api-key"), FailKind::Auth),
            (403, error("permission_error", "no"), FailKind::Auth),
            (402, error("billing_error", "pay"), FailKind::Auth),
            (400, error("invalid_request_error", "Your credit balance is too low to use the API"), FailKind::Auth),
            (404, error("not_found_error", "model: nope"), FailKind::BadRequest),
            (413, error("request_too_large", "Request exceeds the maximum size"), FailKind::ContextTooLong),
            (
                400,
                error("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
                FailKind::ContextTooLong,
            ),
            (400, error("invalid_request_error", "max_tokens: Field required"), FailKind::BadRequest),
            (400, code("context_length_exceeded", "too many"), FailKind::ContextTooLong),
            (400, code("", "This model's maximum context length is 8192 tokens."), FailKind::ContextTooLong),
            (429, code("insufficient_quota", "You exceeded your current quota"), FailKind::Auth),
            (429, code("rate_limit_exceeded", "Rate limit reached"), FailKind::Throttled),
            (
                429,
                code("rate_limit_exceeded", "Request too large for gpt-4.1 on tokens per min: Limit 1, Requested 2"),
                FailKind::ContextTooLong,
            ),
            (400, code("content_filter", "filtered"), FailKind::Refused),
            (400, error("api_error", "registry.ollama.ai/library/gemma3:4b does not support tools"), FailKind::NoTools),
            (
                404,
                json!({ "error": { "message": "No endpoints found that support tool use. To learn", "code": 404 } }),
                FailKind::NoTools,
            ),
            (500, error("server_error", "tools param requires --jinja flag"), FailKind::NoTools),
            (422, json!({ "detail": [{ "msg": "field required" }] }), FailKind::BadRequest),
            (302, json!(null), FailKind::BadRequest),
            (
                500,
                json!([{ "error": { "code": 500, "message": "the request exceeds the available context size" } }]),
                FailKind::ContextTooLong,
            ),
        ];
        for (status, body, expected) in cases {
            assert_eq!(kind(status, body.clone()), expected, "{status} {body}");
        }
    }

    #[test]
    fn errors_inside_a_stream_have_no_status() {
        let kind = |error: Value| Fault::of_event(&error).kind;
        assert_eq!(kind(json!({ "type": "overloaded_error", "message": "Overloaded" })), FailKind::Overloaded);
        assert_eq!(kind(json!({ "type": "rate_limit_error", "message": "slow" })), FailKind::Throttled);
        assert_eq!(kind(json!({ "type": "api_error", "message": "oops" })), FailKind::Unavailable);
        assert_eq!(kind(json!({ "type": "invalid_request_error", "message": "no" })), FailKind::BadRequest);
        assert_eq!(kind(json!({ "message": "upstream gone", "code": 502 })), FailKind::Unavailable);
        assert_eq!(kind(json!("plain words")), FailKind::Unavailable);
    }

    #[test]
    fn a_message_is_one_short_line_without_the_key() {
        let long = format!("bad key hunter2hunter2\n{}", "x".repeat(10_000));
        let fault = Fault::of_answer(401, long.as_bytes(), None);
        let error = fault.into_error("claude/opus", Some(&Secret::new("hunter2hunter2"))).to_string();
        assert!(error.starts_with("the provider rejected the API key: claude/opus: bad key *** xxx"), "{error}");
        assert!(error.len() < 600 && error.contains("more bytes]"), "{error}");
        let page = Fault::of_answer(502, b"<html><body>Bad Gateway</body></html>", None);
        assert_eq!(page.message, "the response is a web page (HTTP 502)");
    }
}
