//! Tools that need the store. Their names are known before it is open, for lint and for the check of `tools`; their instances
//! are made afterwards.

use std::sync::Arc;

use drawloom_contract::{journal::RunReader, time::Clock, tool::Tool};

use crate::{
    artifacts::{self, Artifacts},
    context,
    definitions::{self, RuntimeDefinitions},
    memory::{self, Memory},
};

/// What these tools are made of.
pub struct StoreParts {
    pub memory: Arc<Memory>,
    pub definitions: Arc<RuntimeDefinitions>,
    pub artifacts: Artifacts,
    pub reader: Arc<dyn RunReader>,
    pub clock: Arc<dyn Clock>,
    /// The tools that need no store.
    pub tools: Vec<Arc<dyn Tool>>,
}

pub struct StoreTool {
    pub name: &'static str,
    pub make: fn(&StoreParts) -> Arc<dyn Tool>,
}

/// Every tool that needs the store.
pub static STORE_TOOLS: &[StoreTool] = &[memory::TOOL, artifacts::TOOL, context::TOOL, definitions::TOOL];
