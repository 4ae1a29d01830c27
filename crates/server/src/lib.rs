//! The operations list and the protocols that reach it.
//!
//! An operation is declared once, in `operations/`; `rest/` turns the list into routes, OpenAPI and streams, `mcp/` into
//! tools. No surface holds a rule of its own.

mod app;
pub mod auth;
pub mod config;
mod connections;
mod handle;
mod limits;
pub mod mcp;
mod operation;
mod operations;
mod presence;
mod rest;
mod serve;

pub use app::{App, Limits, Models, Parts, Vitals};
pub use handle::{BatchHandle, Handle, RunHandle};
pub use limits::LIMITS;
pub use operation::{Answer, AnyOperation, Call, Card, Entry, HeaderField, Operation, Precedence, Verb};
pub use operations::OPERATIONS;
pub use presence::Presence;
pub use rest::openapi::document as openapi;
pub use serve::serve;
