//! Which definition a `def_id` names, and what it was made from.

use std::sync::Arc;

use drawloom_contract::{
    definition::Definitions,
    ids::{Digest, Tenant},
};

/// Versions of definitions, as evaluations need them. Nothing here waits.
pub trait Lineage: Send + Sync {
    /// The definition that a name stands for: an agent's name for its current one, or `name@version`.
    fn find_named(&self, tenant: &Tenant, name: &str) -> Option<Digest>;

    /// The name of a version, such as `name@3`, if the definition is one.
    fn version(&self, tenant: &Tenant, definition: &Digest) -> Option<String>;

    /// The definitions that this one was made from, nearest first.
    fn parents(&self, tenant: &Tenant, definition: &Digest) -> Vec<Digest>;
}

/// Definitions of the config: they have names, but neither versions nor parents.
pub struct WithoutVersions(pub Arc<dyn Definitions>);

impl Lineage for WithoutVersions {
    fn find_named(&self, tenant: &Tenant, name: &str) -> Option<Digest> {
        self.0.find(tenant, &name.parse().ok()?).map(|definition| definition.digest())
    }

    fn version(&self, _: &Tenant, _: &Digest) -> Option<String> {
        None
    }

    fn parents(&self, _: &Tenant, _: &Digest) -> Vec<Digest> {
        Vec::new()
    }
}
