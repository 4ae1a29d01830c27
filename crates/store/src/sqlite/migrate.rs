//! Bringing a file of an earlier format up to date.

use std::sync::atomic::{AtomicU32, Ordering};

use super::{Connection, Result, progress};
use crate::tables;

/// Brings a file of format `found` up to date, in one transaction.
pub(crate) fn migrate(connection: &Connection, found: u32) -> Result<()> {
    let known = tables::format();
    if found >= known {
        return Ok(());
    }
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
