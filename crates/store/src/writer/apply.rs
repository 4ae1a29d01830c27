//! One entry, inside the transaction of its group.

use drawloom_contract::{
    ids::{Digest, RunId, RunKey},
    journal::{CommitError, Committed, NewBatch, RequestKey, WaitChange},
    record::{self, Seq},
    time::Timestamp,
    values::ValueChange,
    view::{Patch, RunView},
};
use rusqlite::{Connection, Error, ToSql};

use super::statements::Statements;
use crate::{
    error::is_constraint,
    prepare::{Change, Run, Work},
    rows::{read_key, stored_handle},
    sql::{integer, natural},
};

/// Why an entry was not applied.
#[derive(Debug)]
pub(super) enum Stopped {
    /// It may not be written; its neighbours may.
    Refused(CommitError),
    /// It asks for something that no writer should.
    Malformed(String),
    /// The database failed.
    Failed(Error),
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

type Result<T> = std::result::Result<T, Stopped>;

/// Makes `work` true in the open transaction, or leaves no trace of it.
pub(super) fn apply(connection: &Connection, statements: &mut Statements<'_>, work: &Work) -> Result<Committed> {
    // With one run and nothing else that can be refused, the check is the entry's first write: no savepoint is needed.
    if work.runs.len() <= 1 && work.key.is_none() && work.batch.is_none() {
        return write(connection, statements, work);
    }
    statements.savepoint.execute(&[])?;
    let written = write(connection, statements, work);
    match &written {
        Ok(_) => {}
        Err(Stopped::Refused(_) | Stopped::Malformed(_)) => _ = statements.undo.execute(&[])?,
        // The whole group is rolled back.
        Err(Stopped::Failed(_)) => return written,
    }
    statements.release.execute(&[])?;
    written
}

fn write(connection: &Connection, statements: &mut Statements<'_>, work: &Work) -> Result<Committed> {
    if let Some(key) = &work.key {
        claim_key(statements, key)?;
    }
    if let Some(batch) = &work.batch {
        begin_batch(statements, batch)?;
    }
    // Children that end here are counted off before this entry's waits begin, which leave out those that have ended.
    let mut candidates = Vec::new();
    for run in &work.runs {
        write_run(statements, run, &mut candidates)?;
    }
    // Asked now, because a later insert elsewhere would change it.
    let position = if work.records() == 0 { 0 } else { natural(connection.last_insert_rowid()) };
    for pinned in &work.definitions {
        let values: [&dyn ToSql; 3] = [&pinned.tenant.as_str(), pinned.digest.as_bytes(), &pinned.body];
        statements.insert_definition.execute(&values)?;
    }
    for change in &work.waits {
        change_wait(statements, change)?;
    }
    for change in &work.values {
        change_value(statements, change)?;
    }
    let mut woken = Vec::new();
    for candidate in candidates {
        let values: [&dyn ToSql; 2] = [&candidate.tenant.as_str(), candidate.run.as_bytes()];
        if !woken.contains(&candidate) && statements.find_woken.first(&values, |_| Ok(()))?.is_some() {
            woken.push(candidate);
        }
    }
    Ok(Committed { position, woken })
}

fn claim_key(statements: &mut Statements<'_>, key: &RequestKey) -> Result<()> {
    let (tenant, subject) = (key.tenant.as_str(), key.subject.as_str());
    let found = statements.find_key.first(&[&tenant, &subject, &key.operation, key.key.as_bytes()], read_key)?;
    match found {
        Some((body, handle)) if body == key.body => return Err(Stopped::Refused(CommitError::Repeated(handle))),
        Some(_) => return Err(Stopped::Refused(CommitError::KeyReused)),
        None => {}
    }
    let (kind, id) = stored_handle(&key.handle);
    let values: [&dyn ToSql; 7] =
        [&tenant, &subject, &key.operation, key.key.as_bytes(), key.body.as_bytes(), &kind, id];
    statements.insert_key.execute(&values)?;
    Ok(())
}

fn change_value(statements: &mut Statements<'_>, change: &ValueChange) -> Result<()> {
    match change {
        ValueChange::Put { key, value, at, expires_at } => {
            statements.remove_old_values.execute(&[&key.space, &at.as_millis()])?;
            let values: [&dyn ToSql; 5] =
                [&key.tenant.as_str(), &key.space, &key.key, &value.to_string(), &expires_at.as_millis()];
            statements.put_value.execute(&values)?;
        }
        ValueChange::Remove { key } => {
            statements.remove_value.execute(&[&key.tenant.as_str(), &key.space, &key.key])?;
        }
    }
    Ok(())
}

fn begin_batch(statements: &mut Statements<'_>, batch: &NewBatch) -> Result<()> {
    let values: [&dyn ToSql; 4] = [&batch.tenant.as_str(), batch.batch.as_bytes(), &batch.user.as_str(), &batch.size];
    statements.insert_batch.execute(&values)?;
    Ok(())
}

/// Writes one run's row and records. Runs that may have nothing left to wait for become candidates.
fn write_run(statements: &mut Statements<'_>, run: &Run, candidates: &mut Vec<RunKey>) -> Result<()> {
    let tenant = run.key.tenant.as_str();
    match &run.change {
        Change::Begin(view) => begin_run(statements, run, view)?,
        Change::Advance(patch) => advance_run(statements, run, patch)?,
    }
    for blob in &run.blobs {
        statements.insert_blob.execute(&[&tenant, blob.digest.as_bytes(), &blob.text.as_bytes()])?;
        statements.insert_blob_use.execute(&[&tenant, run.key.run.as_bytes(), blob.digest.as_bytes()])?;
    }
    for row in &run.rows {
        let values: [&dyn ToSql; 7] = [
            &tenant,
            run.key.run.as_bytes(),
            &integer(row.seq),
            &row.at.as_millis(),
            &record::FORMAT,
            &row.form.number(),
            &&run.bodies[row.body.clone()],
        ];
        statements.insert_record.execute(&values)?;
    }
    let ended = match &run.change {
        Change::Begin(view) => view.ended_at,
        Change::Advance(patch) => patch.ended_at,
    };
    if ended.is_some() {
        end_run(statements, &run.key, candidates)?;
    }
    if run.parks {
        candidates.push(run.key.clone());
    }
    Ok(())
}

fn begin_run(statements: &mut Statements<'_>, run: &Run, view: &RunView) -> Result<()> {
    let tenant = run.key.tenant.as_str();
    if run.exclusive_session {
        check_session(statements, view)?;
    }
    let parent = view.parent.as_ref();
    let error = view.error.as_ref().map(json);
    let warnings = (!view.warnings.is_empty()).then(|| json(&view.warnings));
    let values: [&dyn ToSql; 36] = [
        &tenant,
        view.run.as_bytes(),
        view.session.as_bytes(),
        &view.agent_id.as_str(),
        &view.agent.as_str(),
        view.definition.as_bytes(),
        &view.user.as_str(),
        &view.provider,
        &view.model,
        &parent.map(|parent| parent.run.as_bytes()),
        &parent.map(|parent| parent.agent_id.as_str()),
        &parent.map(|parent| integer(parent.call)),
        &parent.map(|parent| parent.index),
        view.root.as_bytes(),
        &view.depth,
        &view.batch.as_ref().map(|place| place.batch.as_bytes()),
        &view.batch.map(|place| place.index),
        &view.parent_context.as_ref().map(|context| context.to_string()),
        &view.status.as_str(),
        &integer(view.seq),
        &view.accepted_at.as_millis(),
        &view.started_at.map(Timestamp::as_millis),
        &view.ended_at.map(Timestamp::as_millis),
        &view.deadline.map(Timestamp::as_millis),
        &view.queue_timeout_ms.map(integer),
        &view.stop_reason.map(|reason| reason.as_str()),
        &view.final_text,
        &run.final_blob.as_ref().map(Digest::as_bytes),
        &error,
        &integer(view.usage.input_tokens),
        &integer(view.usage.output_tokens),
        &integer(view.usage.cache_creation_input_tokens),
        &integer(view.usage.cache_read_input_tokens),
        &warnings,
        &view.strikes,
        &view.cost.map(|cost| integer(cost.0)),
    ];
    match statements.insert_run.execute(&values) {
        Ok(_) => {}
        Err(error) if is_constraint(&error) => return Err(why_not(statements, view, error)?),
        Err(error) => return Err(error.into()),
    }
    let values: [&dyn ToSql; 5] =
        [&tenant, view.session.as_bytes(), &view.agent.as_str(), &view.user.as_str(), &view.accepted_at.as_millis()];
    statements.insert_session.execute(&values)?;
    Ok(())
}

/// A run that joins a session finds it there, and nobody else at work in it.
fn check_session(statements: &mut Statements<'_>, view: &RunView) -> Result<()> {
    let (tenant, session) = (view.tenant.as_str(), view.session);
    if statements.find_session.first(&[&tenant, session.as_bytes()], |_| Ok(()))?.is_none() {
        return Err(Stopped::Refused(CommitError::UnknownSession(session)));
    }
    let values: [&dyn ToSql; 3] = [&tenant, session.as_bytes(), view.run.as_bytes()];
    match statements.find_busy.first(&values, |row| Ok(RunId::from_bytes(row.get(0)?)))? {
        Some(run) => Err(Stopped::Refused(CommitError::SessionBusy { session, run })),
        None => Ok(()),
    }
}

/// Which rule a new run's row breaks.
fn why_not(statements: &mut Statements<'_>, view: &RunView, error: Error) -> std::result::Result<Stopped, Error> {
    let tenant = view.tenant.as_str();
    if let Some((found, _)) = find_seq(statements, &view.key())? {
        return Ok(Stopped::Refused(CommitError::Conflict { run: view.run, expected: 0, found }));
    }
    if let Some(parent) = &view.parent {
        let values: [&dyn ToSql; 4] = [&tenant, parent.run.as_bytes(), &integer(parent.call), &parent.index];
        if statements.find_child.first(&values, |_| Ok(()))?.is_some() {
            let (parent, call, index) = (parent.run, parent.call, parent.index);
            return Ok(Stopped::Refused(CommitError::ChildExists { parent, call, index }));
        }
    }
    let values: [&dyn ToSql; 2] = [&tenant, &view.agent_id.as_str()];
    let holder = statements.find_live_agent_id.first(&values, |row| Ok(RunId::from_bytes(row.get(0)?)))?;
    Ok(match holder {
        Some(run) => Stopped::Refused(CommitError::AgentIdInUse { agent_id: view.agent_id.clone(), run }),
        None => Stopped::Failed(error),
    })
}

fn advance_run(statements: &mut Statements<'_>, run: &Run, patch: &Patch) -> Result<()> {
    let (tenant, expected, seq) = (run.key.tenant.as_str(), integer(run.expected), integer(patch.seq));
    let (status, started_at) = (patch.status.map(|status| status.as_str()), patch.started_at.map(Timestamp::as_millis));
    let deadline = patch.deadline.map(Timestamp::as_millis);
    let final_blob = run.final_blob.as_ref().map(Digest::as_bytes);
    let usage = [
        integer(patch.usage.input_tokens),
        integer(patch.usage.output_tokens),
        integer(patch.usage.cache_creation_input_tokens),
        integer(patch.usage.cache_read_input_tokens),
    ];
    let model = patch.model.as_ref();
    let shared: [&dyn ToSql; 17] = [
        &tenant,
        run.key.run.as_bytes(),
        &expected,
        &seq,
        &status,
        &started_at,
        &deadline,
        &patch.final_text,
        &final_blob,
        &usage[0],
        &usage[1],
        &usage[2],
        &usage[3],
        &patch.strikes,
        &model.map(|name| &name.provider),
        &model.map(|name| &name.model),
        &patch.cost.map(|cost| integer(cost.0)),
    ];
    let changed = match patch.ended_at {
        None => statements.advance_run.execute(&shared)?,
        Some(ended_at) => {
            let ended_at = ended_at.as_millis();
            let stop_reason = patch.stop_reason.map(|reason| reason.as_str());
            let error = patch.error.as_ref().map(json);
            let warnings = patch.warnings.as_ref().filter(|warnings| !warnings.is_empty()).map(json);
            let mut values: Vec<&dyn ToSql> = Vec::with_capacity(21);
            values.extend_from_slice(&shared);
            values.extend::<[&dyn ToSql; 4]>([&ended_at, &stop_reason, &error, &warnings]);
            statements.finish_run.execute(&values)?
        }
    };
    if changed == 1 {
        return Ok(());
    }
    let (found, ended) = find_seq(statements, &run.key)?.unwrap_or((0, false));
    Err(if ended && found == run.expected {
        Stopped::Malformed(format!("run {} has ended, so no record can follow", run.key.run))
    } else {
        Stopped::Refused(CommitError::Conflict { run: run.key.run, expected: run.expected, found })
    })
}

fn find_seq(statements: &mut Statements<'_>, key: &RunKey) -> std::result::Result<Option<(Seq, bool)>, Error> {
    let values: [&dyn ToSql; 2] = [&key.tenant.as_str(), key.run.as_bytes()];
    statements.find_seq.first(&values, |row| Ok((natural(row.get(0)?), row.get(1)?)))
}

/// Ends the waits of a run that ended, and counts it off its parent's.
fn end_run(statements: &mut Statements<'_>, key: &RunKey, candidates: &mut Vec<RunKey>) -> Result<()> {
    let tenant = key.tenant.as_str();
    statements.end_waits.execute(&[&tenant, key.run.as_bytes()])?;
    let parent = statements.find_parent.first(&[&tenant, key.run.as_bytes()], |row| {
        Ok(row.get::<_, Option<[u8; 16]>>(0)?.zip(row.get::<_, Option<i64>>(1)?))
    })?;
    let Some((parent, call)) = parent.flatten() else { return Ok(()) };
    if statements.count_down.execute(&[&tenant, &parent, &call])? > 0 {
        candidates.push(RunKey { tenant: key.tenant.clone(), run: RunId::from_bytes(parent) });
    }
    Ok(())
}

fn change_wait(statements: &mut Statements<'_>, change: &WaitChange) -> Result<()> {
    match change {
        WaitChange::Children { run, call, count } => {
            let values: [&dyn ToSql; 4] = [&run.tenant.as_str(), run.run.as_bytes(), &integer(*call), count];
            statements.wait_for_children.execute(&values)?;
        }
        WaitChange::Until { run, call, due } => {
            let due = due.as_millis();
            statements.wait_until.execute(&[&run.tenant.as_str(), run.run.as_bytes(), &integer(*call), &due])?;
        }
        WaitChange::Remove { run, call } => {
            statements.end_wait.execute(&[&run.tenant.as_str(), run.run.as_bytes(), &integer(*call)])?;
        }
    }
    Ok(())
}

fn json<T: serde::Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).expect("texts are always JSON")
}
