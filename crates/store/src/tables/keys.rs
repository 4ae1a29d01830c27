//! Requests that were made with an idempotency key, and what the first of them made.

use drawloom_contract::{
    ids::{Digest, Tenant},
    once::{Answered, Effected, HandleId, RequestKey},
    time::Timestamp,
    values::{Space, ValueKey},
};

use super::{
    Step,
    values::{self, Tally},
};
use crate::{
    convert::Json,
    sqlite::{Connection, Result, Row, Value, values},
};

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
    // handle_kind answer: the answer itself, and when it was given.
    (
        7,
        "ALTER TABLE keys ADD COLUMN answer TEXT;
        ALTER TABLE keys ADD COLUMN at INTEGER;
        CREATE INDEX keys_by_age ON keys (at) WHERE at IS NOT NULL;",
    ),
];

const FIND: &str = "SELECT body, handle_kind, handle, answer FROM keys \
    WHERE tenant = $1 AND subject = $2 AND operation = $3 AND key = $4";

statements! {
    insert: "INSERT INTO keys (tenant, subject, operation, key, body, handle_kind, handle, answer, at) \
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    find: FIND;
    large: "SELECT at, octet_length(answer) FROM keys \
        WHERE tenant = $1 AND subject = $2 AND at IS NOT NULL AND octet_length(answer) > $3";
    // As `Effected` is written.
    leave_out: "UPDATE keys SET answer = '{\"answer\":null,\"left_out\":' || octet_length(answer) || '}' \
        WHERE tenant = $1 AND subject = $2 AND at <= $3 AND octet_length(answer) > $4";
}

/// Answers up to this size are not counted, and stay until they are pruned.
const SMALL_ANSWER: usize = 1024;

/// Maximum bytes of the larger answers that are stored of one caller.
const MAX_OF_CALLER: u64 = 16 * 1024 * 1024;

/// Where the bytes of larger answers are counted, beside those of values.
fn tally_of(key: &RequestKey) -> ValueKey {
    let (tenant, owner) = (key.tenant.clone(), key.subject.to_string());
    ValueKey { tenant, space: Space::of("answers"), owner, key: String::new() }
}

impl Writes<'_> {
    /// The digest of the request that used the key before, and its answer.
    pub(crate) fn find(&mut self, key: &RequestKey) -> Result<Option<(Digest, Answered)>> {
        self.find.first(&place(key), read)
    }

    pub(crate) fn insert_handle(&mut self, key: &RequestKey, handle: &HandleId) -> Result<()> {
        let (kind, id) = stored(handle);
        self.insert(key, kind, id, Value::Null, Value::Null)
    }

    /// Stores an answer. When its caller has too many bytes of them, the older half is left out; the keys stay, so that a repeat is
    /// still known.
    pub(crate) fn insert_answer(
        &mut self,
        key: &RequestKey,
        effected: &Effected,
        at: Timestamp,
        counts: &mut values::Writes<'_>,
        tally: &mut Tally,
    ) -> Result<()> {
        let answer = effected.of_request();
        if answer.len() > SMALL_ANSWER {
            let (owner, bytes) = (tally_of(key), answer.len() as u64);
            let stored = counts.amounts(tally, &owner)?.1;
            if stored + bytes > MAX_OF_CALLER {
                let left = self.leave_out_older(key)?;
                counts.count(tally, &owner, 0, left as i64 - stored as i64)?;
            }
            counts.count(tally, &owner, 1, bytes as i64)?;
        }
        self.insert(key, ANSWER, Value::Blob(&[]), answer.as_str().into(), at.into())
    }

    /// Leaves out the older ones of a caller's larger answers, so that at most half of the limit stays; says how many bytes stay. It
    /// reads the rows, so that what was pruned meanwhile counts no more.
    fn leave_out_older(&mut self, key: &RequestKey) -> Result<u64> {
        let caller = values![&key.tenant, &key.subject, SMALL_ANSWER];
        let mut large: Vec<(Timestamp, u64)> = self.large.all(caller, |row| Ok((row.get(0)?, row.get(1)?)))?;
        large.sort_unstable_by_key(|(at, _)| std::cmp::Reverse(*at));
        let mut bytes = 0;
        let first = large.iter().find(|(_, length)| {
            bytes += length;
            bytes > MAX_OF_CALLER / 2
        });
        let Some((until, _)) = first else { return Ok(bytes) };
        self.leave_out.execute(values![&key.tenant, &key.subject, *until, SMALL_ANSWER])?;
        Ok(large.iter().filter(|(at, _)| at > until).map(|(_, length)| length).sum())
    }

    fn insert(&mut self, key: &RequestKey, kind: &str, id: Value<'_>, answer: Value<'_>, at: Value<'_>) -> Result<()> {
        let [tenant, subject, operation, name] = place(key);
        let values = [tenant, subject, operation, name, (&key.body).into(), kind.into(), id, answer, at];
        self.insert.execute(&values).map(drop)
    }
}

fn place(key: &RequestKey) -> [Value<'_>; 4] {
    [(&key.tenant).into(), (&key.subject).into(), key.operation.into(), (&key.key).into()]
}

/// The digest of the request that used the key before, and its answer.
pub(crate) fn find(connection: &Connection, key: &RequestKey) -> Result<Option<(Digest, Answered)>> {
    connection.prepare(FIND)?.first(&place(key), read)
}

/// Removes the keys of requests that made this.
pub(crate) fn remove(connection: &Connection, tenant: &Tenant, handle: HandleId) -> Result<()> {
    let (_, id) = stored(&handle);
    connection.prepare("DELETE FROM keys WHERE tenant = $1 AND handle = $2")?.execute(values![tenant, id]).map(drop)
}

/// Removes some answers that were given before a time; says how many.
pub(crate) fn remove_answers(
    connection: &Connection,
    tenant: Option<&Tenant>,
    before: Timestamp,
    most: usize,
) -> Result<usize> {
    const REMOVE: &str = "DELETE FROM keys WHERE (tenant, subject, operation, key) IN \
        (SELECT tenant, subject, operation, key FROM keys WHERE at < $1 AND ($2 IS NULL OR tenant = $2) LIMIT $3)";
    connection.prepare(REMOVE)?.execute(values![before, tenant, most])
}

const RUN: &str = "run";
const BATCH: &str = "batch";
const ANSWER: &str = "answer";

/// A handle's kind and id, as they are stored.
fn stored(handle: &HandleId) -> (&'static str, Value<'_>) {
    match handle {
        HandleId::Run(run) => (RUN, run.into()),
        HandleId::Batch(batch) => (BATCH, batch.into()),
    }
}

fn read(row: Row<'_>) -> Result<(Digest, Answered)> {
    let answered = match row.get(1)? {
        RUN => Answered::Handle(HandleId::Run(row.get(2)?)),
        BATCH => Answered::Handle(HandleId::Batch(row.get(2)?)),
        ANSWER => row.get(3).map(|Json(effected)| Answered::Effect(Box::new(effected)))?,
        other => return Err(row.wrong(1, format_args!("unknown kind {other:?}"))),
    };
    Ok((row.get(0)?, answered))
}
