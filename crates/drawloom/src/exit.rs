//! How a command ends: its exit code, and what it says when it fails.

use std::process::ExitCode;

use serde_json::{Value, json};

use drawloom_contract::failure::{Explain, Failure, FailureKind};

use crate::{logging::masked, operations};

/// What the exit code of a command means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// 0: done.
    Done,
    /// 1: it ran, and what it ran failed.
    Failed,
    /// 2: it could not run as it was asked: usage or config.
    Usage,
    /// 3: the command must ask for input, and stdin is not a terminal.
    NeedsInput,
    /// 130 or 143: a signal stopped it, and it wrote what came of it.
    Signal(u8),
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::NeedsInput => 3,
            Exit::Signal(number) => 128 + number,
        })
    }
}

/// Why a command failed, for people and programs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CommandError {
    /// The exit code.
    pub exit: Exit,
    /// A stable word for programs.
    pub code: String,
    /// What happened.
    pub message: String,
    /// One line for each of several mistakes.
    pub details: Vec<String>,
    /// What to try next.
    pub hint: Option<String>,
}

impl CommandError {
    /// A command that was asked for something that cannot be.
    pub fn usage(code: &str, message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, code: code.into(), message: message.into(), details: Vec::new(), hint: None }
    }

    /// A command that did what it was asked, and it did not work.
    pub fn failed(code: &str, message: impl Into<String>) -> Self {
        Self { exit: Exit::Failed, ..Self::usage(code, message) }
    }

    /// The same error, saying what to try next.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// What an error says of itself.
    pub fn of(error: &dyn Explain) -> Self {
        Failure::of(error).into()
    }

    /// The same error without the secrets that this process knows of.
    pub(crate) fn masked(&self) -> Self {
        Self {
            message: masked(&self.message),
            details: self.details.iter().map(|detail| masked(detail)).collect(),
            hint: self.hint.as_deref().map(masked),
            ..self.clone()
        }
    }

    /// The error that another drawloom process printed for programs.
    pub(crate) fn from_json(said: &Value) -> Option<Self> {
        let error = said.get("error")?;
        let details = error["details"].as_array().into_iter().flatten().filter_map(Value::as_str);
        Some(Self {
            details: details.map(str::to_owned).collect(),
            hint: error["hint"].as_str().map(str::to_owned),
            ..Self::usage(error["code"].as_str()?, error["message"].as_str()?)
        })
    }

    /// For programs.
    pub fn to_json(&self) -> Value {
        let mut error = json!({ "code": self.code, "message": self.message });
        if let Some(hint) = &self.hint {
            error["hint"] = json!(hint);
        }
        if !self.details.is_empty() {
            error["details"] = json!(self.details);
        }
        json!({ "error": error })
    }
}

/// The one place where a kind of failure becomes an exit code.
pub fn exit_of(kind: FailureKind) -> Exit {
    match kind {
        FailureKind::Invalid
        | FailureKind::TooLarge
        | FailureKind::Unauthenticated
        | FailureKind::Denied
        | FailureKind::NotFound
        | FailureKind::Conflict => Exit::Usage,
        FailureKind::Throttled | FailureKind::Unavailable | FailureKind::Broken | FailureKind::Bug => Exit::Failed,
    }
}

impl From<Failure> for CommandError {
    fn from(failure: Failure) -> Self {
        Self {
            exit: exit_of(failure.kind),
            code: failure.code.into(),
            message: failure.message,
            details: Vec::new(),
            hint: failure.hint.map(|hint| operations::in_terminal(&hint)),
        }
    }
}
