//! Tools that need the store. Their names are known before it is open, for lint and for the check of `tools`; their instances
//! are made afterwards.

use std::sync::Arc;

use drawloom_contract::tool::Tool;

use crate::memory::{self, Memory};

/// What these tools are made of.
pub struct StoreParts {
    pub memory: Arc<Memory>,
}

pub struct StoreTool {
    pub name: &'static str,
    pub make: fn(&StoreParts) -> Arc<dyn Tool>,
}

/// Every tool that needs the store.
pub static STORE_TOOLS: &[StoreTool] = &[memory::TOOL];
