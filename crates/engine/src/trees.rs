//! How many runs each tree has, for the limit on them.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use drawloom_contract::ids::{RunId, RunKey, Tenant};

use crate::Engine;

/// Runs by the root of their tree, for trees that spawned in this process.
#[derive(Default)]
pub(crate) struct Trees(Mutex<HashMap<RunId, u64>>);

/// Why a tree does not grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoGrowth {
    /// It has this many runs already.
    Full { size: u64 },
    /// How many runs it has could not be read, or its root has ended.
    NotCounted,
}

impl Trees {
    /// Counts `more` runs in, unless the tree would have more than `most`.
    pub(crate) fn grow(&self, root: RunId, more: usize, most: u32) -> Result<(), NoGrowth> {
        let mut trees = self.lock();
        let size = trees.get_mut(&root).ok_or(NoGrowth::NotCounted)?;
        let grown = size.saturating_add(more as u64);
        if grown > u64::from(most) {
            return Err(NoGrowth::Full { size: *size });
        }
        *size = grown;
        Ok(())
    }

    /// Forgets a tree whose root has ended.
    pub(crate) fn close(&self, root: RunId) {
        self.lock().remove(&root);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RunId, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// Counts a tree that is not known yet. One that cannot be read stays unknown, so that the next call reads it again.
    pub(crate) async fn open_tree(&self, tenant: &Tenant, root: RunId) {
        if self.trees.lock().contains_key(&root) {
            return;
        }
        let key = RunKey { tenant: tenant.clone(), run: root };
        if let Some(size) = self.read(|| self.parts.reader.tree_size(&key)).await {
            self.trees.lock().entry(root).or_insert(size);
        }
    }
}
