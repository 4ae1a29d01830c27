//! Tools that need the store. Their names and gates are known before it is open, for lint and for the check of `tools`; their
//! instances are made afterwards.

use std::sync::Arc;

use drawloom_contract::{gate::Gate, journal::RunReader, time::Clock, tool::Tool};

use crate::{
    artifacts::{self, Artifacts},
    channels::{self, Channels},
    context,
    definitions::{self, RuntimeDefinitions},
    evaluations::{self, Evaluations},
    memory::{self, Memory},
};

/// What these tools are made of.
pub struct StoreParts {
    pub memory: Arc<Memory>,
    pub definitions: Arc<RuntimeDefinitions>,
    pub artifacts: Artifacts,
    pub evaluations: Arc<Evaluations>,
    pub channels: Arc<Channels>,
    pub reader: Arc<dyn RunReader>,
    pub clock: Arc<dyn Clock>,
    /// The tools that need no store.
    pub tools: Vec<Arc<dyn Tool>>,
}

pub struct StoreTool {
    pub name: &'static str,
    /// What an agent must be given before the tool is of any use to it.
    pub gate: Option<Gate>,
    pub make: fn(&StoreParts) -> Arc<dyn Tool>,
}

/// Every tool that needs the store.
pub static STORE_TOOLS: &[StoreTool] =
    &[memory::TOOL, artifacts::TOOL, channels::TOOL, evaluations::TOOL, context::TOOL, definitions::TOOL];
