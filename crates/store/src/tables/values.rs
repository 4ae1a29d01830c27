//! Small values under a key, each until its time is over.

use drawloom_contract::{
    time::Timestamp,
    values::{ValueChange, ValueKey},
};
use serde_json::Value;

use super::{Step, statements};
use crate::{
    convert::Json,
    sqlite::{Connection, Result, values},
};

pub(crate) const STEPS: &[Step] = &[(
    4,
    "CREATE TABLE kept (
        tenant TEXT NOT NULL,
        space TEXT NOT NULL,
        key TEXT NOT NULL,
        value TEXT NOT NULL,
        expires_at INTEGER NOT NULL,
        PRIMARY KEY (tenant, space, key)
    ) WITHOUT ROWID;
    CREATE INDEX kept_by_expiry ON kept (space, expires_at);",
)];

statements! {
    put: "INSERT INTO kept (tenant, space, key, value, expires_at) VALUES ($1, $2, $3, $4, $5) \
        ON CONFLICT (tenant, space, key) DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at";
    remove: "DELETE FROM kept WHERE tenant = $1 AND space = $2 AND key = $3";
    /// At most as many as fit into a short commit.
    remove_old: "DELETE FROM kept WHERE (tenant, space, key) IN \
        (SELECT tenant, space, key FROM kept WHERE space = $1 AND expires_at <= $2 LIMIT 64)";
}

impl Writes<'_> {
    pub(crate) fn change(&mut self, change: &ValueChange) -> Result<()> {
        match change {
            ValueChange::Put { key, value, at, expires_at } => {
                self.remove_old.execute(values![key.space, *at])?;
                self.put.execute(values![&key.tenant, key.space, &key.key, value.to_string(), *expires_at])?;
            }
            ValueChange::Remove { key } => {
                self.remove.execute(values![&key.tenant, key.space, &key.key])?;
            }
        }
        Ok(())
    }
}

pub(crate) fn find(connection: &Connection, key: &ValueKey, now: Timestamp) -> Result<Option<Value>> {
    connection
        .prepare("SELECT value FROM kept WHERE tenant = $1 AND space = $2 AND key = $3 AND expires_at > $4")?
        .first(values![&key.tenant, key.space, &key.key, now], |row| row.get(0).map(|Json(value)| value))
}
