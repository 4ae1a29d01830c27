//! The key-value seam: small durable values under a key, each until its time is over.

use async_trait::async_trait;
use serde_json::Value;

use crate::{
    ids::Tenant,
    journal::{CommitError, StoreError},
    redact::Redacted,
    time::Timestamp,
};

/// Where a value is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ValueKey {
    /// Whose it is.
    pub tenant: Tenant,
    /// What kind of thing it is: keys of two spaces never meet.
    pub space: &'static str,
    /// Its name there.
    pub key: String,
}

/// A change of one value, as part of an entry.
#[derive(Debug, Clone, PartialEq)]
pub enum ValueChange {
    /// The key has this value from now on. What is over in its space goes with the same commit.
    Put {
        /// The key.
        key: ValueKey,
        /// The value.
        value: Redacted<Value>,
        /// Now.
        at: Timestamp,
        /// When it is over.
        expires_at: Timestamp,
    },
    /// The key has no value any more.
    Remove {
        /// The key.
        key: ValueKey,
    },
}

/// Keeps values. A write is durable when it returns; reads see every write that returned before they began.
#[async_trait]
pub trait KeyValue: Send + Sync {
    /// Makes a change true.
    async fn change(&self, change: ValueChange) -> Result<(), CommitError>;

    /// The value, unless it is over at `now`.
    async fn find_value(&self, key: &ValueKey, now: Timestamp) -> Result<Option<Value>, StoreError>;
}
