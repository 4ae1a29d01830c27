//! How long what has ended is kept: the seam to its removal.

use async_trait::async_trait;

use crate::{
    ids::{RunId, RunKey, Tenant},
    journal::StoreError,
    time::Timestamp,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prune {
    /// Only of this tenant; of all, when absent.
    pub tenant: Option<Tenant>,
    pub ended_before: Timestamp,
    /// Roots that stay whatever their age: goals that have more than their rows in the store.
    pub keep: std::collections::BTreeSet<RunId>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pruned {
    pub trees: u64,
    pub runs: u64,
    pub records: u64,
    /// Large values that nothing else referred to; not counted ahead.
    pub blobs: u64,
}

/// Maximum top-level runs that are named before they are removed.
pub const MAX_NAMED: usize = 50;

/// Removes what ended long ago.
///
/// A tree goes whole or not at all, and only when every run of it has ended, its root before the cutoff. It stays as long
/// as another run of a session or batch of it is unfinished or ended later: conversations and batches are never shown
/// with a part missing. With a run go its journal, its waits, the request keys that made it, and large values that
/// nothing else refers to; with the last run of a session or batch, that too.
#[async_trait]
pub trait Retention: Send + Sync {
    /// What `prune` would remove now, and the first of the top-level runs, at most [`MAX_NAMED`]. Nothing is removed.
    async fn find_prunable(&self, prune: &Prune) -> Result<(Pruned, Vec<RunKey>), StoreError>;

    /// Removes it, in many short transactions between those of runs. A run is gone for readers from the first one that
    /// concerns it. When the future is dropped or the process ends, the rest goes with the next call.
    async fn prune(&self, prune: &Prune) -> Result<Pruned, StoreError>;

    /// Removes the trees of these roots whole, whatever their age and whatever shares a session or batch with them. `None` and nothing
    /// is removed when a run of them has not ended.
    async fn remove_trees(&self, roots: &[RunKey]) -> Result<Option<Pruned>, StoreError>;

    /// Removes values of all spaces whose time is over at `now`, which no reader sees any more. Says how many.
    async fn remove_expired(&self, now: Timestamp) -> Result<u64, StoreError>;
}
