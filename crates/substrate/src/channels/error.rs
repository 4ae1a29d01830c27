//! Why a channel could not do what was asked.

use drawloom_contract::{
    failure::{Explain, FailureKind},
    ids::UserId,
    journal::StoreError,
    time::NoEntropy,
    tool::ToolError,
    values::ChangeError,
};

use super::{MOST_CHANNELS, rules};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChannelError {
    #[error("unknown channel {name:?}")]
    NotDeclared { name: String, hint: String },
    #[error("invalid {what} name {name:?}: {problem}")]
    BadName { what: &'static str, name: String, problem: &'static str },
    #[error("{field} must be {least} to {most}, not {value}")]
    OutOfRange { field: &'static str, value: u64, least: u64, most: u64 },
    #[error("{field} has {value} characters; the limit is {most}")]
    TooLong { field: &'static str, value: u64, most: u64 },
    #[error("{0}")]
    Scope(String),
    #[error("{0}")]
    Refused(rules::Refusal),
    #[error("channel {0:?} comes from the config file and cannot be changed at runtime")]
    Immutable(String),
    #[error("{what} would remove messages of other users from channel {name:?}; the token belongs to {own}")]
    OthersMessages { name: String, what: String, own: UserId },
    #[error("channel {0:?} already exists")]
    NameInUse(String),
    #[error("channel {0:?} already exists in the config file")]
    NameInConfig(String),
    #[error("the value has {bytes} bytes; the limit is {most}")]
    TooLarge { bytes: usize, most: usize },
    #[error("{0} channels were named; the limit is {MOST_CHANNELS}")]
    TooMany(usize),
    #[error("channel {0:?} was named twice")]
    Twice(String),
    #[error("{0}")]
    BadFields(String),
    #[error("channel {channel:?} has no consumer group {group:?}")]
    UnknownGroup { channel: String, group: String },
    /// Every lease was lost: the messages were settled, or went to another member.
    #[error("lost leases: {}; their time was over and the messages went to others, or they were settled before", .0.join(", "))]
    LeaseLost(Vec<String>),
    #[error("conflict: channel {0:?} kept changing during this update")]
    Busy(String),
    #[error("{0}")]
    Entropy(NoEntropy),
    #[error("{0}")]
    Change(ChangeError),
    #[error("{0}")]
    Store(StoreError),
}

impl Explain for ChannelError {
    fn kind(&self) -> FailureKind {
        match self {
            Self::NotDeclared { .. } | Self::UnknownGroup { .. } => FailureKind::NotFound,
            Self::BadName { .. }
            | Self::OutOfRange { .. }
            | Self::TooLong { .. }
            | Self::Scope(_)
            | Self::TooMany(_)
            | Self::Twice(_)
            | Self::BadFields(_) => FailureKind::Invalid,
            Self::Refused(refusal) => refusal.kind(),
            Self::Immutable(_) | Self::NameInUse(_) | Self::NameInConfig(_) | Self::LeaseLost(_) => {
                FailureKind::Conflict
            }
            Self::OthersMessages { .. } => FailureKind::Denied,
            Self::TooLarge { .. } => FailureKind::TooLarge,
            Self::Busy(_) => FailureKind::Unavailable,
            Self::Entropy(error) => error.kind(),
            Self::Change(error) => error.kind(),
            Self::Store(error) => error.kind(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::NotDeclared { .. } => "channel_not_declared",
            Self::BadName { .. } => "channel_name_invalid",
            Self::OutOfRange { .. } | Self::TooLong { .. } => "channel_setting_invalid",
            Self::Scope(_) => "channel_scope_invalid",
            Self::Refused(refusal) => refusal.code(),
            Self::Immutable(_) => "channel_yaml_immutable",
            Self::NameInUse(_) | Self::NameInConfig(_) => "channel_name_in_use",
            Self::OthersMessages { .. } => "user_denied",
            Self::UnknownGroup { .. } => "channel_group_unknown",
            Self::TooLarge { .. } => "value_too_large",
            Self::TooMany(_) => "too_long",
            Self::Twice(_) => "repeated_channel",
            Self::BadFields(_) => "wrong_fields",
            Self::LeaseLost(_) => "channel_lease_lost",
            Self::Busy(_) => "channel_busy",
            Self::Entropy(error) => error.code(),
            Self::Change(error) => error.code(),
            Self::Store(error) => error.code(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::NotDeclared { hint, .. } => Some(hint.clone()),
            Self::Refused(refusal) => refusal.hint(),
            Self::OthersMessages { own, .. } => {
                Some(format!("purge_channel removes those of {own}; or use a token with the scope runs:read:all"))
            }
            Self::Immutable(_) => {
                Some("change the config file and restart the server; purge_channel works at any time".into())
            }
            Self::NameInUse(_) => {
                Some("use update_channel, create_definition for a new version, or another name".into())
            }
            Self::NameInConfig(_) => {
                Some("to change it, edit the config file and restart the server; or use another name".into())
            }
            Self::UnknownGroup { .. } => Some("pass the group whose subscribe returned these leases".into()),
            Self::TooLarge { .. } => Some("store it in memory or as an artifact, and publish its key".into()),
            Self::TooMany(_) => Some("split them over several requests".into()),
            Self::Twice(_) => Some("name each channel once".into()),
            Self::LeaseLost(_) => {
                Some("do not repeat the work of these messages; subscribe again for further ones".into())
            }
            Self::Busy(_) => Some("try again".into()),
            Self::Entropy(error) => error.hint(),
            Self::Change(ChangeError::OverQuota { .. }) => Some(
                "this channel has too many deferred messages (or too many bytes of them), consumers or groups, or this tenant too many channels"
                    .into(),
            ),
            Self::Change(error) => error.hint(),
            Self::Store(error) => error.hint(),
            Self::BadName { .. }
            | Self::OutOfRange { .. }
            | Self::TooLong { .. }
            | Self::Scope(_)
            | Self::BadFields(_) => None,
        }
    }
}

impl From<rules::Refusal> for ChannelError {
    fn from(refusal: rules::Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<ChangeError> for ChannelError {
    fn from(error: ChangeError) -> Self {
        Self::Change(error)
    }
}

impl From<StoreError> for ChannelError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<NoEntropy> for ChannelError {
    fn from(error: NoEntropy) -> Self {
        Self::Entropy(error)
    }
}

impl From<ChannelError> for ToolError {
    fn from(error: ChannelError) -> Self {
        let hint = error.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
        let text = format!("{}: {error}{hint}", error.code());
        match error.kind() {
            FailureKind::Invalid => Self::Invalid(text),
            FailureKind::Denied => Self::Denied(text),
            _ => Self::Failed(text),
        }
    }
}
