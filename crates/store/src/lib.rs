//! Journal, runs, waits and blobs on SQLite: the only home of SQL.
//!
//! [`Store`] is both seams of `contract::journal`: [`Journal`](drawloom_contract::journal::Journal), whose commits go
//! through one writer thread that syncs many entries at once, and
//! [`RunReader`](drawloom_contract::journal::RunReader), which reads on connections of its own.

mod answers;
mod apply;
mod convert;
mod feeds;
mod large_texts;
mod log;
mod prepare;
mod reader;
mod retention;
mod sqlite;
mod store;
mod tables;
mod values;

pub use drawloom_contract::journal::StoreError;
pub use sqlite::{
    backup::{Backup, backup, inspect, is_used, list_unfinished, partial, restore},
    mark::{Lost, Reached, lost},
    open::{FILE, Found, Opened, Options, Previous, Synchronous},
};
pub use store::{Stats, Store};
pub use tables::words::{Hit, MAX_QUERY_WORDS, Needs, Search, Term, limit_query};
