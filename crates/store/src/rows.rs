//! A run's row: one list of columns, read and written here alone.

use drawloom_contract::{
    ids::{BatchId, Digest, RunId, SessionId},
    journal::HandleId,
    money::Cost,
    record::{BatchPlace, Parent, Status, StopReason},
    time::Timestamp,
    usage::Usage,
    view::RunView,
};
use rusqlite::{
    Error, Result, Row,
    types::{FromSql, Type},
};
use serde::de::DeserializeOwned;

use crate::sql::natural;

/// `SELECT` of a run's columns, then what follows `FROM runs`. Its first text says where `final_text` comes from.
macro_rules! select_runs {
    ($final_text:literal, $rest:literal) => {
        concat!(
            "SELECT tenant, run, session, agent_id, agent, definition, user, provider, model, parent_run, \
             parent_agent_id, parent_call, parent_index, root, depth, batch, batch_index, parent_context, status, seq, \
             accepted_at, started_at, ended_at, deadline, queue_timeout_ms, stop_reason, ",
            $final_text,
            ", error, input_tokens, output_tokens, cache_creation_input_tokens, cache_read_input_tokens, warnings, \
             strikes, cost FROM runs ",
            $rest
        )
    };
    ($rest:literal) => {
        $crate::rows::select_runs!(
            "final_text, final_blob, (SELECT CAST(bytes AS TEXT) FROM blobs WHERE blobs.tenant = runs.tenant AND \
             digest = final_blob)",
            $rest
        )
    };
}
pub(crate) use select_runs;

/// What stands for `final_text` where texts are not wanted.
macro_rules! select_runs_without_texts {
    ($rest:literal) => {
        $crate::rows::select_runs!("NULL, NULL, NULL", $rest)
    };
}
pub(crate) use select_runs_without_texts;

/// The run that a row of `select_runs!` shows.
pub(crate) fn read_run(row: &Row<'_>) -> Result<RunView> {
    let mut columns = Columns { row, next: 0 };
    let columns = &mut columns;
    Ok(RunView {
        tenant: columns.parsed()?,
        run: RunId::from_bytes(columns.take()?),
        session: SessionId::from_bytes(columns.take()?),
        agent_id: columns.parsed()?,
        agent: columns.parsed()?,
        definition: Digest::from_bytes(columns.take()?),
        user: columns.parsed()?,
        provider: columns.take()?,
        model: columns.take()?,
        parent: read_parent(columns)?,
        root: RunId::from_bytes(columns.take()?),
        depth: columns.take()?,
        batch: read_batch(columns)?,
        parent_context: columns.json()?,
        status: columns.word(Status::ALL, Status::as_str)?.ok_or_else(|| columns.wrong("no status"))?,
        seq: natural(columns.take()?),
        accepted_at: Timestamp::from_millis(columns.take()?),
        started_at: columns.time()?,
        ended_at: columns.time()?,
        deadline: columns.time()?,
        queue_timeout_ms: columns.take::<Option<i64>>()?.map(natural),
        stop_reason: columns.word(StopReason::ALL, StopReason::as_str)?,
        final_text: read_final_text(columns)?,
        error: columns.json()?,
        usage: Usage {
            input_tokens: natural(columns.take()?),
            output_tokens: natural(columns.take()?),
            cache_creation_input_tokens: natural(columns.take()?),
            cache_read_input_tokens: natural(columns.take()?),
        },
        warnings: columns.json()?.unwrap_or_default(),
        strikes: columns.take()?,
        cost: columns.take::<Option<i64>>()?.map(|cost| Cost(natural(cost))),
    })
}

fn read_parent(columns: &mut Columns<'_>) -> Result<Option<Parent>> {
    let run = columns.take::<Option<[u8; 16]>>()?;
    let agent_id = columns.take::<Option<String>>()?;
    let call = columns.take::<Option<i64>>()?;
    let index = columns.take::<Option<u32>>()?;
    match (run, agent_id, call, index) {
        (Some(run), Some(agent_id), Some(call), Some(index)) => Ok(Some(Parent {
            run: RunId::from_bytes(run),
            agent_id: agent_id.parse().map_err(|error| columns.wrong(error))?,
            call: natural(call),
            index,
        })),
        (None, None, None, None) => Ok(None),
        _ => Err(columns.wrong("half a parent")),
    }
}

