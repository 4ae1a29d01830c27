//! Runs whose rows are gone and whose journals are still to go.

use drawloom_contract::ids::{RunId, RunKey, Tenant};

use super::Step;
use crate::sqlite::{Connection, Result, values};

pub(crate) const STEPS: &[Step] = &[(
    3,
    "CREATE TABLE pruned_runs (
        tenant TEXT NOT NULL,
        run BLOB NOT NULL,
        PRIMARY KEY (tenant, run)
    ) WITHOUT ROWID;",
)];

/// Marks the journal of a run to go.
pub(crate) fn mark(connection: &Connection, tenant: &Tenant, run: RunId) -> Result<()> {
    connection
        .prepare("INSERT INTO pruned_runs (tenant, run) VALUES ($1, $2) ON CONFLICT DO NOTHING")?
        .execute(values![tenant, &run])
        .map(drop)
}

/// A run whose journal is to go.
pub(crate) fn next(connection: &Connection) -> Result<Option<RunKey>> {
    connection
        .prepare("SELECT tenant, run FROM pruned_runs LIMIT 1")?
        .first(&[], |row| Ok(RunKey { tenant: row.get(0)?, run: row.get(1)? }))
}

/// Says that nothing of the run is left.
pub(crate) fn unmark(connection: &Connection, key: &RunKey) -> Result<()> {
    connection
        .prepare("DELETE FROM pruned_runs WHERE tenant = $1 AND run = $2")?
        .execute(values![&key.tenant, &key.run])
        .map(drop)
}
