//! SQLite: opening, the format, checkpoints, backups, the readers and the writer.
//!
//! Only this module and those below it name `rusqlite`. Tables see [`Connection`], [`Statement`], [`Value`] and [`Row`].

pub(crate) mod backup;
mod checkpoint;
mod connection;
pub(crate) mod error;
pub(crate) mod files;
mod inbox;
pub(crate) mod mark;
pub(crate) mod migrate;
pub(crate) mod open;
mod progress;
pub(crate) mod readers;
mod row;
mod statement;
mod transaction;
mod upgrade;
mod value;
pub(crate) mod writer;

pub(crate) use connection::{Connection, Depth};
pub(crate) use error::{Error, Result};
pub(crate) use row::{Cell, FromCell, Row};
pub(crate) use statement::Statement;
pub(crate) use transaction::Transactions;
pub(crate) use value::{Value, values};
