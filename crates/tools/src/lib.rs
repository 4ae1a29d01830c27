//! Built-in tools, one module each.
//!
//! A tool does its work and says what came of it; who may use which tool is the substrate's to say.

mod agent;
mod files;
mod read;
mod write;

use std::sync::Arc;

use drawloom_contract::tool::Tool;

/// Every built-in tool, one line each.
pub fn builtin() -> Vec<Arc<dyn Tool>> {
    vec![Arc::new(agent::Agent), Arc::new(read::Read), Arc::new(write::Write)]
}

#[cfg(test)]
mod tests;
