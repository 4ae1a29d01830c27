//! Built-in tools, one module each.
//!
//! A tool does its work and says what came of it; who may use which tool is the substrate's to say.

mod agent;
mod bash;
mod builtin;
mod config;
mod edit;
mod fetch;
mod files;
mod gate;
mod glob;
mod grep;
mod guard;
mod http;
mod limits;
mod outside;
mod page;
mod read;
mod replace;
mod search;
mod walk;
mod web_fetch;
mod write;

pub use agent::Agent;
pub use builtin::{BUILT_IN, BuiltIn, Off, Parts, builtin, off, turned_off, variables};
pub use config::{BashConfig, BashNetwork, Config, HttpConfig};
pub use limits::LIMITS;
pub use outside::{
    LIMITS as MCP_LIMITS, McpServerConfig, OutsideParts, outside, prefix as mcp_prefix, problems as mcp_problems,
    variables as mcp_variables,
};
pub use replace::{Leftover, leftovers};
