//! Trees of runs that ended long ago.

use drawloom_contract::{
    ids::{BatchId, Digest, RunId, RunKey, SessionId, Tenant},
    time::Timestamp,
};

use crate::sqlite::{Connection, Result, values};

/// The condition on a root, as `root`, that ended before `$1`. Without being told, SQLite would look at all runs of the
/// tenant for each.
macro_rules! prunable {
    () => {
        "root.depth = 0 AND root.ended_at < $1 \
         AND NOT EXISTS (SELECT 1 FROM runs AS below INDEXED BY runs_by_root \
         WHERE below.tenant = root.tenant AND below.root = root.run \
         AND below.depth > 0 AND (below.ended_at IS NULL OR EXISTS (SELECT 1 FROM runs AS other \
         INDEXED BY runs_by_session WHERE other.tenant = below.tenant AND other.session = below.session \
         AND (other.ended_at IS NULL OR other.ended_at >= $1)))) \
         AND NOT EXISTS (SELECT 1 FROM runs AS other INDEXED BY runs_by_session \
         WHERE other.tenant = root.tenant AND other.session = root.session \
         AND (other.ended_at IS NULL OR other.ended_at >= $1)) \
         AND (root.batch IS NULL OR NOT EXISTS (SELECT 1 FROM runs AS other INDEXED BY runs_by_batch \
         WHERE other.tenant = root.tenant AND other.batch = root.batch AND other.batch IS NOT NULL \
         AND (other.ended_at IS NULL OR other.ended_at >= $1)))"
    };
}

/// Roots of trees that may go, those after `after` and oldest first: ids sort by time of making, and no run is made after
/// it ended.
pub(crate) fn roots(
    connection: &Connection,
    ended_before: Timestamp,
    tenant: &Tenant,
    after: RunId,
    most: usize,
) -> Result<Vec<RunKey>> {
    const ROOTS: &str = concat!(
        "SELECT run FROM runs AS root WHERE tenant = $2 AND run > $3 AND run < $4 AND ",
        prunable!(),
        " ORDER BY run LIMIT $5"
    );
    let mut made_after = [0; 16];
    made_after[..6].copy_from_slice(&ended_before.as_millis().max(0).to_be_bytes()[2..]);
    connection.prepare(ROOTS)?.all(values![ended_before, tenant, &after, &made_after, most], |row| {
        Ok(RunKey { tenant: tenant.clone(), run: row.get(0)? })
    })
}

pub(crate) fn is_prunable(connection: &Connection, root: &RunKey, ended_before: Timestamp) -> Result<bool> {
    const IS_PRUNABLE: &str = concat!("SELECT 1 FROM runs AS root WHERE tenant = $2 AND run = $3 AND ", prunable!());
    connection.prepare(IS_PRUNABLE)?.finds(values![ended_before, &root.tenant, &root.run])
}

/// Whether every run of a tree has ended.
pub(crate) fn has_ended(connection: &Connection, root: &RunKey) -> Result<bool> {
    const HAS_ENDED: &str = "SELECT 1 FROM runs AS root WHERE tenant = $1 AND run = $2 AND depth = 0 \
        AND ended_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM runs AS below INDEXED BY runs_by_root \
        WHERE below.tenant = root.tenant AND below.root = root.run AND below.depth > 0 AND below.ended_at IS NULL)";
    connection.prepare(HAS_ENDED)?.finds(values![&root.tenant, &root.run])
}

/// The batch of a root.
pub(crate) fn batch_of(connection: &Connection, root: &RunKey) -> Result<Option<BatchId>> {
    const BATCH: &str = "SELECT batch FROM runs WHERE tenant = $1 AND run = $2";
    Ok(connection.prepare(BATCH)?.first(values![&root.tenant, &root.run], |row| row.get(0))?.flatten())
}

/// The runs of a batch, retries included.
pub(crate) fn of_batch(connection: &Connection, tenant: &Tenant, batch: BatchId) -> Result<Vec<RunId>> {
    const RUNS: &str = "SELECT run FROM runs INDEXED BY runs_by_batch \
        WHERE tenant = $1 AND batch = $2 AND batch IS NOT NULL";
    connection.prepare(RUNS)?.all(values![tenant, &batch], |row| row.get(0))
}

/// How many runs and records a tree has.
pub(crate) fn size(connection: &Connection, root: &RunKey) -> Result<(u64, u64)> {
    const SIZE: &str = "SELECT count(*), coalesce(sum(seq), 0) FROM (SELECT seq FROM runs WHERE tenant = $1 AND run = $2 \
        UNION ALL SELECT seq FROM runs INDEXED BY runs_by_root WHERE tenant = $1 AND root = $2 AND depth > 0)";
    let size =
        connection.prepare(SIZE)?.first(values![&root.tenant, &root.run], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(size.unwrap_or_default())
}

/// A run of a tree, and what else is to go with it.
pub(crate) struct Member {
    pub(crate) run: RunId,
    pub(crate) session: SessionId,
    pub(crate) batch: Option<BatchId>,
    pub(crate) definition: Digest,
}

pub(crate) fn members(connection: &Connection, root: &RunKey) -> Result<Vec<Member>> {
    const TREE: &str = "SELECT run, session, batch, definition FROM runs WHERE tenant = $1 AND run = $2 UNION ALL \
        SELECT run, session, batch, definition FROM runs INDEXED BY runs_by_root \
        WHERE tenant = $1 AND root = $2 AND depth > 0";
    connection.prepare(TREE)?.all(values![&root.tenant, &root.run], |row| {
        Ok(Member { run: row.get(0)?, session: row.get(1)?, batch: row.get(2)?, definition: row.get(3)? })
    })
}

pub(crate) fn remove(connection: &Connection, tenant: &Tenant, run: RunId) -> Result<()> {
    connection.prepare("DELETE FROM runs WHERE tenant = $1 AND run = $2")?.execute(values![tenant, &run]).map(drop)
}

/// The next tenant in order that has runs.
pub(crate) fn next_tenant(connection: &Connection, after: &str) -> Result<Option<Tenant>> {
    let found = connection
        .prepare("SELECT min(tenant) FROM runs WHERE tenant > $1")?
        .first(values![after], |row| row.get::<Option<String>>(0))?;
    // A name that is not a tenant's was not written by this crate, and nothing of it is touched.
    Ok(found.flatten().and_then(|name| name.parse().ok()))
}
