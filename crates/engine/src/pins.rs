//! Definitions as runs pin them: redacted, named by content, with the tools that they come to today.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
};

use drawloom_contract::{
    definition::{Definition, matches},
    ids::{AgentName, Digest, Tenant},
    redact::{Redacted, Redactor},
    tool::{Tool, ToolCard},
};

/// A definition that runs keep.
pub(crate) struct Pinned {
    pub(crate) definition: Redacted<Arc<Definition>>,
    pub(crate) digest: Digest,
    /// The tools that the operator and the definition allow, by name.
    pub(crate) tools: Vec<String>,
    pub(crate) cards: Arc<[ToolCard]>,
}

/// The tools of this process.
pub(crate) struct Toolbox {
    tools: BTreeMap<String, (Arc<dyn Tool>, ToolCard)>,
}

impl Toolbox {
    pub(crate) fn new(tools: &[Arc<dyn Tool>]) -> Self {
        Self {
            tools: tools
                .iter()
                .map(|tool| (tool.card(), tool))
                .map(|(card, tool)| (card.name.clone(), (tool.clone(), card)))
                .collect(),
        }
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.get(name).map(|(tool, _)| tool)
    }

    /// Names that one of the patterns allows, in order.
    pub(crate) fn allowed(&self, patterns: &[String]) -> Vec<String> {
        self.tools.keys().filter(|name| patterns.iter().any(|pattern| matches(pattern, name))).cloned().collect()
    }

    /// The cards of those of `names` that there are.
    pub(crate) fn cards(&self, names: &[String]) -> Arc<[ToolCard]> {
        names.iter().filter_map(|name| self.tools.get(name)).map(|(_, card)| card.clone()).collect()
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
    stored: HashSet<(Tenant, Digest)>,
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
        {
            return pinned.clone();
        }
        let cleaned = redactor.clean(definition.clone());
        let tools = toolbox.allowed(&cleaned.tools);
        let pinned =
            Arc::new(Pinned { digest: cleaned.digest(), cards: toolbox.cards(&tools), definition: cleaned, tools });
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
        let tools = toolbox.allowed(&cleaned.tools);
        let pinned = Arc::new(Pinned { digest, cards: toolbox.cards(&tools), definition: cleaned, tools });
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.by_digest.insert(digest, pinned.clone());
        pinned
    }

    /// Whether the store is known to have it.
    pub(crate) fn is_stored(&self, tenant: &Tenant, digest: &Digest) -> bool {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).stored.contains(&(tenant.clone(), *digest))
    }

    pub(crate) fn stored(&self, tenant: &Tenant, digest: &Digest) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).stored.insert((tenant.clone(), *digest));
    }
}
