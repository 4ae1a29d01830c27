//! Which version a definition is, and what it was made from.

use std::sync::Arc;

use async_trait::async_trait;
use drawloom_contract::{
    definition::Definitions,
    ids::{AgentName, Digest, Tenant},
    journal::{RunReader, StoreError},
};

use crate::definitions::{DefinitionError, RuntimeDefinitions};

/// Versions of definitions, as evaluations need them. A version's name is `name@number`.
#[async_trait]
pub trait Lineage: Send + Sync {
    /// The definition that new runs of an agent pin, and its version if it was made at runtime.
    fn current(&self, tenant: &Tenant, name: &AgentName) -> Option<(Digest, Option<String>)>;

    /// The version of a definition that a run pinned, if it was made at runtime.
    async fn version(&self, tenant: &Tenant, definition: &Digest) -> Result<Option<String>, StoreError>;

    /// Whether there is such a version; `name@config` is one for each agent of the config.
    fn is_version(&self, tenant: &Tenant, version: &str) -> bool;

    /// What this version was made from.
    fn parent(&self, tenant: &Tenant, version: &str) -> Option<String>;

    /// The names of all agents, also of those without an active version.
    fn names(&self, tenant: &Tenant) -> Vec<String>;

    /// The versions that this one was made from, nearest first. `name@config` is an agent of the config.
    async fn parents(&self, tenant: &Tenant, version: &str) -> Result<Vec<String>, StoreError>;
}

/// The versions of agents that are defined at runtime. Agents of the config have neither versions nor parents.
pub struct Versions {
    pub definitions: Arc<dyn Definitions>,
    pub runtime: Arc<RuntimeDefinitions>,
    pub reader: Arc<dyn RunReader>,
}

fn named(name: &AgentName, version: Option<u32>) -> Option<String> {
    version.map(|version| format!("{name}@{version}"))
}

#[async_trait]
impl Lineage for Versions {
    fn current(&self, tenant: &Tenant, name: &AgentName) -> Option<(Digest, Option<String>)> {
        let found = self.definitions.find(tenant, name)?;
        Some((found.digest(), named(name, found.version)))
    }

    async fn version(&self, tenant: &Tenant, definition: &Digest) -> Result<Option<String>, StoreError> {
        let pinned = self.reader.find_definition(tenant, definition).await?;
        Ok(pinned.and_then(|pinned| named(&pinned.name, pinned.version)))
    }

    fn is_version(&self, tenant: &Tenant, version: &str) -> bool {
        self.runtime.knows(tenant, version)
    }

    fn parent(&self, tenant: &Tenant, version: &str) -> Option<String> {
        self.runtime.parent(tenant, version)
    }

    fn names(&self, tenant: &Tenant) -> Vec<String> {
        self.runtime.agent_names(tenant)
    }

    async fn parents(&self, tenant: &Tenant, version: &str) -> Result<Vec<String>, StoreError> {
        match self.runtime.lineage(&*self.reader, tenant, version).await {
            Ok(lineage) => Ok(lineage.map(|lineage| lineage.parents).unwrap_or_default()),
            Err(DefinitionError::Store(error)) => Err(error),
            // What is not a version has no parents.
            Err(_) => Ok(Vec::new()),
        }
    }
}
