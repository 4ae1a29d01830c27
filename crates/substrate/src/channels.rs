//! Channels: messages in order, over the store's logs and values.
//!
//! The rules are pure (`rules.rs`, `group.rs`). A read looks at the log after a cursor, then one change moves the cursor and stores the
//! messages as the answer of the call or request: made again, it gets the same messages. Two readers that meet are told apart by
//! compare-and-swap. A waiting reader registers (`hub.rs`, or the engine's waits), looks, then waits, so that no wake-up is lost.

mod config;
mod contents;
mod deferred;
mod deleted;
mod error;
mod group;
mod groups;
mod hub;
mod limits;
mod lint;
mod place;
mod publish;
mod read;
mod readers;
mod removing;
pub mod rules;
mod stored;
mod sweep;
mod table;
mod tool;

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex, atomic::AtomicU64},
};

use async_trait::async_trait;
use drawloom_contract::{
    ids::{Digest, Tenant},
    journal::StoreError,
    log::{Log, LogKey},
    once::{Applied, Made, Once, RequestKey},
    redact::Redactor,
    time::{Clock, Entropy, Instant, Timestamp},
    values::{ChangeError, Expect, KeyValue, Space, ValueChange, ValueKey},
};
use serde_json::Value;
use tokio::sync::MutexGuard;

pub use config::{ChannelConfig, MOST_MESSAGES, problems};
pub use contents::Counted;
pub use drawloom_contract::channel::{AwaitMode, ChannelScope, Semantic};
pub use error::ChannelError;
pub use group::{Lease, MOST_IN_FLIGHT, Settle};
pub use hub::Listener;
pub use limits::LIMITS;
pub use place::{ChannelOwner, Place, RESERVED};
pub use publish::Publish;
pub use read::{Looked, Nothing, Page, Subscribe, Taken};
pub use readers::{ChannelReader, Unread, Who};
pub use removing::Removable;
pub use table::{Channel, Source};
pub use tool::{TOOL, check_names};

pub(crate) use deleted::Deletion;
pub(crate) use lint::findings;
pub(crate) use place::check_name;
pub(crate) use table::ChannelTable;
pub(crate) use tool::{PUBLISH_GATE, SUBSCRIBE_GATE};

use crate::definitions::Layers;
pub use crate::memory::By;
use hub::Hub;

/// Maximum bytes of a message's value, as JSON.
pub const MOST_VALUE_BYTES: usize = 64 * 1024;

/// Maximum channels of one `await` or `broadcast`.
pub const MOST_CHANNELS: usize = 32;

/// How many messages a read returns, unless it says otherwise, and at most.
pub const USUAL_PAGE: u32 = 10;
pub const MOST_PAGE: u32 = 100;

/// Maximum messages of one channel and owner that wait for their time.
pub const MOST_DEFERRED: u64 = 10_000;

/// Maximum bytes of the messages of one channel and owner that wait for their time.
pub const MAX_DEFERRED_BYTES: u64 = 32 * 1024 * 1024;

/// Maximum channels of a tenant that are made at runtime.
pub const MOST_DEFINED: u64 = 1_000;

/// Maximum cursors and groups of one channel and owner.
pub const MOST_CONSUMERS: u64 = 10_000;

/// How often a change is tried again when others were first.
const TRIES: u32 = 32;

/// Locks of cursors. Two that share one only wait for each other.
const LOCKS: usize = 256;

/// What the store knows about its logs beside what [`Log`] tells.
#[async_trait]
pub trait Backlog: Send + Sync {
    /// Logs of a space by tenant and name, after one, at most `limit`; only those of a tenant, and whose name begins with `prefix`, if
    /// they are given.
    async fn list_logs(&self, asked: &LogsAsked) -> Result<Vec<LogState>, StoreError>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogsAsked {
    pub space: Space,
    /// The tenant, and what the names begin with; all logs of the space, if absent.
    pub within: Option<(Tenant, String)>,
    pub after: Option<(Tenant, String)>,
    pub limit: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogState {
    pub log: LogKey,
    pub head: u64,
    /// Messages that it has.
    pub kept: u64,
}

/// What channels are made of.
pub struct ChannelParts {
    /// Which channels each tenant has.
    pub layers: Arc<Layers>,
    pub logs: Arc<dyn Log>,
    pub values: Arc<dyn KeyValue>,
    pub backlog: Arc<dyn Backlog>,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    pub redactor: Arc<Redactor>,
}

pub struct Channels {
    parts: ChannelParts,
    hub: Hub,
    /// When this process first saw each lease.
    leases: Mutex<HashMap<ValueKey, HashMap<Lease, Instant>>>,
    locks: Vec<tokio::sync::Mutex<()>>,
    /// What was read of each queue, and since when this process knows it.
    read_marks: Mutex<readers::ReadMarks>,
    /// Messages of requests without a key.
    published: AtomicU64,
}

impl Channels {
    pub fn new(parts: ChannelParts) -> Arc<Self> {
        Arc::new(Self {
            hub: Hub::default(),
            leases: Mutex::default(),
            read_marks: Mutex::default(),
            published: AtomicU64::new(0),
            locks: (0..LOCKS).map(|_| tokio::sync::Mutex::default()).collect(),
            parts,
        })
    }

    /// The key of a change, with the answer of a repeat. `index` tells the changes of one call or request apart.
    fn once(&self, answer: &Value, by: &By<'_>, index: u32, now: Timestamp) -> Option<Once> {
        match by {
            By::Call(context) => Some(context.once(index, answer.clone())),
            By::Request { key, .. } => {
                let made = Made::Answer { answer: self.parts.redactor.clean(answer.clone()), at: now };
                Some(Once::Request { key: indexed(key.clone()?, index), made })
            }
        }
    }

    /// What was answered before under the same key. It asks for a change that never happens: a used key is looked at first.
    async fn first_answer(
        &self,
        key: ValueKey,
        by: &By<'_>,
        index: u32,
        now: Timestamp,
    ) -> Result<Option<Value>, ChannelError> {
        let Some(once) = self.once(&Value::Null, by, index, now) else { return Ok(None) };
        let never = ValueChange { key, expect: Expect::Revision(u64::MAX), to: None, at: now };
        match self.parts.values.change(vec![never], Some(once)).await {
            Ok(Applied { answer, .. }) => Ok(Some(answer)),
            Err(ChangeError::Stale { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// A key of this process's own, for a change that it may have to make again after a crash.
    fn own_key(tenant: &Tenant, operation: &'static str, name: &str, now: Timestamp, redactor: &Redactor) -> Once {
        let key = RequestKey {
            tenant: tenant.clone(),
            subject: drawloom_contract::ids::UserId::default_user(),
            operation,
            key: Digest::of(name.as_bytes()),
            body: Digest::of(b""),
        };
        Once::Request { key, made: Made::Answer { answer: redactor.clean(Value::Null), at: now } }
    }

    /// Keeps readers of this process from trying at the same time what only one can do.
    pub(crate) async fn lock(&self, key: &ValueKey) -> MutexGuard<'_, ()> {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        self.locks[(hasher.finish() % LOCKS as u64) as usize].lock().await
    }
}

/// The key of one of several changes of a request.
fn indexed(key: RequestKey, index: u32) -> RequestKey {
    match index {
        0 => key,
        _ => RequestKey { key: Digest::of(&[&key.key.as_bytes()[..], &index.to_be_bytes()].concat()), ..key },
    }
}

#[cfg(test)]
mod tests;
