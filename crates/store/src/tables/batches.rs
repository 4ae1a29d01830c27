//! Batches: their runs say which place in one they have.

use drawloom_contract::{
    ids::{BatchId, Tenant},
    journal::NewBatch,
};

use super::Step;
use crate::sqlite::{Connection, Result, values};

pub(crate) const STEPS: &[Step] = &[
    (
        1,
        "CREATE TABLE batches (
            tenant TEXT NOT NULL,
            batch BLOB NOT NULL,
            user TEXT NOT NULL,
            size INTEGER NOT NULL,
            PRIMARY KEY (tenant, batch)
        ) WITHOUT ROWID;",
    ),
    (6, "ALTER TABLE batches RENAME COLUMN user TO user_id;"),
];

statements! {
    insert: "INSERT INTO batches (tenant, batch, user_id, size) VALUES ($1, $2, $3, $4)";
    find: "SELECT 1 FROM batches WHERE tenant = $1 AND batch = $2";
}

impl Writes<'_> {
    pub(crate) fn begin(&mut self, new: &NewBatch) -> Result<()> {
        self.insert.execute(values![&new.tenant, &new.batch, &new.user, new.size]).map(drop)
    }

    pub(crate) fn is_known(&mut self, tenant: &Tenant, batch: BatchId) -> Result<bool> {
        self.find.finds(values![tenant, &batch])
    }
}

pub(crate) fn is_known(connection: &Connection, tenant: &Tenant, batch: BatchId) -> Result<bool> {
    connection.prepare("SELECT 1 FROM batches WHERE tenant = $1 AND batch = $2")?.finds(values![tenant, &batch])
}

/// Makes the batch unknown, so that no caller sees it with a part missing.
pub(crate) fn remove(connection: &Connection, tenant: &Tenant, batch: BatchId) -> Result<()> {
    connection
        .prepare("DELETE FROM batches WHERE tenant = $1 AND batch = $2")?
        .execute(values![tenant, &batch])
        .map(drop)
}
