//! Agents as runs pinned them, under the digest that the runs carry.

use drawloom_contract::{
    definition::Definition,
    ids::{Digest, Tenant},
};

use super::Step;
use crate::{
    convert::Json,
    prepare::Pinned,
    sqlite::{Connection, Result, values},
};

pub(crate) const STEPS: &[Step] = &[
    (
        1,
        "CREATE TABLE definitions (
            tenant TEXT NOT NULL,
            digest BLOB NOT NULL,
            body TEXT NOT NULL,
            PRIMARY KEY (tenant, digest)
        ) WITHOUT ROWID;",
    ),
    // Definitions of pruned runs. The next boot removes those that no run has, before a run can pin one again.
    (
        3,
        "CREATE TABLE loose_definitions (
            tenant TEXT NOT NULL,
            digest BLOB NOT NULL,
            PRIMARY KEY (tenant, digest)
        ) WITHOUT ROWID;",
    ),
];

statements! {
    insert: "INSERT INTO definitions (tenant, digest, body) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
}

impl Writes<'_> {
    pub(crate) fn keep(&mut self, pinned: &Pinned) -> Result<()> {
        self.insert.execute(values![&pinned.tenant, &pinned.digest, &pinned.body]).map(drop)
    }
}

pub(crate) fn find(connection: &Connection, tenant: &Tenant, digest: &Digest) -> Result<Option<Definition>> {
    connection
        .prepare("SELECT body FROM definitions WHERE tenant = $1 AND digest = $2")?
        .first(values![tenant, digest], |row| row.get(0).map(|Json(definition)| definition))
}

/// Notes that a run with this definition was pruned.
pub(crate) fn loosen(connection: &Connection, tenant: &Tenant, digest: &Digest) -> Result<()> {
    connection
        .prepare("INSERT INTO loose_definitions (tenant, digest) VALUES ($1, $2) ON CONFLICT DO NOTHING")?
        .execute(values![tenant, digest])
        .map(drop)
}

/// Removes definitions of pruned runs that no run has any more. Only for the start of a boot: a run that began meanwhile
/// could pin one.
pub(crate) fn forget_loose(connection: &Connection) -> Result<()> {
    connection.run(
        "DELETE FROM definitions WHERE (tenant, digest) IN (SELECT tenant, digest FROM loose_definitions) \
         AND NOT EXISTS (SELECT 1 FROM runs \
         WHERE runs.tenant = definitions.tenant AND runs.definition = definitions.digest); \
         DELETE FROM loose_definitions;",
    )
}
