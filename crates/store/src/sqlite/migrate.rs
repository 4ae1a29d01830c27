//! Bringing a file of an earlier format up to date.

use std::sync::atomic::{AtomicU32, Ordering};

use super::{Connection, Result, progress};
use crate::tables;

/// Brings a file of format `found` up to date, in one transaction. A new file has format 0.
pub(crate) fn migrate(connection: &Connection, found: u32) -> Result<()> {
    let known = tables::format();
    match found {
        0 => connection.run(&format!("BEGIN IMMEDIATE; {} PRAGMA user_version = {known}; COMMIT", tables::SCHEMA)),
        _ if found < known => step_by_step(connection, found),
        _ => Ok(()),
    }
}

/// Goes from each format to the next one.
pub(crate) fn step_by_step(connection: &Connection, found: u32) -> Result<()> {
    let known = tables::format();
    let at = AtomicU32::new(found);
    let report = |seconds| {
        let step = at.load(Ordering::Relaxed);
        tracing::info!(step, found, known, seconds, "upgrading the store format");
    };
    progress::report(report, || {
        connection.run("BEGIN IMMEDIATE")?;
        for format in found + 1..=known {
            at.store(format, Ordering::Relaxed);
            for text in tables::steps_to(format) {
                connection.run(text)?;
            }
        }
        connection.run(&format!("PRAGMA user_version = {known}; COMMIT"))
    })
}
