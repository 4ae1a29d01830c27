//! What a process of a CLI came to, the same for all CLIs.

use drawloom_contract::{money::Cost, time::Timestamp, usage::Usage};
use serde::{Deserialize, Serialize};

/// What a process of a CLI came to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reply {
    /// The CLI's final answer.
    pub text: String,
    /// The session, to continue it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// What the CLI says that this process cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// Tokens of this process.
    pub usage: Usage,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<u32>,
    /// Tool calls that the CLI's own rules refused, in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub permission_denials: Vec<String>,
    /// What went wrong; absent when the CLI finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
}

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    pub kind: ProblemKind,
    /// The cause, and what to do about it.
    pub message: String,
    /// When a rate limit ends, if the CLI says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// The kinds of what can go wrong with a CLI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProblemKind {
    NotInstalled,
    NotLoggedIn,
    RateLimited,
    Overloaded,
    PermissionDenied,
    Budget,
    MaxTurns,
    BadOutput,
    Crashed,
    TimedOut,
    /// It used more memory or processes than it may.
    LimitExceeded,
    /// The session that was to be continued does not exist.
    SessionLost,
}

impl ProblemKind {
    /// The code of a run's error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotInstalled => "not_installed",
            Self::NotLoggedIn => "not_logged_in",
            Self::RateLimited => "rate_limited",
            Self::Overloaded => "overloaded",
            Self::PermissionDenied => "permission_denied",
            Self::Budget => "budget",
            Self::MaxTurns => "max_turns",
            Self::BadOutput => "bad_output",
            Self::Crashed => "crashed",
            Self::TimedOut => "timed_out",
            Self::LimitExceeded => "limit_exceeded",
            Self::SessionLost => "session_lost",
        }
    }
}

impl Problem {
    pub(crate) fn new(kind: ProblemKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), until: None }
    }
}

impl Reply {
    pub(crate) fn failed(kind: ProblemKind, message: impl Into<String>) -> Self {
        Self { problem: Some(Problem::new(kind, message)), ..Self::default() }
    }
}
