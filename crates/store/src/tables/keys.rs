//! Requests that were made with an idempotency key, and what the first of them made.

use drawloom_contract::{
    ids::{Digest, Tenant},
    journal::{HandleId, RequestKey},
};

use super::{Step, statements};
use crate::sqlite::{Connection, Result, Row, Value, values};

pub(crate) const STEPS: &[Step] = &[
    // handle_kind: run or batch.
    (
        1,
        "CREATE TABLE keys (
            tenant TEXT NOT NULL,
            subject TEXT NOT NULL,
            operation TEXT NOT NULL,
            key BLOB NOT NULL,
            body BLOB NOT NULL,
            handle_kind TEXT NOT NULL,
            handle BLOB NOT NULL,
            PRIMARY KEY (tenant, subject, operation, key)
        ) WITHOUT ROWID;",
    ),
    (3, "CREATE INDEX keys_by_handle ON keys (tenant, handle);"),
];

const FIND: &str = "SELECT body, handle_kind, handle FROM keys \
    WHERE tenant = $1 AND subject = $2 AND operation = $3 AND key = $4";

statements! {
    insert: "INSERT INTO keys (tenant, subject, operation, key, body, handle_kind, handle) \
        VALUES ($1, $2, $3, $4, $5, $6, $7)";
    find: FIND;
}

impl Writes<'_> {
    /// The digest of the request that used the key before, and what it made.
    pub(crate) fn find(&mut self, key: &RequestKey) -> Result<Option<(Digest, HandleId)>> {
        self.find.first(values![&key.tenant, &key.subject, key.operation, &key.key], read)
    }

    pub(crate) fn insert(&mut self, key: &RequestKey) -> Result<()> {
        let (kind, id) = stored(&key.handle);
        let values = values![&key.tenant, &key.subject, key.operation, &key.key, &key.body, kind, id];
        self.insert.execute(values).map(drop)
    }
}

/// The request that used the key before.
pub(crate) fn find(connection: &Connection, key: &RequestKey) -> Result<Option<RequestKey>> {
    let values = values![&key.tenant, &key.subject, key.operation, &key.key];
    let found = connection.prepare(FIND)?.first(values, read)?;
    Ok(found.map(|(body, handle)| RequestKey { body, handle, ..key.clone() }))
}

/// Removes the keys of requests that made this.
pub(crate) fn remove(connection: &Connection, tenant: &Tenant, handle: HandleId) -> Result<()> {
    let (_, id) = stored(&handle);
    connection.prepare("DELETE FROM keys WHERE tenant = $1 AND handle = $2")?.execute(values![tenant, id]).map(drop)
}

const RUN: &str = "run";
const BATCH: &str = "batch";

/// A handle's kind and id, as they are stored.
fn stored(handle: &HandleId) -> (&'static str, Value<'_>) {
    match handle {
        HandleId::Run(run) => (RUN, run.into()),
        HandleId::Batch(batch) => (BATCH, batch.into()),
    }
}

fn read(row: Row<'_>) -> Result<(Digest, HandleId)> {
    let handle = match row.get(1)? {
        RUN => HandleId::Run(row.get(2)?),
        BATCH => HandleId::Batch(row.get(2)?),
        other => return Err(row.wrong(1, format_args!("the unknown kind {other:?}"))),
    };
    Ok((row.get(0)?, handle))
}
