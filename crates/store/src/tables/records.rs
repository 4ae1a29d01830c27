//! The journal: what happened, in global order.

pub(crate) mod tree;

use drawloom_contract::{
    ids::RunKey,
    record::{self, Record, Seq},
};

use super::{Step, blobs::Reads};
use crate::{
    large_texts::{Form, put_back, referenced_bytes},
    prepare::Run,
    sqlite::{Connection, Error, Result, Row, values},
};

pub(crate) const STEPS: &[Step] = &[
    // form: 0 the body itself, 1 with references to blobs, 2 the digest of a blob.
    (
        1,
        "CREATE TABLE journal (
            position INTEGER PRIMARY KEY,
            tenant TEXT NOT NULL,
            run BLOB NOT NULL,
            seq INTEGER NOT NULL,
            at INTEGER NOT NULL,
            version INTEGER NOT NULL,
            form INTEGER NOT NULL,
            body TEXT NOT NULL
        );
        CREATE UNIQUE INDEX journal_by_run ON journal (tenant, run, seq);",
    ),
];

statements! {
    insert: "INSERT INTO journal (tenant, run, seq, at, version, form, body) VALUES ($1, $2, $3, $4, $5, $6, $7)";
}

impl Writes<'_> {
    /// Writes all records of one run's part of an entry.
    pub(crate) fn insert(&mut self, run: &Run) -> Result<()> {
        let (tenant, id) = (&run.key.tenant, &run.key.run);
        for row in &run.rows {
            let body = &run.bodies[row.body.clone()];
            let values = values![tenant, id, row.seq, row.at, record::FORMAT, row.form.number(), body];
            self.insert.execute(values)?;
        }
        Ok(())
    }
}

/// A read of so many records and bytes needs no thread of its own.
const FEW: usize = 32;
const FEW_BYTES: usize = 32 * 1024;

/// Records after `after`: at most `limit`, and at most `bytes` of text, or one.
pub(crate) fn read(
    connection: &Connection,
    key: &RunKey,
    after: Seq,
    limit: usize,
    bytes: usize,
) -> Result<Vec<Record>> {
    Ok(read_part(connection, key, after, limit, bytes, true)?.0)
}

/// What [`read`] finds, unless it is more than a few records.
pub(crate) fn read_few(connection: &Connection, key: &RunKey, after: Seq, limit: usize) -> Result<Option<Vec<Record>>> {
    let (records, is_cut) = read_part(connection, key, after, limit.min(FEW), FEW_BYTES, false)?;
    let is_all = !is_cut && (records.len() < FEW || limit <= FEW);
    Ok(is_all.then_some(records))
}

/// The records, and whether there are more of them than so many bytes; of at least one, if asked for, whatever its size.
fn read_part(
    connection: &Connection,
    key: &RunKey,
    after: Seq,
    limit: usize,
    mut bytes: usize,
    mut at_least_one: bool,
) -> Result<(Vec<Record>, bool)> {
    const AFTER: &str =
        "SELECT seq, at, form, body FROM journal WHERE tenant = $1 AND run = $2 AND seq > $3 ORDER BY seq LIMIT $4";
    let mut blobs = Reads::prepare(connection, &key.tenant)?;
    let mut is_cut = false;
    let records = connection.prepare(AFTER)?.while_some(values![&key.tenant, &key.run, after, limit], |row| {
        let form = row.get(2)?;
        let form = Form::of(form).ok_or_else(|| row.wrong(2, format_args!("unknown form {form}")))?;
        let body: &str = row.get(3)?;
        let text = text_bytes(form, body, &mut blobs)?;
        if !std::mem::take(&mut at_least_one) && text > bytes {
            is_cut = true;
            return Ok(None);
        }
        bytes = bytes.saturating_sub(text);
        read_record(row, [0, 1, 3], form, body, &mut blobs).map(Some)
    })?;
    Ok((records, is_cut))
}

/// How much text a body has, with the blobs that it refers to.
fn text_bytes(form: Form, body: &str, blobs: &mut Reads<'_>) -> Result<usize> {
    Ok(body.len()
        + match form {
            Form::Inline => 0,
            Form::References => referenced_bytes(body),
            Form::Blob => blobs.length(&body.parse().map_err(|_| damaged())?)?,
        })
}

/// The record of a row; `columns` says where `seq`, `at` and `body` are.
fn read_record(
    row: Row<'_>,
    [seq, at, column]: [usize; 3],
    form: Form,
    body: &str,
    blobs: &mut Reads<'_>,
) -> Result<Record> {
    let body = match form {
        // The usual case is decoded where it lies.
        Form::Inline => serde_json::from_str(body),
        Form::References | Form::Blob => {
            let whole = put_back(body, form, |digest| blobs.text(&digest), damaged)?;
            serde_json::from_str(&whole)
        }
    };
    let body = body.map_err(|error| row.wrong(column, format_args!("an invalid record: {error}")))?;
    Ok(Record { seq: row.get(seq)?, at: row.get(at)?, body })
}

pub(crate) fn damaged() -> Error {
    Error::Value("a blob reference is corrupted".into())
}

/// Removes some records of a run; says how many.
pub(crate) fn remove(connection: &Connection, key: &RunKey, most: usize) -> Result<usize> {
    const REMOVE: &str = "DELETE FROM journal WHERE position IN \
        (SELECT position FROM journal WHERE tenant = $1 AND run = $2 LIMIT $3)";
    connection.prepare(REMOVE)?.execute(values![&key.tenant, &key.run, most])
}
