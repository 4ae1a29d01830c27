//! What can go wrong, in the few kinds that a caller can act on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{redact::Texts, time::NoEntropy};

/// What a failure means for the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    Invalid,
    TooLarge,
    Unauthenticated,
    Denied,
    /// Not found, or owned by another tenant.
    NotFound,
    Conflict,
    Throttled,
    Unavailable,
    /// Something needed is down until an operator repairs it: this server cannot do it later either.
    Broken,
    Bug,
}

impl FailureKind {
    /// Whether the same request may work later.
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::Throttled | Self::Unavailable)
    }
}

/// An error that tells its reader what it means and what to do next.
pub trait Explain: std::error::Error + Send + Sync {
    /// What it means for the caller.
    fn kind(&self) -> FailureKind;

    /// A stable word for programs, such as `unknown_agent`.
    fn code(&self) -> &'static str;

    /// What the reader could try next.
    fn hint(&self) -> Option<String> {
        None
    }
}

/// A failure on its way to a caller; every surface shows the same one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    pub kind: FailureKind,
    pub code: &'static str,
    /// What happened, safe to show.
    pub message: String,
    pub hint: Option<String>,
}

impl Failure {
    pub fn new(kind: FailureKind, code: &'static str, message: impl Into<String>) -> Self {
        Self { kind, code, message: message.into(), hint: None }
    }

    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub fn of(error: &dyn Explain) -> Self {
        Self { kind: error.kind(), code: error.code(), message: error.to_string(), hint: error.hint() }
    }
}

/// Why a run or a call ended badly, as journaled and shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunError {
    /// A stable word for programs, such as `model_refused`.
    pub code: String,
    /// What happened.
    pub message: String,
    /// What to try next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Texts for RunError {
    fn each_text(&mut self, visit: &mut dyn FnMut(&mut String)) {
        visit(&mut self.message);
        self.hint.iter_mut().for_each(visit);
    }
}

impl RunError {
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), hint: None }
    }

    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl Explain for NoEntropy {
    fn kind(&self) -> FailureKind {
        FailureKind::Unavailable
    }

    fn code(&self) -> &'static str {
        "no_entropy"
    }

    fn hint(&self) -> Option<String> {
        Some("allow the getrandom system call, or make /dev/urandom readable".into())
    }
}

impl From<NoEntropy> for Failure {
    fn from(error: NoEntropy) -> Self {
        Self::of(&error)
    }
}
