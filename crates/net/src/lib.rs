//! Outbound HTTP: the only home of reqwest, and of hyper as a client.
//!
//! There are two kinds and no default. `Configured` is for addresses from operator config, a flag or the data directory:
//! it may go anywhere. `Guarded` is for addresses that a model or a caller chose: public ones, checked at the moment of
//! connecting, plus what the operator excepted. An address of the second kind must never reach the first.

mod configured;
pub mod guarded;
mod method;
pub mod rpc;
pub mod sse;

pub use configured::{Configured, Error, Request, Response};
pub use guarded::Guarded;
pub use method::Method;
