//! Why memory could not do what was asked.

use drawloom_contract::{
    failure::{Explain, FailureKind},
    journal::StoreError,
    tool::ToolError,
    values::ChangeError,
};

use super::{MOST_IMPORTED, MOST_KEY_BYTES, rules::Refusal, search::MOST_TERMS};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    #[error("invalid key {key:?}: {problem}")]
    BadKey { key: String, problem: &'static str },
    #[error("{0}")]
    Refused(Refusal),
    #[error("{0}")]
    Change(ChangeError),
    #[error("{0}")]
    Store(StoreError),
    #[error("duplicate key {0:?}")]
    Twice(String),
    #[error("too many entries: {0}; the limit is {MOST_IMPORTED} per request")]
    TooMany(usize),
    #[error("conflict: the key {0:?} kept changing during this update")]
    Busy(String),
    #[error("the query {0:?} contains no words")]
    NoWords(String),
    #[error("the query has {0} words and phrases; the limit is {MOST_TERMS}")]
    TooManyWords(usize),
}

impl Explain for MemoryError {
    fn kind(&self) -> FailureKind {
        match self {
            Self::BadKey { .. } | Self::Twice(_) | Self::TooMany(_) | Self::NoWords(_) | Self::TooManyWords(_) => {
                FailureKind::Invalid
            }
            Self::Refused(refusal) => refusal.kind(),
            Self::Change(error) => error.kind(),
            Self::Store(error) => error.kind(),
            Self::Busy(_) => FailureKind::Unavailable,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::BadKey { .. } => "bad_key",
            Self::Twice(_) => "repeated_key",
            Self::TooMany(_) | Self::TooManyWords(_) => "too_long",
            Self::NoWords(_) => "empty_query",
            Self::Refused(refusal) => refusal.code(),
            Self::Change(error) => error.code(),
            Self::Store(error) => error.code(),
            Self::Busy(_) => "key_busy",
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::BadKey { .. } => {
                Some(format!("a key must have 1 to {MOST_KEY_BYTES} bytes, without control characters or secrets"))
            }
            Self::Twice(_) => Some("keep one entry per key".into()),
            Self::TooMany(_) => Some("split them over several requests".into()),
            Self::NoWords(_) => Some("use a word with letters or digits".into()),
            Self::TooManyWords(_) => Some("search for fewer words".into()),
            Self::Refused(refusal) => refusal.hint(),
            Self::Change(ChangeError::OverQuota { .. }) => {
                Some("delete keys in this scope, store less, or raise memory.max_keys or memory.max_bytes".into())
            }
            Self::Change(error) => error.hint(),
            Self::Store(error) => error.hint(),
            Self::Busy(_) => Some("try again".into()),
        }
    }
}

impl From<Refusal> for MemoryError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<ChangeError> for MemoryError {
    fn from(error: ChangeError) -> Self {
        Self::Change(error)
    }
}

impl From<StoreError> for MemoryError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<MemoryError> for ToolError {
    fn from(error: MemoryError) -> Self {
        let hint = error.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
        let text = format!("{}: {error}{hint}", error.code());
        match error.kind() {
            FailureKind::Invalid => Self::Invalid(text),
            _ => Self::Failed(text),
        }
    }
}
