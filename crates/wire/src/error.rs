//! The error body: the same on every route.

use drawloom_contract::failure::{Failure, FailureKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::validate::Problem;

/// What every error answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorBody {
    /// The code again, where clients of the reference look for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The error.
    pub error: Detail,
}

/// An error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Detail {
    /// A stable word for programs.
    pub code: String,
    /// What happened.
    pub message: String,
    /// What to try next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Whether the same request may work later.
    pub retryable: bool,
    /// The request, as the server's log names it.
    pub request_id: String,
    /// Every problem of the request, when it was looked at whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Flaw>,
}

/// One problem of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Flaw {
    /// Where, such as `spawns[3].agent`; empty for the request itself.
    pub path: String,
    /// A stable word for programs.
    pub code: String,
    /// What is wrong.
    pub message: String,
    /// What to try next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// Codes that clients of the reference look for at the top of the body.
const TOP_LEVEL: &[&str] = &[
    "agent_id_in_use",
    "backpressure",
    "insufficient_scope",
    "not_interactive",
    "per_user_quota_exhausted",
    "provider_concurrency_exhausted",
    "session_busy",
    "token_limit_exceeded",
    "tool_refused",
    "unknown_agent_id",
];

impl ErrorBody {
    /// What a caller is shown. A bug shows a request id and nothing else.
    pub fn of(failure: &Failure, problems: &[Problem], request_id: &str) -> Self {
        let message = match failure.kind {
            FailureKind::Bug => "something went wrong on our side".into(),
            _ => failure.message.clone(),
        };
        let hint = match failure.kind {
            FailureKind::Bug => Some("report it with the request id; the server's log says more".into()),
            _ => failure.hint.clone(),
        };
        let problems = problems.iter().map(|problem| Flaw {
            path: problem.path(),
            code: problem.code.into(),
            message: problem.message.clone(),
            hint: problem.hint.clone(),
        });
        Self {
            code: TOP_LEVEL.contains(&failure.code).then(|| failure.code.into()),
            error: Detail {
                code: failure.code.into(),
                message,
                hint,
                retryable: failure.kind.is_retryable(),
                request_id: request_id.into(),
                problems: problems.collect(),
            },
        }
    }
}

/// The HTTP status of a failure's kind.
pub fn status(kind: FailureKind) -> u16 {
    match kind {
        FailureKind::Invalid => 400,
        FailureKind::Unauthenticated => 401,
        FailureKind::Denied => 403,
        FailureKind::NotFound => 404,
        FailureKind::Conflict => 409,
        FailureKind::TooLarge => 413,
        FailureKind::Throttled => 429,
        FailureKind::Bug => 500,
        FailureKind::Unavailable | FailureKind::Broken => 503,
    }
}

/// The kind that a status stands for; what we never send is a bug of somebody's. `Broken` has the status of `Unavailable`, and
/// only `retryable` of the body tells them apart.
pub fn kind(status: u16) -> FailureKind {
    match status {
        401 => FailureKind::Unauthenticated,
        403 => FailureKind::Denied,
        404 => FailureKind::NotFound,
        409 => FailureKind::Conflict,
        413 => FailureKind::TooLarge,
        429 => FailureKind::Throttled,
        502..=504 => FailureKind::Unavailable,
        400..=499 => FailureKind::Invalid,
        _ => FailureKind::Bug,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_status_that_reads_back() {
        for found in [
            FailureKind::Invalid,
            FailureKind::TooLarge,
            FailureKind::Unauthenticated,
            FailureKind::Denied,
            FailureKind::NotFound,
            FailureKind::Conflict,
            FailureKind::Throttled,
            FailureKind::Unavailable,
            FailureKind::Bug,
        ] {
            assert_eq!(kind(status(found)), found);
        }
    }

    #[test]
    fn a_bug_shows_its_request_id_and_nothing_else() {
        let failure = Failure::new(FailureKind::Bug, "panic", "index 7 of secret").with_hint("look at secret");
        let body = serde_json::to_string(&ErrorBody::of(&failure, &[], "q1")).expect("bodies encode");
        assert!(body.contains("\"request_id\":\"q1\"") && !body.contains("secret"), "{body}");
    }

    #[test]
    fn a_code_of_the_reference_stands_at_the_top_too() {
        let busy = Failure::new(FailureKind::Conflict, "session_busy", "busy");
        assert_eq!(ErrorBody::of(&busy, &[], "q").code.as_deref(), Some("session_busy"));
        let other = Failure::new(FailureKind::Invalid, "unknown_key", "no");
        assert_eq!(ErrorBody::of(&other, &[], "q").code, None);
    }
}
