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

impl Trees {
    /// Counts `more` runs in, unless the tree would have more than `most`; then says how many it has.
    pub(crate) fn grow(&self, root: RunId, more: usize, most: u32) -> Result<(), u64> {
        let mut trees = self.lock();
        let size = trees.entry(root).or_insert(1);
        let grown = size.saturating_add(more as u64);
        if grown > u64::from(most) {
            return Err(*size);
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
    /// Sees to it that the size of a tree is known.
    pub(crate) async fn open_tree(&self, tenant: &Tenant, root: RunId) {
        if self.trees.lock().contains_key(&root) {
            return;
        }
        let key = RunKey { tenant: tenant.clone(), run: root };
        let size = self.read(|| self.parts.reader.tree_size(&key)).await;
        // A tree that cannot be counted does not grow.
        self.trees.lock().entry(root).or_insert(size.unwrap_or(u64::MAX));
    }
}
