//! Built-in tools, one module each.
//!
//! A tool does its work and says what came of it; who may use which tool is the substrate's to say.

mod builtin;
mod config;
mod fetch;
mod files;
mod guard;
mod hosts;
mod limits;
mod outside;
mod page;
mod replace;
mod search;
mod walk;

pub use agent::Agent;
pub use builtin::{BuiltIn, Off, Parts, Switch, builtin, off, turned_off, variables};
pub use config::{BashConfig, BashNetwork, Config, HttpConfig};
pub use limits::LIMITS;
pub use outside::{
    LIMITS as MCP_LIMITS, McpServerConfig, OutsideParts, outside, prefix as mcp_prefix, problems as mcp_problems,
    variables as mcp_variables,
};
pub use replace::{Leftover, leftovers};

macro_rules! tools {
    ($($tool:ident,)*) => {
        $(mod $tool;)*

        /// Every built-in tool.
        pub static BUILT_IN: &[BuiltIn] = &[$($tool::BUILT_IN,)*];
    };
}

// One file and one line for each.
tools! {
    agent,
    bash,
    edit,
    glob,
    grep,
    http,
    read,
    web_fetch,
    write,
}
