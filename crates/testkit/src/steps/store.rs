//! The store of an instance, for tools that are made before it is open.

use std::sync::{Arc, OnceLock};

use drawloom_contract::{
    ids::Tenant,
    log::{Log, LogKey},
    time::Clock,
    values::{KeyValue, Space, ValueKey},
};

/// The space of everything that the tools of scripts change.
pub const SPACE: Space = Space::of("steps");

/// What the tools of scripts use.
pub struct StoreHandles {
    pub values: Arc<dyn KeyValue>,
    pub logs: Arc<dyn Log>,
    pub clock: Arc<dyn Clock>,
}

/// Handles that are set when the store is open.
#[derive(Default)]
pub struct LateStore(OnceLock<StoreHandles>);

impl LateStore {
    /// Sets the handles; a second call changes nothing.
    pub fn set(&self, handles: StoreHandles) {
        let _ = self.0.set(handles);
    }

    pub(super) fn get(&self) -> &StoreHandles {
        self.0.get().expect("calls are made after the store was opened")
    }
}

pub(super) fn value(name: &str) -> ValueKey {
    ValueKey { tenant: Tenant::default_tenant(), space: SPACE, owner: String::new(), key: name.into() }
}

pub(super) fn log(name: &str) -> LogKey {
    LogKey { tenant: Tenant::default_tenant(), space: SPACE, name: name.into() }
}
