//! One piece of a removal, in a transaction of its own.

use std::sync::atomic::Ordering;

use drawloom_contract::{
    ids::{RunId, RunKey},
    journal::StoreError,
    retention::Pruned,
    time::Timestamp,
};
use rusqlite::{Connection, Error, ToSql};

use super::Writer;
use crate::{
    error::explain,
    prune::{Removal, Removed, prunable},
    sql::Bound,
};

/// Records and large values that one transaction removes at most.
const PIECE: usize = 512;

const IS_PRUNABLE: &str = concat!("SELECT 1 FROM runs AS root WHERE tenant = $2 AND run = $3 AND ", prunable!());
const TREE: &str = "SELECT run, session, batch, definition FROM runs WHERE tenant = $1 AND run = $2 UNION ALL \
    SELECT run, session, batch, definition FROM runs INDEXED BY runs_by_root \
    WHERE tenant = $1 AND root = $2 AND depth > 0";
const MARK: &str = "INSERT OR IGNORE INTO pruned_runs (tenant, run) VALUES ($1, $2)";
const LOOSEN: &str = "INSERT OR IGNORE INTO loose_definitions (tenant, digest) VALUES ($1, $2)";
const REMOVE_RUN: &str = "DELETE FROM runs WHERE tenant = $1 AND run = $2";
const REMOVE_WAITS: &str = "DELETE FROM waits WHERE tenant = $1 AND run = $2";
const REMOVE_KEYS: &str = "DELETE FROM keys WHERE tenant = $1 AND handle = $2";
/// From here on the session and the batch are unknown: nobody joins or sees one with a part missing.
const REMOVE_SESSION: &str = "DELETE FROM sessions WHERE tenant = $1 AND session = $2";
const REMOVE_BATCH: &str = "DELETE FROM batches WHERE tenant = $1 AND batch = $2";

const MARKED: &str = "SELECT tenant, run FROM pruned_runs LIMIT 1";
const UNMARK: &str = "DELETE FROM pruned_runs WHERE tenant = $1 AND run = $2";
const REMOVE_RECORDS: &str = "DELETE FROM journal WHERE position IN \
    (SELECT position FROM journal WHERE tenant = $1 AND run = $2 LIMIT $3)";
const BLOBS: &str = "SELECT digest FROM blob_uses WHERE tenant = $1 AND run = $2 LIMIT $3";
const REMOVE_USE: &str = "DELETE FROM blob_uses WHERE tenant = $1 AND run = $2 AND digest = $3";
const REMOVE_BLOB: &str = "DELETE FROM blobs WHERE tenant = $1 AND digest = $2 AND NOT EXISTS \
    (SELECT 1 FROM blob_uses WHERE tenant = $1 AND digest = $2)";

impl Writer<'_> {
    /// Removes one piece and syncs. An error means that nothing of it is removed.
    pub(super) fn prune(&mut self, removal: &Removal) -> Result<Removed, StoreError> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        let removed = self.transact_removal(removal);
        if let Err(error) = &removed {
            self.roll_back(error);
        }
        let removed = removed.map_err(|error| explain(&self.shared.file, &error));
        let removed = self.unless_gone(removed);
        self.note(removed.as_ref().err());
        removed?.ok_or_else(|| {
            let directory = self.shared.file.parent().unwrap_or(&self.shared.file).display().to_string();
            StoreError::Locked { directory }
        })
    }

    /// What went; nothing, when another process owns the file.
    fn transact_removal(&mut self, removal: &Removal) -> Result<Option<Removed>, Error> {
        let before = self.connection.total_changes();
        self.statements.begin.execute(&[])?;
        if self.owner()? != self.shared.epoch {
            self.statements.rollback.execute(&[])?;
            return Ok(None);
        }
        let mut removed = Removed::default();
        match removal {
            Removal::Trees { roots, ended_before } => {
                for root in roots {
                    remove_tree(self.connection, root, *ended_before, &mut removed.what)?;
                }
            }
            Removal::Journals => removed.more = remove_journals(self.connection, &mut removed.what)?,
        }
        if self.connection.total_changes() == before {
            self.statements.rollback.execute(&[])?;
        } else {
            self.statements.commit.execute(&[])?;
            self.shared.counters.pruned_runs.fetch_add(removed.what.runs, Ordering::Relaxed);
        }
        Ok(Some(removed))
    }
}

struct Member {
    run: [u8; 16],
    session: [u8; 16],
    batch: Option<[u8; 16]>,
    definition: [u8; 32],
}

/// Takes out the rows of a tree that may go, and marks its journals.
fn remove_tree(
    connection: &Connection,
    root: &RunKey,
    ended_before: Timestamp,
    removed: &mut Pruned,
) -> Result<(), Error> {
    let tenant = root.tenant.as_str();
    let values: [&dyn ToSql; 3] = [&ended_before.as_millis(), &tenant, root.run.as_bytes()];
    if Bound::new(connection, IS_PRUNABLE)?.first(&values, |_| Ok(()))?.is_none() {
        return Ok(());
    }
    let members = Bound::new(connection, TREE)?.all(&[&tenant, root.run.as_bytes()], |row| {
        Ok(Member { run: row.get(0)?, session: row.get(1)?, batch: row.get(2)?, definition: row.get(3)? })
    })?;
    for Member { run, session, batch, definition } in &members {
        Bound::new(connection, MARK)?.execute(&[&tenant, run])?;
        Bound::new(connection, LOOSEN)?.execute(&[&tenant, definition])?;
        for text in [REMOVE_RUN, REMOVE_WAITS, REMOVE_KEYS] {
            Bound::new(connection, text)?.execute(&[&tenant, run])?;
        }
        Bound::new(connection, REMOVE_SESSION)?.execute(&[&tenant, session])?;
        if let Some(batch) = batch {
            for text in [REMOVE_KEYS, REMOVE_BATCH] {
                Bound::new(connection, text)?.execute(&[&tenant, batch])?;
            }
        }
    }
    removed.trees += 1;
    removed.runs += members.len() as u64;
    Ok(())
}

/// Removes some of the marked journals, and large values that only they referred to; says whether any may be left.
fn remove_journals(connection: &Connection, removed: &mut Pruned) -> Result<bool, Error> {
    let mut left = PIECE;
    while left > 0 {
        let marked = Bound::new(connection, MARKED)?
            .first(&[], |row| Ok((row.get::<_, String>(0)?, RunId::from_bytes(row.get(1)?))))?;
        let Some((tenant, run)) = marked else { return Ok(false) };
        let most = i64::try_from(left).unwrap_or(i64::MAX);
        let values: [&dyn ToSql; 3] = [&tenant, run.as_bytes(), &most];
        let records = Bound::new(connection, REMOVE_RECORDS)?.execute(&values)?;
        removed.records += records as u64;
        left -= records;
        if left == 0 {
            break;
        }
        let most = i64::try_from(left).unwrap_or(i64::MAX);
        let values: [&dyn ToSql; 3] = [&tenant, run.as_bytes(), &most];
        let digests = Bound::new(connection, BLOBS)?.all(&values, |row| row.get::<_, [u8; 32]>(0))?;
        for digest in &digests {
            Bound::new(connection, REMOVE_USE)?.execute(&[&tenant, run.as_bytes(), digest])?;
            removed.blobs += Bound::new(connection, REMOVE_BLOB)?.execute(&[&tenant, digest])? as u64;
        }
        left -= digests.len();
        if left > 0 {
            Bound::new(connection, UNMARK)?.execute(&[&tenant, run.as_bytes()])?;
            // A mark counts like a record.
            left -= 1;
        }
    }
    Ok(true)
}
