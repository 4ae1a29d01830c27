//! Removing what ended long ago: found by a reader, removed by the writer in small pieces.

use async_trait::async_trait;
use drawloom_contract::{
    ids::{RunId, RunKey, Tenant},
    journal::StoreError,
    retention::{Prune, Pruned, Retention},
    time::Timestamp,
};
use rusqlite::{Connection, Result, ToSql};
use tokio::sync::oneshot;

use crate::{
    sql::{Bound, natural},
    store::Store,
    writer::Job,
};

/// Trees that are looked for at once.
const PAGE: usize = 256;
/// Trees that one transaction takes out: small, because commits of runs wait for it.
const PIECE: usize = 16;

/// Definitions of pruned runs that no run has any more.
pub(crate) const FORGET_DEFINITIONS: &str = "\
    DELETE FROM definitions WHERE (tenant, digest) IN (SELECT tenant, digest FROM loose_definitions) AND NOT EXISTS \
    (SELECT 1 FROM runs WHERE runs.tenant = definitions.tenant AND runs.definition = definitions.digest); \
    DELETE FROM loose_definitions;";

/// The condition on a root, as `root`, that ended before `$1`. Without being told, SQLite would look at all runs of the
/// tenant for each.
macro_rules! prunable {
    () => {
        "root.depth = 0 AND root.ended_at < $1 \
         AND NOT EXISTS (SELECT 1 FROM runs AS below INDEXED BY runs_by_root WHERE below.tenant = root.tenant AND below.root = root.run \
         AND below.depth > 0 AND (below.ended_at IS NULL OR EXISTS (SELECT 1 FROM runs AS other \
         INDEXED BY runs_by_session WHERE other.tenant = below.tenant AND other.session = below.session \
         AND (other.ended_at IS NULL OR other.ended_at >= $1)))) \
         AND NOT EXISTS (SELECT 1 FROM runs AS other INDEXED BY runs_by_session \
         WHERE other.tenant = root.tenant AND other.session = root.session \
         AND (other.ended_at IS NULL OR other.ended_at >= $1)) \
         AND (root.batch IS NULL OR NOT EXISTS (SELECT 1 FROM runs AS other INDEXED BY runs_by_batch WHERE other.tenant = root.tenant \
         AND other.batch = root.batch AND other.batch IS NOT NULL \
         AND (other.ended_at IS NULL OR other.ended_at >= $1)))"
    };
}
pub(crate) use prunable;

/// Ids sort by time of making, so the oldest come first and the search ends at those that were made after the cutoff.
const ROOTS: &str = concat!(
    "SELECT run FROM runs AS root WHERE tenant = $2 AND run > $3 AND run < $4 AND ",
    prunable!(),
    " ORDER BY run LIMIT $5"
);
const TREE: &str = "SELECT count(*), coalesce(sum(seq), 0) FROM (SELECT seq FROM runs WHERE tenant = $1 AND run = $2 \
    UNION ALL SELECT seq FROM runs INDEXED BY runs_by_root WHERE tenant = $1 AND root = $2 AND depth > 0)";
const NEXT_TENANT: &str = "SELECT min(tenant) FROM runs WHERE tenant > $1";

/// What the writer is to remove in one transaction.
pub(crate) enum Removal {
    /// These trees, if that is still right: their rows go, their journals are marked.
    Trees {
        /// Their roots.
        roots: Vec<RunKey>,
        /// They ended before this.
        ended_before: Timestamp,
    },
    /// Some of the marked journals.
    Journals,
}

/// What one transaction removed.
#[derive(Default)]
pub(crate) struct Removed {
    /// What went.
    pub(crate) what: Pruned,
    /// Whether marked journals may be left.
    pub(crate) more: bool,
}

