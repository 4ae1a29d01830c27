//! What keys held after the last changes of this process, so that the next change of a key need not read it first. Nothing relies on
//! it: a write that is based on it is a compare-and-swap, and a refusal that is based on it is decided again from the store.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use drawloom_contract::{time::Timestamp, values::ValueKey};

use super::rules::{Current, json_bytes};

/// How many keys are remembered; when there are more, it starts again.
const MOST_KEYS: usize = 8_192;

/// Larger values are not remembered.
const MOST_BYTES: u64 = 1_024;

#[derive(Default)]
pub(super) struct Recent(Mutex<HashMap<ValueKey, Arc<Current>>>);

impl Recent {
    fn lock(&self) -> MutexGuard<'_, HashMap<ValueKey, Arc<Current>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn find(&self, key: &ValueKey, now: Timestamp) -> Option<Arc<Current>> {
        self.lock().get(key).filter(|current| current.expires_at.is_none_or(|time| time > now)).cloned()
    }

    pub(super) fn keep(&self, key: ValueKey, current: Current) {
        if json_bytes(&current.value) <= MOST_BYTES {
            let mut recent = self.lock();
            if recent.len() >= MOST_KEYS {
                recent.clear();
            }
            recent.insert(key, Arc::new(current));
        }
    }

    pub(super) fn forget(&self, key: &ValueKey) {
        self.lock().remove(key);
    }
}
