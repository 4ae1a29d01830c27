//! What goes over a socket: request and response types, the error body, events, the typed client, the stdio MCP proxy.

pub mod agents;
pub mod body;
pub mod client;
pub mod error;
pub mod events;
pub mod house;
pub mod mcp;
pub mod models;
pub mod operations;
pub mod retention;
pub mod runs;
pub mod upstream;
pub mod validate;
