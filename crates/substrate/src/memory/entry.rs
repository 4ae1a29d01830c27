//! A value of memory as it is kept: the value itself, who wrote it, and what it replaced.

use drawloom_contract::{
    ids::{AgentName, Digest, RunId, UserId},
    journal::StoreError,
    record::Seq,
    time::Timestamp,
    values::Kept,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Who wrote an entry: the call of a run's agent, or a user by an operation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Writer {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentName>,
    /// The sequence of the call's record in the run's journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<Seq>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<UserId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
}

/// What an entry replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replaced {
    pub revision: u64,
    /// Of the value as JSON, with its fields in order.
    pub digest: Digest,
}

impl Replaced {
    pub(crate) fn of(entry: &Entry) -> Self {
        Self { revision: entry.revision, digest: digest(&entry.value) }
    }
}

/// An entry as readers see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub key: String,
    pub value: Value,
    pub revision: u64,
    pub written_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub writer: Writer,
    pub replaced: Option<Replaced>,
}

/// An entry as the store has it.
#[derive(Serialize, Deserialize)]
struct Stored {
    value: Value,
    by: Writer,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    replaced: Option<Replaced>,
}

/// The place of the value itself in what is stored.
pub(crate) const VALUE: &str = "/value";

pub(crate) fn stored(value: Value, by: Writer, replaced: Option<Replaced>) -> Value {
    serde_json::to_value(Stored { value, by, replaced }).expect("an entry has only text keys")
}

impl Entry {
    pub(crate) fn read(key: String, kept: Kept) -> Result<Self, StoreError> {
        let Kept { value, revision, at, expires_at } = kept;
        let Stored { value, by, replaced } = serde_json::from_value(value).map_err(|error| StoreError::Failed {
            store: "memory".into(),
            detail: format!("the entry {key:?} has an unknown format: {error}"),
        })?;
        Ok(Self { key, value, revision, written_at: at, expires_at, writer: by, replaced })
    }
}

pub(crate) fn digest(value: &Value) -> Digest {
    Digest::of(value.to_string().as_bytes())
}
