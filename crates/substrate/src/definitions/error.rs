//! Why a definition could not be made, changed or read.

use drawloom_contract::{
    definition::DefinitionKind,
    failure::{Explain, FailureKind},
    journal::StoreError,
    tool::ToolError,
    values::ChangeError,
};

use super::{MOST_SOURCE_BYTES, SourceProblem, excess::Excess, power::Powerless, rules::Refusal};
use crate::channels::{ChannelError, MOST_DEFINED};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DefinitionError {
    #[error("unknown {} {name:?}", kind.as_str())]
    Unknown { kind: DefinitionKind, name: String, hint: Option<String> },
    #[error("{name}@{version} does not exist: {name} is defined in the config and has no versions")]
    ConfigVersion { name: String, version: u32 },
    #[error("invalid name {name:?}: {problem}")]
    BadName { name: String, problem: &'static str },
    #[error("invalid version {0:?}")]
    BadReference(String),
    #[error("the {} {name:?} is defined in the config and cannot be changed at runtime", kind.as_str())]
    InConfig { kind: DefinitionKind, name: String },
    #[error("the {} {name:?} has {}: {}", kind.as_str(), count(.problems, "mistake"), joined(.problems))]
    Invalid { kind: DefinitionKind, name: String, problems: Vec<SourceProblem> },
    #[error("the {} {name:?} asks for more than its maker may give, in {}: {}", kind.as_str(), count(.excess, "place"), joined(.excess))]
    Excess { kind: DefinitionKind, name: String, excess: Vec<Excess> },
    #[error("{name} cannot be defined or used: {reason}")]
    Powerless { name: String, reason: Powerless },
    #[error("the source has {0} bytes; the limit is {MOST_SOURCE_BYTES}")]
    TooLarge(usize),
    #[error("{0}")]
    Refused(Refusal),
    #[error("{0:?} has no active version; name one")]
    NoVersion(String),
    #[error("{0}")]
    Change(ChangeError),
    #[error("{0}")]
    Store(StoreError),
    #[error("conflict: {0:?} kept changing during this update")]
    Busy(String),
    #[error("the stored record of {0} cannot be read")]
    Unreadable(String),
    #[error("{0}")]
    Channel(ChannelError),
}

fn count<T>(list: &[T], what: &str) -> String {
    let plural = if list.len() == 1 { "" } else { "s" };
    format!("{} {what}{plural}", list.len())
}

fn joined<T: ToString>(list: &[T]) -> String {
    list.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl Explain for DefinitionError {
    fn kind(&self) -> FailureKind {
        match self {
            Self::Unknown { .. } | Self::ConfigVersion { .. } | Self::Refused(Refusal::UnknownVersion(_)) => {
                FailureKind::NotFound
            }
            Self::BadName { .. } | Self::BadReference(_) | Self::Invalid { .. } => FailureKind::Invalid,
            Self::TooLarge(_) | Self::Refused(Refusal::TooManyVersions { .. }) => FailureKind::TooLarge,
            Self::Excess { .. } | Self::Powerless { .. } | Self::Refused(Refusal::NotOwner { .. }) => {
                FailureKind::Denied
            }
            Self::InConfig { .. } | Self::NoVersion(_) | Self::Refused(Refusal::Retired(_)) => FailureKind::Conflict,
            Self::Change(error) => error.kind(),
            Self::Store(error) => error.kind(),
            Self::Busy(_) => FailureKind::Unavailable,
            Self::Unreadable(_) => FailureKind::Bug,
            Self::Channel(error) => error.kind(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "unknown_definition",
            Self::BadName { .. } => "bad_name",
            Self::BadReference(_) => "bad_version",
            Self::InConfig { kind: DefinitionKind::Agent, .. } => "agent_yaml_immutable",
            Self::InConfig { kind: DefinitionKind::Channel, .. } => "channel_yaml_immutable",
            Self::InConfig { kind: DefinitionKind::Skill, .. } => "skill_yaml_immutable",
            Self::InConfig { kind: DefinitionKind::Volume, .. } => "volume_yaml_immutable",
            Self::Invalid { .. } => "invalid_definition",
            Self::Excess { .. } => "definition_exceeds_maker",
            Self::Powerless { .. } => "maker_without_power",
            Self::TooLarge(_) => "definition_too_large",
            Self::Refused(Refusal::UnknownVersion(_)) | Self::ConfigVersion { .. } => "unknown_version",
            Self::Refused(Refusal::Retired(_)) => "version_retired",
            Self::Refused(Refusal::TooManyVersions { .. }) => "too_many_versions",
            Self::Refused(Refusal::NotOwner { .. }) => "not_the_owner",
            Self::NoVersion(_) => "no_active_version",
            Self::Change(error) => error.code(),
            Self::Store(error) => error.code(),
            Self::Busy(_) => "definition_busy",
            Self::Unreadable(_) => "bug",
            Self::Channel(error) => error.code(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Unknown { hint, .. } => hint.clone(),
            Self::ConfigVersion { name, .. } => Some(format!("leave the version out: {name}")),
            Self::BadName { .. } => Some("use letters, digits, `_`, `.`, `-` and `/`, at most 128 bytes".into()),
            Self::BadReference(_) => Some("write NAME@VERSION, such as writer@2".into()),
            Self::InConfig { .. } => Some("fork it under another name, or edit the config".into()),
            Self::Invalid { .. } | Self::Excess { .. } => {
                Some("verify_definition reports every problem without writing anything".into())
            }
            Self::Powerless { .. } => Some("a caller who may give what it has can promote or create it".into()),
            Self::TooLarge(_) => Some("shorten the prompt or the files".into()),
            Self::Refused(Refusal::Retired(_)) => Some("promote another version, or take the retirement back".into()),
            Self::Refused(Refusal::TooManyVersions { .. }) => Some("use another name".into()),
            Self::Refused(Refusal::NotOwner { .. }) => Some("fork it under another name".into()),
            Self::Refused(Refusal::UnknownVersion(_)) => {
                Some("list_definitions with the name shows its versions".into())
            }
            Self::NoVersion(_) => Some("list_definitions with the name shows its versions".into()),
            Self::Change(ChangeError::OverQuota { .. }) => Some(format!(
                "raise definitions.max_versions or definitions.max_bytes in the config; a tenant has at most {MOST_DEFINED} channels"
            )),
            Self::Change(error) => error.hint(),
            Self::Store(error) => error.hint(),
            Self::Busy(_) => Some("try again".into()),
            Self::Unreadable(_) => None,
            Self::Channel(error) => error.hint(),
        }
    }
}

impl From<Refusal> for DefinitionError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<ChangeError> for DefinitionError {
    fn from(error: ChangeError) -> Self {
        Self::Change(error)
    }
}

impl From<ChannelError> for DefinitionError {
    fn from(error: ChannelError) -> Self {
        Self::Channel(error)
    }
}

impl From<StoreError> for DefinitionError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl DefinitionError {
    /// The hint for an agent, which has the tool `AgentDef` and no operations.
    fn tool_hint(&self) -> Option<String> {
        match self {
            Self::Invalid { .. } | Self::Excess { .. } => {
                Some("op=verify reports every problem without writing anything".into())
            }
            Self::Refused(Refusal::UnknownVersion(_)) | Self::NoVersion(_) => {
                Some("op=list with the name shows its versions".into())
            }
            _ => self.hint(),
        }
    }
}

impl From<DefinitionError> for ToolError {
    fn from(error: DefinitionError) -> Self {
        let hint = error.tool_hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
        let text = format!("{}: {error}{hint}", error.code());
        match error.kind() {
            FailureKind::Invalid => Self::Invalid(text),
            FailureKind::Denied => Self::Denied(text),
            _ => Self::Failed(text),
        }
    }
}