#[async_trait]
impl Retention for Store {
    async fn find_prunable(&self, prune: &Prune) -> std::result::Result<Pruned, StoreError> {
        let mut all = Pruned::default();
        let mut after = None;
        loop {
            let page = self.prunable_roots(prune, after).await?;
            let Some(last) = page.last().cloned() else { return Ok(all) };
            let found = self
                .readers
                .read(move |connection| {
                    let mut tree = Bound::new(connection, TREE)?;
                    let mut found = Pruned::default();
                    for root in &page {
                        let values: [&dyn ToSql; 2] = [&root.tenant.as_str(), root.run.as_bytes()];
                        let counted = tree.first(&values, |row| Ok((natural(row.get(0)?), natural(row.get(1)?))))?;
                        let (runs, records) = counted.unwrap_or_default();
                        found.add(Pruned { trees: 1, runs, records, blobs: 0 });
                    }
                    Ok(found)
                })
                .await?;
            all.add(found);
            after = Some(last);
        }
    }

    async fn prune(&self, prune: &Prune) -> std::result::Result<Pruned, StoreError> {
        // What an earlier call could not finish goes first.
        let mut all = self.remove_journals().await?;
        let mut after = None;
        loop {
            let page = self.prunable_roots(prune, after).await?;
            let Some(last) = page.last().cloned() else { return Ok(all) };
            for piece in page.chunks(PIECE) {
                let removal = Removal::Trees { roots: piece.to_vec(), ended_before: prune.ended_before };
                all.add(self.remove(removal).await?.what);
                all.add(self.remove_journals().await?);
            }
            after = Some(last);
        }
    }
}

impl Store {
    async fn remove_journals(&self) -> std::result::Result<Pruned, StoreError> {
        let mut all = Pruned::default();
        loop {
            let Removed { what, more } = self.remove(Removal::Journals).await?;
            all.add(what);
            if !more {
                return Ok(all);
            }
        }
    }

    async fn remove(&self, removal: Removal) -> std::result::Result<Removed, StoreError> {
        let (answer, removed) = oneshot::channel();
        self.queue.send(Job::Prune(removal, answer)).await.map_err(|_| self.gone())?;
        removed.await.map_err(|_| self.gone())?
    }

    /// The next roots after `after` whose trees may go, in order of tenant and age.
    async fn prunable_roots(
        &self,
        prune: &Prune,
        after: Option<RunKey>,
    ) -> std::result::Result<Vec<RunKey>, StoreError> {
        let prune = prune.clone();
        self.readers
            .read(move |connection| {
                let mut found = Vec::new();
                let mut place = match (after, &prune.tenant) {
                    (Some(after), _) => Some((after.tenant, *after.run.as_bytes())),
                    (None, Some(tenant)) => Some((tenant.clone(), [0; 16])),
                    (None, None) => next_tenant(connection, "")?.map(|tenant| (tenant, [0; 16])),
                };
                while let Some((tenant, run)) = place {
                    found.extend(roots(connection, &prune, &tenant, run, PAGE - found.len())?);
                    let full = found.len() >= PAGE || prune.tenant.is_some();
                    place = match full {
                        true => None,
                        false => next_tenant(connection, tenant.as_str())?.map(|tenant| (tenant, [0; 16])),
                    };
                }
                Ok(found)
            })
            .await
    }
}

fn roots(connection: &Connection, prune: &Prune, tenant: &Tenant, after: [u8; 16], most: usize) -> Result<Vec<RunKey>> {
    let cutoff = prune.ended_before.as_millis();
    // No run is made after it ended.
    let mut made_after = [0; 16];
    made_after[..6].copy_from_slice(&cutoff.max(0).to_be_bytes()[2..]);
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let values: [&dyn ToSql; 5] = [&cutoff, &tenant.as_str(), &after, &made_after, &most];
    Bound::new(connection, ROOTS)?
        .all(&values, |row| Ok(RunKey { tenant: tenant.clone(), run: RunId::from_bytes(row.get(0)?) }))
}

fn next_tenant(connection: &Connection, after: &str) -> Result<Option<Tenant>> {
    let found = Bound::new(connection, NEXT_TENANT)?.first(&[&after], |row| row.get::<_, Option<String>>(0))?;
    // A name that is no tenant's was not written by us, and nothing of it is touched.
    Ok(found.flatten().and_then(|name| name.parse().ok()))
}
