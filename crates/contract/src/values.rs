//! The key-value seam: small durable values with revisions, compared and swapped, listed and watched.

use std::borrow::Cow;

use async_trait::async_trait;
use futures::stream::BoxStream;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    failure::{Explain, FailureKind},
    ids::{RunId, Tenant},
    journal::StoreError,
    once::{Applied, Once},
    redact::Redacted,
    time::Timestamp,
};

pub const MOST_VALUE_BYTES: usize = 1024 * 1024;

/// The spaces of memory and of artifacts. What their owner `run/ID` has goes when the tree of that root is pruned.
pub const MEMORY: Space = Space::of("memory");
pub const ARTIFACTS: Space = Space::of("artifacts");
/// Questions of goals to people, what was said to goals, and which goal goes on from which.
pub const GOALS: Space = Space::of("goals");
/// The space of evaluations. What its owner `run/ID` has goes when that run is pruned.
pub const EVALUATIONS: Space = Space::of("evaluations");

/// What kind of thing a log or a value is: names of two spaces never meet.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Space(Cow<'static, str>);

impl Space {
    pub const fn of(name: &'static str) -> Self {
        Self(Cow::Borrowed(name))
    }

    pub fn named(name: String) -> Self {
        Self(Cow::Owned(name))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Where a value is. Values sort by tenant, owner and key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ValueKey {
    pub tenant: Tenant,
    pub space: Space,
    /// Whose quota it counts against.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub owner: String,
    pub key: String,
}

/// What must be there for a change to happen. A value whose time is over counts as absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    Anything,
    Absent,
    Revision(u64),
}

#[derive(Debug, Clone, PartialEq)]
pub struct ValueChange {
    pub key: ValueKey,
    pub expect: Expect,
    /// The new value; `None` removes what is there.
    pub to: Option<NewValue>,
    pub at: Timestamp,
}

impl ValueChange {
    /// Keeps a value until a time, whatever was there.
    pub fn put(key: ValueKey, value: Redacted<Value>, at: Timestamp, expires_at: Option<Timestamp>) -> Self {
        let to = Some(NewValue { value, expires_at, quota: None, searched: None });
        Self { key, expect: Expect::Anything, to, at }
    }

    pub fn remove(key: ValueKey, at: Timestamp) -> Self {
        Self { key, expect: Expect::Anything, to: None, at }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct NewValue {
    pub value: Redacted<Value>,
    /// From then on it counts as absent.
    pub expires_at: Option<Timestamp>,
    /// Refuses the change when the owner would have more than this.
    pub quota: Option<Quota>,
    /// JSON pointer to the part of the value that search finds, beside the key; absent when search does not find it.
    pub searched: Option<&'static str>,
}

/// Most that one owner may have in a space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    pub keys: u64,
    /// Of keys and values together.
    pub bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    pub value: Value,
    /// Increases with every change in the store; never used again, also after a removal.
    pub revision: u64,
    pub at: Timestamp,
    pub expires_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    pub space: Space,
    pub within: Within,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Within {
    Space,
    Tenant(Tenant),
    Owner { tenant: Tenant, owner: String, prefix: String },
}

impl Range {
    pub fn contains(&self, key: &ValueKey) -> bool {
        key.space == self.space
            && match &self.within {
                Within::Space => true,
                Within::Tenant(tenant) => key.tenant == *tenant,
                Within::Owner { tenant, owner, prefix } => {
                    key.tenant == *tenant && key.owner == *owner && key.key.starts_with(prefix)
                }
            }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchFrom {
    /// With every value that is there, then `CaughtUp`, then changes.
    Start,
    Now,
}

/// A value that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Present {
    pub expires_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// The key has a value with this revision now, or none any more. Changes of one key come in order; some may be left out when a
    /// later one follows. A value whose time is over is not told of: compare `expires_at`. The value itself is not told: who wants
    /// it reads it, so that what waits for a slow watcher is small.
    Is { key: ValueKey, revision: u64, present: Option<Present> },
    /// What was there at the beginning has been told.
    CaughtUp,
    /// Something was missed: read what matters again.
    Gap,
}

/// Why a change of values or logs was not made. Nothing of it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    #[error("{key:?} has changed: found {}", found_revision(*.found))]
    Stale { key: String, found: Option<u64> },
    #[error("quota exceeded: {owner:?} would have {keys} keys and {bytes} bytes; the limit is {} keys and {} bytes", quota.keys, quota.bytes)]
    OverQuota { owner: String, keys: u64, bytes: u64, quota: Quota },
    #[error("{key:?} has {bytes} bytes; the limit is {most}")]
    TooLarge { key: String, bytes: usize, most: usize },
    #[error("run {0} has ended and cannot change anything")]
    RunEnded(RunId),
    #[error("the idempotency key was already used for a different request")]
    KeyReused,
    #[error(
        "this request was carried out before, so nothing was changed now; its answer of {bytes} bytes is not stored"
    )]
    AnswerLeftOut { bytes: usize },
    #[error("{0}")]
    Store(StoreError),
}

fn found_revision(found: Option<u64>) -> String {
    found.map_or_else(|| "no value".into(), |revision| format!("revision {revision}"))
}

impl Explain for ChangeError {
    fn kind(&self) -> FailureKind {
        match self {
            Self::Stale { .. } | Self::RunEnded(_) | Self::KeyReused | Self::AnswerLeftOut { .. } => {
                FailureKind::Conflict
            }
            Self::OverQuota { .. } | Self::TooLarge { .. } => FailureKind::TooLarge,
            Self::Store(error) => error.kind(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Stale { .. } => "stale",
            Self::OverQuota { .. } => "over_quota",
            Self::TooLarge { .. } => "value_too_large",
            Self::RunEnded(_) => "run_ended",
            Self::KeyReused => "idempotency_key_reused",
            Self::AnswerLeftOut { .. } => "answer_not_stored",
            Self::Store(error) => error.code(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Stale { .. } => Some("read it again and retry".into()),
            Self::OverQuota { .. } => Some("delete some keys, or store less".into()),
            Self::TooLarge { .. } => Some("split it, or store a reference to it".into()),
            Self::KeyReused => Some("use a new idempotency_key for a new request".into()),
            Self::AnswerLeftOut { .. } => Some(
                "do not send it with another key; read what it made with the operation that gets or lists it".into(),
            ),
            Self::Store(error) => error.hint(),
            Self::RunEnded(_) => None,
        }
    }
}

/// Keeps values. A change is durable when it returns; reads see every change that returned before they began.
#[async_trait]
pub trait KeyValue: Send + Sync {
    /// Makes all changes true, or none. Returns a revision for each; 0 for the removal of what was not there. With a key that
    /// was used before, nothing changes and the first result is returned.
    async fn change(&self, changes: Vec<ValueChange>, once: Option<Once>) -> Result<Applied<Vec<u64>>, ChangeError>;

    /// The value, unless its time is over at `now`.
    async fn find_value(&self, key: &ValueKey, now: Timestamp) -> Result<Option<Kept>, StoreError>;

    /// Values in order, after a key, at most `limit`; without those whose time is over at `now`.
    async fn list_values(
        &self,
        range: &Range,
        after: Option<&ValueKey>,
        limit: u32,
        now: Timestamp,
    ) -> Result<Vec<(ValueKey, Kept)>, StoreError>;

    /// Tells of changes from the moment of this call on (not of the first poll), each after it is durable.
    fn watch(&self, range: &Range, from: WatchFrom) -> BoxStream<'static, Seen>;
}
