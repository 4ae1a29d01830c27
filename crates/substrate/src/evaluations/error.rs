//! Why evaluations could not do what was asked.

use drawloom_contract::{
    failure::{Explain, FailureKind},
    ids::{AgentName, RunId},
    journal::StoreError,
    time::NoEntropy,
    tool::ToolError,
    values::ChangeError,
};

use super::{
    MOST_DIMENSIONS, MOST_JUDGEMENT_BYTES, MOST_LISTED, MOST_NAME_BYTES, MOST_RATIONALE_BYTES, record::EvalId,
};

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum EvaluationError {
    #[error("invalid score {score} of {what}: expected a number from 0 to 1")]
    BadScore { what: String, score: f64 },
    #[error("{what} has {bytes} bytes; the limit is {most}")]
    TooLong { what: &'static str, bytes: usize, most: usize },
    #[error("{0} dimensions; the limit is {MOST_DIMENSIONS}")]
    TooManyDimensions(usize),
    #[error("invalid {what} {name:?}: expected 1 to {MOST_NAME_BYTES} bytes without control characters or secrets")]
    BadName { what: &'static str, name: String },
    #[error("unknown run {0}")]
    UnknownRun(RunId),
    #[error("unknown evaluation {0}")]
    Unknown(EvalId),
    #[error("unknown definition {def_id:?}")]
    UnknownDefinition { def_id: String, hint: Option<String> },
    #[error("unknown agent {:?}", name.as_str())]
    UnknownAgent { name: AgentName, hint: Option<String> },
    #[error("invalid limit {0}: expected 1 to {MOST_LISTED}")]
    BadLimit(u32),
    #[error("conflict: evaluation {0} kept changing while it was submitted")]
    Busy(EvalId),
    #[error("no random numbers for an evaluation id: {0}")]
    NoEntropy(NoEntropy),
    #[error("{0}")]
    Change(ChangeError),
    #[error("{0}")]
    Store(StoreError),
}

impl Explain for EvaluationError {
    fn kind(&self) -> FailureKind {
        match self {
            Self::BadScore { .. } | Self::BadName { .. } | Self::BadLimit(_) => FailureKind::Invalid,
            Self::TooLong { .. } | Self::TooManyDimensions(_) => FailureKind::TooLarge,
            Self::UnknownRun(_) | Self::Unknown(_) | Self::UnknownDefinition { .. } | Self::UnknownAgent { .. } => {
                FailureKind::NotFound
            }
            Self::Busy(_) | Self::NoEntropy(_) => FailureKind::Unavailable,
            Self::Change(error) => error.kind(),
            Self::Store(error) => error.kind(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::BadScore { .. } => "bad_score",
            Self::BadName { .. } => "bad_name",
            Self::TooLong { .. } => "too_long",
            Self::TooManyDimensions(_) => "too_many_dimensions",
            Self::UnknownRun(_) => "unknown_run",
            Self::Unknown(_) => "unknown_evaluation",
            Self::UnknownDefinition { .. } => "unknown_definition",
            Self::UnknownAgent { .. } => "unknown_agent",
            Self::BadLimit(_) => "out_of_range",
            Self::Busy(_) => "key_busy",
            Self::NoEntropy(_) => "no_entropy",
            Self::Change(ChangeError::OverQuota { .. }) => "too_many_evaluations",
            Self::Change(error) => error.code(),
            Self::Store(error) => error.code(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::BadScore { .. } => Some("divide by the highest score that can be reached".into()),
            Self::TooLong { .. } => Some(format!(
                "judgement may have {MOST_JUDGEMENT_BYTES} bytes and rationale {MOST_RATIONALE_BYTES}; keep longer texts \
                 as artifacts and name them"
            )),
            Self::TooManyDimensions(_) => Some("combine some of them".into()),
            Self::UnknownAgent { hint, .. } | Self::UnknownDefinition { hint: hint @ Some(_), .. } => hint.clone(),
            Self::BadLimit(_) => Some("read the next page with `after`".into()),
            Self::UnknownDefinition { hint: None, .. } => {
                Some("pass the digest that runs show as `definition`, the name of an agent, or name@version".into())
            }
            Self::Change(ChangeError::OverQuota { .. }) => {
                Some("submit with a `tag`: the same tag replaces what you submitted before".into())
            }
            Self::Busy(_) => Some("try again".into()),
            Self::Change(error) => error.hint(),
            Self::Store(error) => error.hint(),
            Self::UnknownRun(_) => Some("list_runs lists the runs that you can see".into()),
            Self::BadName { .. } | Self::Unknown(_) | Self::NoEntropy(_) => None,
        }
    }
}

impl From<ChangeError> for EvaluationError {
    fn from(error: ChangeError) -> Self {
        Self::Change(error)
    }
}

impl From<StoreError> for EvaluationError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<EvaluationError> for ToolError {
    fn from(error: EvaluationError) -> Self {
        // Agents have the tool and no operations.
        let is_for_callers = matches!(error, EvaluationError::UnknownRun(_));
        let hint = error.hint().filter(|_| !is_for_callers).map(|hint| format!(" ({hint})")).unwrap_or_default();
        let text = format!("{}: {error}{hint}", error.code());
        match error.kind() {
            FailureKind::Invalid | FailureKind::TooLarge => Self::Invalid(text),
            _ => Self::Failed(text),
        }
    }
}
