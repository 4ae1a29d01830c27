//! Definitions as runs pin them: redacted, named by content, with the tools that they come to today.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use drawloom_contract::{
    definition::Definition,
    ids::{AgentName, Digest, RunKey, Tenant},
    redact::{Redacted, Redactor},
    tool::{Gates, ToolCard},
};

use crate::{Engine, toolbox::Toolbox};

/// Most definitions that are kept in memory beside those that runs in memory use.
pub(crate) const MOST_PINNED: usize = 1_024;

/// A definition that runs keep.
pub(crate) struct Pinned {
    pub(crate) definition: Redacted<Arc<Definition>>,
    pub(crate) digest: Digest,
    /// The tools that the operator and the definition allow, by name.
    pub(crate) tools: Vec<String>,
    pub(crate) cards: Arc<[ToolCard]>,
    /// The state of the toolbox that both come from.
    pub(crate) generation: u64,
}

impl Pinned {
    fn new(digest: Digest, definition: Redacted<Arc<Definition>>, toolbox: &Toolbox) -> Arc<Self> {
        // Read first: should the toolbox change meanwhile, this counts as old.
        let generation = toolbox.generation();
        let tools = toolbox.allowed(&definition.tools);
        let gates = Gates { definition: &definition, hosts: &definition.hosts };
        Arc::new(Self { digest, cards: toolbox.cards(&tools, gates), tools, generation, definition })
    }
}

/// Pinned definitions, made once for each content.
#[derive(Default)]
pub(crate) struct Pins {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    by_name: HashMap<(Tenant, AgentName), (Arc<Definition>, Arc<Pinned>)>,
    by_digest: HashMap<Digest, Arc<Pinned>>,
}

impl Pins {
    /// `definition`, pinned.
    pub(crate) fn pin(
        &self,
        tenant: &Tenant,
        definition: &Arc<Definition>,
        redactor: &Redactor,
        toolbox: &Toolbox,
    ) -> Arc<Pinned> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let name = (tenant.clone(), definition.name.clone());
        if let Some((source, pinned)) = known.by_name.get(&name)
            && Arc::ptr_eq(source, definition)
            && pinned.generation == toolbox.generation()
        {
            return pinned.clone();
        }
        let cleaned = redactor.clean(definition.clone());
        let pinned = Pinned::new(cleaned.digest(), cleaned, toolbox);
        known.make_room();
        known.by_name.insert(name, (definition.clone(), pinned.clone()));
        known.by_digest.insert(pinned.digest, pinned.clone());
        pinned
    }

    pub(crate) fn find(&self, digest: &Digest) -> Option<Arc<Pinned>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).by_digest.get(digest).cloned()
    }

    /// A definition that was read from the store under `digest`.
    pub(crate) fn remember(
        &self,
        digest: Digest,
        definition: Arc<Definition>,
        redactor: &Redactor,
        toolbox: &Toolbox,
    ) -> Arc<Pinned> {
        let cleaned = redactor.clean(definition);
        let pinned = Pinned::new(digest, cleaned, toolbox);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.make_room();
        known.by_digest.insert(digest, pinned.clone());
        pinned
    }
}

impl Known {
    /// Forgets what no run in memory uses, when there is too much: definitions that are made at runtime have no end. What is
    /// needed again comes from the catalog or the store.
    fn make_room(&mut self) {
        if self.by_name.len().max(self.by_digest.len()) < MOST_PINNED {
            return;
        }
        self.by_name.clear();
        self.by_digest.retain(|_, pinned| Arc::strong_count(pinned) > 1);
    }
}

impl Engine {
    /// The definition that a run was accepted with.
    pub(crate) async fn load_pinned(&self, key: &RunKey, digest: &Digest) -> Option<Arc<Pinned>> {
        if let Some(pinned) = self.pins.find(digest) {
            return Some(pinned);
        }
        let found = self.read(|| self.parts.reader.find_definition(&key.tenant, digest)).await;
        let Some(Some(definition)) = found else {
            tracing::error!(run = %key.run, %digest, "the run's pinned agent definition is missing");
            return None;
        };
        Some(self.pins.remember(*digest, Arc::new(definition), &self.parts.redactor, &self.toolbox))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_that_no_run_uses_are_forgotten_when_there_are_too_many() {
        let (pins, redactor) = (Pins::default(), Redactor::new([""; 0]));
        let toolbox = Toolbox::new(&[], &[]);
        let tenant = Tenant::default_tenant();
        let used = pins.pin(&tenant, &Arc::new(drawloom_testkit::definition("used", "p", "m")), &redactor, &toolbox);
        for number in 0..3 * MOST_PINNED {
            let definition = drawloom_testkit::definition(&format!("agent-{number}"), "p", "m");
            pins.pin(&tenant, &Arc::new(definition), &redactor, &toolbox);
            assert!(pins.known.lock().expect("not poisoned").by_digest.len() <= MOST_PINNED + 1);
        }
        assert!(Arc::ptr_eq(&pins.find(&used.digest).expect("a run uses it"), &used));
    }
}
