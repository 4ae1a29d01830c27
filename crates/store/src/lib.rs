//! Journal, runs, waits and blobs on SQLite: the only home of SQL.
//!
//! [`Store`] is both seams of `contract::journal`: [`Journal`](drawloom_contract::journal::Journal), whose commits go
//! through one writer thread that syncs many entries at once, and
//! [`RunReader`](drawloom_contract::journal::RunReader), which reads on connections of its own.

mod backup;
mod blobs;
mod checkpoint;
mod error;
mod files;
mod open;
mod prepare;
mod prune;
mod reader;
mod rows;
mod schema;
mod sql;
mod store;
mod values;
mod writer;

pub use backup::{Backup, backup, inspect, list_unfinished, partial, restore};
pub use drawloom_contract::journal::StoreError;
pub use open::{FILE, Found, Opened, Options, Previous, Synchronous};
pub use store::{Stats, Store};