fn read_batch(columns: &mut Columns<'_>) -> Result<Option<BatchPlace>> {
    match (columns.take::<Option<[u8; 16]>>()?, columns.take::<Option<u32>>()?) {
        (Some(batch), Some(index)) => Ok(Some(BatchPlace { batch: BatchId::from_bytes(batch), index })),
        (None, None) => Ok(None),
        _ => Err(columns.wrong("half a place in a batch")),
    }
}

fn read_final_text(columns: &mut Columns<'_>) -> Result<Option<String>> {
    let inline = columns.take::<Option<String>>()?;
    let digest = columns.take::<Option<[u8; 32]>>()?;
    let blob = columns.take::<Option<String>>()?;
    match (digest, blob) {
        (None, _) => Ok(inline),
        (Some(_), Some(text)) => Ok(Some(text)),
        (Some(digest), None) => Err(columns.wrong(format!("blob {} is missing", Digest::from_bytes(digest)))),
    }
}

/// A value in column `column` that cannot be ours.
pub(crate) fn wrong(
    column: usize,
    kind: Type,
    error: impl Into<Box<dyn std::error::Error + Send + Sync + 'static>>,
) -> Error {
    Error::FromSqlConversionFailure(column, kind, error.into())
}

/// The columns of a row, one after the other.
struct Columns<'r> {
    row: &'r Row<'r>,
    next: usize,
}

impl Columns<'_> {
    fn take<T: FromSql>(&mut self) -> Result<T> {
        let column = self.next;
        self.next += 1;
        self.row.get(column)
    }

    fn parsed<T: std::str::FromStr<Err: std::error::Error + Send + Sync + 'static>>(&mut self) -> Result<T> {
        let text: String = self.take()?;
        text.parse().map_err(|error| self.wrong(error))
    }

    fn json<T: DeserializeOwned>(&mut self) -> Result<Option<T>> {
        let text: Option<String> = self.take()?;
        text.map(|text| serde_json::from_str(&text)).transpose().map_err(|error| self.wrong(error))
    }

    fn time(&mut self) -> Result<Option<Timestamp>> {
        Ok(self.take::<Option<i64>>()?.map(Timestamp::from_millis))
    }

    fn word<T: Copy>(&mut self, all: &[T], name: impl Fn(T) -> &'static str) -> Result<Option<T>> {
        let Some(text) = self.take::<Option<String>>()? else { return Ok(None) };
        let found = all.iter().find(|word| name(**word) == text);
        found.map(|word| Some(*word)).ok_or_else(|| self.wrong(format!("{text:?} is not a known value")))
    }

    fn wrong(&self, error: impl Into<Box<dyn std::error::Error + Send + Sync + 'static>>) -> Error {
        wrong(self.next.saturating_sub(1), Type::Text, error)
    }
}

/// Kinds of handles, as they are stored.
const RUN: &str = "run";
const BATCH: &str = "batch";

/// A handle's kind and id, as they are stored.
pub(crate) fn stored_handle(handle: &HandleId) -> (&'static str, &[u8; 16]) {
    match handle {
        HandleId::Run(run) => (RUN, run.as_bytes()),
        HandleId::Batch(batch) => (BATCH, batch.as_bytes()),
    }
}

/// What a request key was used for.
pub(crate) const FIND_KEY: &str = "SELECT body, handle_kind, handle FROM keys \
    WHERE tenant = $1 AND subject = $2 AND operation = $3 AND key = $4";

/// A row of `FIND_KEY`.
pub(crate) fn read_key(row: &Row<'_>) -> Result<(Digest, HandleId)> {
    let id = row.get(2)?;
    let handle = match row.get_ref(1)?.as_str()? {
        RUN => HandleId::Run(RunId::from_bytes(id)),
        BATCH => HandleId::Batch(BatchId::from_bytes(id)),
        other => return Err(wrong(1, Type::Text, format!("{other:?} is not a kind of handle"))),
    };
    Ok((Digest::from_bytes(row.get(0)?), handle))
}
