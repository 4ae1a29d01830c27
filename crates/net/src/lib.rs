//! Outbound HTTP: the only home of reqwest.
//!
//! There is one kind today, `Configured`: its addresses come from operator config, a flag or the data directory, so it
//! may go anywhere. Addresses that a model or a caller chose must not reach it.

mod configured;

pub use configured::{Configured, Error, Method, Request, Response};
