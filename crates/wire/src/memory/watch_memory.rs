//! `watch_memory`: changes of memory, as they happen.

use drawloom_contract::{
    definition::MemoryScope,
    ids::{AgentName, RunId, UserId},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    memory::{MemoryEntry, Named, Placed},
    request::{Changes, Request, Route},
    runs::MAX_WAIT_MS,
};

/// Watches changes of memory. As a stream of events it tells what is there (unless `after` is given), then every change; as JSON
/// it answers what changed after a revision, or waits for the next change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WatchMemory {
    /// Who shares the memory.
    pub scope: MemoryScope,
    /// The agent; required with the scope `agent`, and only used there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentName>,
    /// Any run of the tree; required with the scope `run`, and only used there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// The user, only with the scope `user`. Defaults to the caller; a principal's token allows no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<UserId>,
    /// Only keys that begin with this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512), regex(pattern = r"^[^\x00-\x1f\x7f]*$"))]
    pub prefix: Option<String>,
    /// Only changes after this revision; also the header `Last-Event-ID`. Deletions before the watch are not included; the
    /// event `gap` and the field `gap` report that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// JSON only: maximum wait for a change, in milliseconds. Defaults to no wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = MAX_WAIT_MS))]
    pub wait_ms: Option<u64>,
}

/// What changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryChanges {
    /// The changes, by revision.
    pub changes: Vec<MemoryChange>,
    /// `after` of the next request.
    pub next: u64,
    /// Whether changes may be missing, such as removals between two requests: then list what matters again.
    pub gap: bool,
    /// Whether there are more changes after `next` already.
    pub truncated: bool,
    /// What the caller should know, such as a secret that was masked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A key that was written or removed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryChange {
    /// The key.
    pub key: String,
    /// The revision of the change.
    pub revision: u64,
    /// Whether the key was removed.
    pub removed: bool,
    /// The entry, unless the key was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<MemoryEntry>,
}

impl Request for WatchMemory {
    const NAME: &'static str = "watch_memory";
    const ROUTES: &'static [Route] = &[Route::get("/v1/memory/{scope}/watch")];
    const CHANGES: Changes = Changes::Nothing;
    type Output = MemoryChanges;
}

impl Placed for WatchMemory {
    fn named(&self) -> Named {
        Named::new(self.scope, &self.agent, &self.run_id, &self.user_id)
    }
}
