//! A value of memory as it is kept: the value itself, who wrote it, and what it replaced.

use drawloom_contract::{
    ids::{AgentName, Digest, RunId, UserId},
    journal::StoreError,
    record::Seq,
    time::Timestamp,
    values::Kept,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::rules::Current;

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
    pub(crate) fn of(current: &Current) -> Self {
        Self { revision: current.revision, digest: digest(&current.value) }
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
#[derive(Deserialize)]
struct Stored {
    value: Value,
    by: Writer,
    #[serde(default)]
    replaced: Option<Replaced>,
}

/// The place of the value itself in what is stored.
pub(crate) const VALUE: &str = "/value";

/// As [`Stored`] is read; a test compares them.
pub(crate) fn stored(value: Value, by: &Writer, replaced: Option<&Replaced>) -> Value {
    let plain = |part: serde_json::Result<Value>| part.expect("an entry has only text keys");
    let mut fields = Map::new();
    fields.insert("value".into(), value);
    fields.insert("by".into(), plain(serde_json::to_value(by)));
    if let Some(replaced) = replaced {
        fields.insert("replaced".into(), plain(serde_json::to_value(replaced)));
    }
    Value::Object(fields)
}

/// The value itself in what [`stored`] made.
pub(crate) fn value_of(stored: &Value) -> Option<&Value> {
    stored.pointer(VALUE)
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_stored_is_what_is_read() {
        let by = Writer { operation: Some("set_memory".into()), call: Some(7), ..Writer::default() };
        for replaced in [None, Some(Replaced { revision: 3, digest: digest(&json!("old")) })] {
            let value = stored(json!({ "a": [1] }), &by, replaced.as_ref());
            assert_eq!(value_of(&value), Some(&json!({ "a": [1] })));
            let at = Timestamp::from_millis(5);
            let read =
                Entry::read("k".into(), Kept { value, revision: 4, at, expires_at: None }).expect("its own form");
            assert_eq!((read.value, read.writer, read.replaced), (json!({ "a": [1] }), by.clone(), replaced));
        }
    }
}
