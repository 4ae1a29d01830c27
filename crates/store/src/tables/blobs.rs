//! Large values, once per tenant under the SHA-256 of their bytes, and which runs refer to them.

use drawloom_contract::ids::{Digest, RunKey, Tenant};

use super::Step;
use crate::{
    large_texts::Blob,
    sqlite::{Connection, Error, Result, Statement, values},
};

pub(crate) const STEPS: &[Step] = &[
    (
        1,
        "CREATE TABLE blobs (
            tenant TEXT NOT NULL,
            digest BLOB NOT NULL,
            bytes BLOB NOT NULL,
            PRIMARY KEY (tenant, digest)
        );",
    ),
    (
        3,
        r#"CREATE TABLE blob_uses (
            tenant TEXT NOT NULL,
            run BLOB NOT NULL,
            digest BLOB NOT NULL,
            PRIMARY KEY (tenant, run, digest)
        ) WITHOUT ROWID;
        CREATE INDEX blob_uses_by_digest ON blob_uses (tenant, digest);
        WITH RECURSIVE found (tenant, run, rest) AS (
            SELECT tenant, run, substr(body, instr(body, '{"$blob":"') + 10) FROM journal WHERE form = 1
            UNION ALL
            SELECT tenant, run, substr(rest, instr(rest, '{"$blob":"') + 10) FROM found
            WHERE instr(rest, '{"$blob":"') > 0
        )
        INSERT INTO blob_uses (tenant, run, digest) SELECT tenant, run, unhex(substr(rest, 1, 64)) FROM found
            WHERE unhex(substr(rest, 1, 64)) IS NOT NULL ON CONFLICT DO NOTHING;
        INSERT INTO blob_uses (tenant, run, digest) SELECT tenant, run, unhex(body) FROM journal
            WHERE form = 2 AND unhex(body) IS NOT NULL ON CONFLICT DO NOTHING;
        INSERT INTO blob_uses (tenant, run, digest) SELECT tenant, run, final_blob FROM runs
            WHERE final_blob IS NOT NULL ON CONFLICT DO NOTHING;"#,
    ),
];

statements! {
    insert: "INSERT INTO blobs (tenant, digest, bytes) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
    insert_use: "INSERT INTO blob_uses (tenant, run, digest) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
    /// As much as an ordinary group writes, under no tenant's name.
    insert_ballast: "INSERT INTO blobs (tenant, digest, bytes) VALUES ('', x'', zeroblob(65536)) \
        ON CONFLICT (tenant, digest) DO UPDATE SET bytes = excluded.bytes";
    delete_ballast: "DELETE FROM blobs WHERE tenant = ''";
}

impl Writes<'_> {
    /// Keeps a blob that a run refers to.
    pub(crate) fn keep(&mut self, key: &RunKey, blob: &Blob) -> Result<()> {
        self.insert.execute(values![&key.tenant, &blob.digest, blob.text.as_bytes()])?;
        self.insert_use.execute(values![&key.tenant, &key.run, &blob.digest]).map(drop)
    }

    /// Writes something, to see whether there is room again.
    pub(crate) fn insert_ballast(&mut self) -> Result<()> {
        self.insert_ballast.execute(&[]).map(drop)
    }

    pub(crate) fn delete_ballast(&mut self) -> Result<()> {
        self.delete_ballast.execute(&[]).map(drop)
    }
}

/// Blobs of one tenant, for a reader that wants several.
pub(crate) struct Reads<'c> {
    tenant: &'c Tenant,
    text: Statement<'c>,
    length: Statement<'c>,
    beginning: Statement<'c>,
}

impl<'c> Reads<'c> {
    pub(crate) fn prepare(connection: &'c Connection, tenant: &'c Tenant) -> Result<Self> {
        let text = connection.prepare("SELECT bytes FROM blobs WHERE tenant = $1 AND digest = $2")?;
        let length = connection.prepare("SELECT length(bytes) FROM blobs WHERE tenant = $1 AND digest = $2")?;
        let beginning =
            connection.prepare("SELECT substr(bytes, 1, $3) FROM blobs WHERE tenant = $1 AND digest = $2")?;
        Ok(Self { tenant, text, length, beginning })
    }

    /// A blob's length; 0, when it is missing.
    pub(crate) fn length(&mut self, digest: &Digest) -> Result<usize> {
        let found = self.length.first(values![self.tenant, digest], |row| row.get::<u64>(0))?;
        Ok(usize::try_from(found.unwrap_or_default()).unwrap_or(usize::MAX))
    }

    /// At most `most` bytes of a blob's text, from its beginning.
    pub(crate) fn beginning(&mut self, digest: &Digest, most: usize) -> Result<String> {
        // A character that is cut in two goes.
        let text = self.beginning.first(values![self.tenant, digest, most], |row| {
            let bytes: &[u8] = row.get(0)?;
            let whole = match std::str::from_utf8(bytes) {
                Ok(text) => text.len(),
                Err(error) if error.error_len().is_none() => error.valid_up_to(),
                Err(error) => return Err(row.wrong(0, error)),
            };
            Ok(String::from_utf8_lossy(&bytes[..whole]).into_owned())
        })?;
        text.ok_or_else(|| Error::Value(format!("blob {digest} is missing")))
    }

    pub(crate) fn text(&mut self, digest: &Digest) -> Result<String> {
        let text = self.text.first(values![self.tenant, digest], |row| {
            let text = std::str::from_utf8(row.get(0)?).map_err(|error| row.wrong(0, error))?;
            Ok(text.to_owned())
        })?;
        text.ok_or_else(|| Error::Value(format!("blob {digest} is missing")))
    }
}

/// The text of a row's large final text, or NULL.
macro_rules! final_text {
    () => {
        "(SELECT CAST(bytes AS TEXT) FROM blobs WHERE blobs.tenant = runs.tenant AND digest = final_blob)"
    };
}
pub(crate) use final_text;

/// Blobs that a run refers to.
pub(crate) fn of_run(connection: &Connection, key: &RunKey, most: usize) -> Result<Vec<Digest>> {
    connection
        .prepare("SELECT digest FROM blob_uses WHERE tenant = $1 AND run = $2 LIMIT $3")?
        .all(values![&key.tenant, &key.run, most], |row| row.get(0))
}

/// Takes a run's reference back, and the blob with the last one; says whether that was it.
pub(crate) fn release(connection: &Connection, key: &RunKey, digest: &Digest) -> Result<bool> {
    const REMOVE: &str = "DELETE FROM blobs WHERE tenant = $1 AND digest = $2 AND NOT EXISTS \
        (SELECT 1 FROM blob_uses WHERE tenant = $1 AND digest = $2)";
    let tenant: &Tenant = &key.tenant;
    connection
        .prepare("DELETE FROM blob_uses WHERE tenant = $1 AND run = $2 AND digest = $3")?
        .execute(values![tenant, &key.run, digest])?;
    Ok(connection.prepare(REMOVE)?.execute(values![tenant, digest])? > 0)
}
