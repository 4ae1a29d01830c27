//! The log seam: messages in order, appended once, read from any place.

use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    ids::Tenant,
    journal::StoreError,
    once::{Applied, Once},
    redact::Redacted,
    time::Timestamp,
    values::{ChangeError, Space},
};

pub const MOST_MESSAGE_BYTES: usize = 1024 * 1024;

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LogKey {
    pub tenant: Tenant,
    pub space: Space,
    pub name: String,
}

#[derive(Debug, Clone, PartialEq)]
pub enum LogChange {
    Append {
        log: LogKey,
        messages: Vec<NewMessage>,
        /// A message whose id is in the log after this sequence is not appended again.
        since: u64,
        /// Most messages that the log keeps: the oldest go in the same commit.
        keep: Option<u64>,
    },
    /// Removes messages up to this sequence, which is included. The head stays.
    Trim { log: LogKey, up_to: u64 },
}

impl LogChange {
    pub fn log(&self) -> &LogKey {
        match self {
            Self::Append { log, .. } | Self::Trim { log, .. } => log,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct NewMessage {
    pub id: String,
    pub at: Timestamp,
    pub body: Redacted<Value>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its place. Sequences increase, may have gaps, and are never used again, also after a trim.
    pub sequence: u64,
    pub id: String,
    pub at: Timestamp,
    pub body: Value,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    pub messages: Vec<Message>,
    /// The oldest message that is kept; one more than `head` when none is.
    pub first: u64,
    /// The newest sequence that was ever assigned; 0 before the first.
    pub head: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogChanged {
    /// The sequences of the messages, in the order given; of one that was there before, its old one.
    pub sequences: Vec<u64>,
    pub added: u64,
    pub head: u64,
    pub dropped: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tail {
    Grew {
        log: LogKey,
        head: u64,
    },
    /// Something was missed: ask for the head of every log that matters.
    Gap,
}

/// What an acknowledged append survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// A loss of power: it is synced to disk.
    Synced,
    /// The loss of some of this many machines.
    Replicated(u32),
    /// A loss of power, except for the last so long.
    Lazy(Duration),
    Unknown,
}

/// Keeps logs. A change is durable, as far as `durability` says, when it returns; reads see every change that returned before
/// they began.
#[async_trait]
pub trait Log: Send + Sync {
    /// Makes a change true. With a key that was used before, nothing changes and the first result is returned.
    async fn change_log(&self, change: LogChange, once: Option<Once>) -> Result<Applied<LogChanged>, ChangeError>;

    /// Messages after a sequence, in order, at most `limit`.
    async fn read_log(&self, log: &LogKey, after: u64, limit: u32) -> Result<Page, StoreError>;

    /// The newest sequence; 0 for a log without messages.
    async fn head(&self, log: &LogKey) -> Result<u64, StoreError>;

    /// Tells of appends to the logs of a space, in all tenants, from the moment of this call on (not of the first poll). Told
    /// after the append is durable, and before it returns or soon after.
    fn tail(&self, space: &Space) -> BoxStream<'static, Tail>;

    fn durability(&self) -> Durability;
}
