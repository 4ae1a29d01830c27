//! The records of all runs of a tree, in the order of the journal.

use drawloom_contract::{
    ids::RunKey,
    journal::{Placed, TreePart},
};

use super::{read_record, text_bytes};
use crate::{
    large_texts::Form,
    sqlite::{Connection, Result, Row, values},
    tables::blobs::Reads,
};

/// Up to so many new records of all trees are looked at one after the other. Beyond that the tree's own are found by its runs.
const NEAR: u64 = 4_096;

/// Positions that are found at once by a tree's runs.
const BATCH: usize = 1_024;

/// New records of anybody, with the root of the run of each.
const NEW: &str = "SELECT position, journal.run, journal.seq, at, form, body, \
    (SELECT root FROM runs WHERE runs.tenant = journal.tenant AND runs.run = journal.run) \
    FROM journal WHERE position > $1 AND tenant = $2 ORDER BY position";

/// Where the records of a tree are. The root itself is not in the index of trees.
const PLACES: &str = "SELECT position FROM (SELECT $2 AS run UNION ALL \
    SELECT run FROM runs INDEXED BY runs_by_root WHERE tenant = $1 AND root = $2 AND depth > 0) AS tree \
    CROSS JOIN journal INDEXED BY journal_by_run ON journal.tenant = $1 AND journal.run = tree.run \
    WHERE position > $3 ORDER BY position LIMIT $4";

const AT: &str = "SELECT position, run, seq, at, form, body FROM journal WHERE position = $1";

/// Records after `after` with at most `bytes` of text, or one.
pub(crate) fn read(connection: &Connection, root: &RunKey, after: u64, bytes: usize) -> Result<TreePart> {
    let last = connection.prepare("SELECT max(position) FROM journal")?.first(&[], |row| row.get::<Option<u64>>(0))?;
    let last = last.flatten().unwrap_or_default();
    let mut part =
        Part { blobs: Reads::prepare(connection, &root.tenant)?, found: Vec::new(), left: bytes, cut: false };
    if last.saturating_sub(after) <= NEAR {
        connection.prepare(NEW)?.while_some(values![after, &root.tenant], |row| {
            let is_of_tree = row.get::<Option<[u8; 16]>>(6)?.as_ref() == Some(root.run.as_bytes());
            if is_of_tree { part.take(row) } else { Ok(Some(())) }
        })?;
    } else {
        let places =
            connection.prepare(PLACES)?.all(values![&root.tenant, &root.run, after, BATCH], |row| row.get::<u64>(0))?;
        let mut at = connection.prepare(AT)?;
        for place in &places {
            at.while_some(values![*place], |row| part.take(row))?;
            if part.cut {
                break;
            }
        }
        part.cut |= places.len() == BATCH;
    }
    let up_to = match part.found.last() {
        Some(placed) if part.cut => placed.position,
        _ => last.max(after),
    };
    Ok((part.found, up_to))
}

struct Part<'c> {
    blobs: Reads<'c>,
    found: Vec<Placed<drawloom_contract::record::Record>>,
    left: usize,
    /// Whether there is more.
    cut: bool,
}

impl Part<'_> {
    /// Takes a record, unless it has more text than is left.
    fn take(&mut self, row: Row<'_>) -> Result<Option<()>> {
        let form = row.get(4)?;
        let form = Form::of(form).ok_or_else(|| row.wrong(4, format_args!("unknown form {form}")))?;
        let body: &str = row.get(5)?;
        let text = text_bytes(form, body, &mut self.blobs)?;
        if !self.found.is_empty() && text > self.left {
            self.cut = true;
            return Ok(None);
        }
        self.left = self.left.saturating_sub(text);
        let it = read_record(row, [2, 3, 5], form, body, &mut self.blobs)?;
        self.found.push(Placed { position: row.get(0)?, run: row.get(1)?, it });
        Ok(Some(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::{Value, migrate::migrate};

    /// However many records there are, those of a tree are found by its runs, and new ones by their position.
    #[test]
    fn records_of_a_tree_are_found_without_a_look_at_all_records() {
        let connection = Connection::in_memory();
        migrate(&connection, 0).expect("an empty file");
        for text in [NEW, PLACES, AT] {
            let mut plan = connection.prepare(&format!("EXPLAIN QUERY PLAN {text}")).expect("a valid text");
            let nothing = vec![Value::Null; plan.parameters()];
            let steps = plan.all(&nothing, |row| row.get::<String>(3)).expect("a plan");
            let scans = |step: &String| step.starts_with("SCAN journal") || step.starts_with("SCAN runs");
            assert!(!steps.iter().any(scans), "{steps:?}");
        }
    }
}
