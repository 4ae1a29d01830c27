//! The list of operations and the protocols that reach it.
//!
//! An operation is declared once, in `operations/`. `dispatch` is the one way to call it; `rest/` makes routes, OpenAPI and
//! streams from the list, `mcp/` makes tools. No surface has a rule of its own.

mod activity;
mod app;
pub mod auth;
mod channels;
pub mod config;
mod connections;
mod definitions;
mod dispatch;
mod goals;
mod handle;
mod labels;
mod lean;
mod limits;
mod locks;
pub mod mcp;
mod memory;
mod operation;
mod operations;
mod presence;
mod rest;
mod room;
mod serve;
mod worktrees;

pub use app::{App, AppError, Limits, Models, Monitor, Parts};
pub use dispatch::{Dispatch, Operations, OperationsError, Refused, Served};
pub use goals::{GOAL_AGENT, GoalHost, Goals};
pub use handle::{From, Handle, HandleAnswer};
pub use limits::LIMITS;
pub use operation::{Answer, AnyOperation, Call, Card, Entry, HeaderField, Operation, Parameter, Precedence, Told};
pub use presence::Presence;
pub use rest::openapi::document as openapi;
pub use serve::serve;
pub use worktrees::{Which, Worktrees};
