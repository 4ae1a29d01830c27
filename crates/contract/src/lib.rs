//! The words of Drawloom: domain types, records, seams and failure kinds. Nothing here does I/O.

pub mod caller;
pub mod channel;
pub mod choice;
pub mod costs;
pub mod definition;
pub mod executor;
pub mod failure;
pub mod gate;
pub mod journal;
pub mod log;
pub mod message;
pub mod model;
mod named;
pub mod once;
pub mod record;
pub mod retention;
pub mod run;
pub mod runs;
pub mod tool;
pub mod usage;
pub mod values;
pub mod view;
pub mod wait;

pub use drawloom_redact as redact;
pub use drawloom_units::{activity, ids, limits, money, streams, suggest, time};

pub const VERSION: &str = env!("CARGO_PKG_VERSION");
