//! Bringing a file of an earlier format up to date.

use super::{Connection, Result};
use crate::tables;

/// Brings a file of format `found` up to date, in one transaction.
pub(crate) fn migrate(connection: &Connection, found: u32) -> Result<()> {
    let known = tables::format();
    if found >= known {
        return Ok(());
    }
    connection.run("BEGIN IMMEDIATE")?;
    for format in found + 1..=known {
        for text in tables::steps_to(format) {
            connection.run(text)?;
        }
    }
    connection.run(&format!("PRAGMA user_version = {known}; COMMIT"))
}
