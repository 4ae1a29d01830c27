//! One entry, inside the transaction of its group.

use drawloom_contract::{
    ids::RunKey,
    journal::{CommitError, Committed},
    log::LogChanged,
    once::{Answered, Effected, Made, Once},
    values::ChangeError,
    view::{Patch, RunView},
    wait::WaitChange,
};
use serde_json::Value;

use crate::{
    prepare::{Change, Run, Work},
    sqlite::{Connection, Error, Transactions, error::is_constraint},
    tables::{Writes, values::Tally},
};

/// Why an entry was not applied.
#[derive(Debug)]
pub(crate) enum Stopped {
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

impl From<CommitError> for Stopped {
    fn from(error: CommitError) -> Self {
        Self::Refused(error)
    }
}

type Result<T> = std::result::Result<T, Stopped>;

/// Makes `work` true in the open transaction, or leaves no trace of it.
pub(crate) fn apply(
    connection: &Connection,
    transactions: &mut Transactions<'_>,
    writes: &mut Writes<'_>,
    tally: &mut Tally,
    work: &Work,
) -> Result<Committed> {
    // With one run and nothing else that can be refused, the check is the entry's first write: no savepoint is needed.
    let is_plain = work.once.is_none()
        && work.batch.is_none()
        && work.values.is_empty()
        && work.logs.is_empty()
        && !work.waits.iter().any(|change| matches!(change, WaitChange::OneMore { .. }));
    if (work.runs.len() <= 1 && is_plain) || is_one_change(work) {
        return write(connection, writes, tally, work);
    }
    transactions.savepoint()?;
    let before = tally.clone();
    let written = write(connection, writes, tally, work);
    match &written {
        Ok(_) => {}
        Err(Stopped::Refused(_) | Stopped::Malformed(_)) => {
            transactions.undo()?;
            *tally = before;
        }
        // The whole group is rolled back.
        Err(Stopped::Failed(_)) => return written,
    }
    transactions.release()?;
    written
}

/// Whether it changes one value or one log and nothing else. What can be refused of it is refused before anything is written, apart from
/// the removal of values whose time is over.
fn is_one_change(work: &Work) -> bool {
    work.values.len() + work.logs.len() == 1
        && work.runs.is_empty()
        && work.waits.is_empty()
        && work.batch.is_none()
        && work.definitions.is_empty()
}

fn write(connection: &Connection, writes: &mut Writes<'_>, tally: &mut Tally, work: &Work) -> Result<Committed> {
    if let Some(once) = &work.once {
        refuse_repeat(writes, once)?;
    }
    if let Some(batch) = &work.batch {
        writes.batches.begin(batch)?;
    }
    // Children that end here are counted off before this entry's waits begin, which leave out those that have ended.
    let mut candidates = Vec::new();
    for run in &work.runs {
        write_run(writes, run, &mut candidates)?;
    }
    // Asked now, because a later insert elsewhere would change it.
    let position = if work.records() == 0 { 0 } else { connection.last_insert_id() };
    for pinned in &work.definitions {
        writes.definitions.keep(pinned)?;
    }
    for change in &work.waits {
        if let WaitChange::OneMore { run, call } = change
            && !writes.waits.count_up(run, *call)?
        {
            return Err(CommitError::NotWaiting { parent: run.run, call: *call }.into());
        }
        writes.waits.change(change)?;
    }
    let mut revisions = Vec::with_capacity(work.values.len());
    for changed in &work.values {
        revisions.push(writes.values.change(changed, tally)?.map_err(CommitError::Refused)?);
    }
    let mut logs = Vec::with_capacity(work.logs.len());
    for (change, bodies) in &work.logs {
        logs.push(writes.logs.change(change, bodies, &mut tally.logs)?);
    }
    if let Some(once) = &work.once {
        keep_answer(writes, tally, once, &revisions, &logs)?;
    }
    let mut woken = Vec::new();
    for candidate in candidates {
        if !woken.contains(&candidate) && writes.runs.is_woken(&candidate)? {
            woken.push(candidate);
        }
    }
    Ok(Committed { position, woken, revisions, logs })
}

/// Refuses what was done before under the same key, and effects of a run that has ended.
fn refuse_repeat(writes: &mut Writes<'_>, once: &Once) -> Result<()> {
    match once {
        Once::Request { key, .. } => match writes.keys.find(key)? {
            Some((body, answered)) if body == key.body => Err(CommitError::Repeated(answered).into()),
            Some(_) => Err(CommitError::Refused(ChangeError::KeyReused).into()),
            None => Ok(()),
        },
        Once::Call(effect) => {
            let is_live = writes.runs.find_seq(&effect.run)?.is_some_and(|(_, ended)| !ended);
            if !is_live {
                return Err(CommitError::Refused(ChangeError::RunEnded(effect.run.run)).into());
            }
            match writes.effects.find(effect)? {
                Some(effected) => Err(CommitError::Repeated(Answered::Effect(Box::new(effected))).into()),
                None => Ok(()),
            }
        }
    }
}

/// Stores what a repeat is answered, in the transaction of the change itself.
fn keep_answer(
    writes: &mut Writes<'_>,
    tally: &mut Tally,
    once: &Once,
    revisions: &[u64],
    logs: &[LogChanged],
) -> Result<()> {
    let effected = |answer: &Value| Effected {
        answer: answer.clone(),
        revisions: revisions.to_vec(),
        logs: logs.to_vec(),
        left_out: None,
    };
    match once {
        Once::Request { key, made: Made::Handle(handle) } => writes.keys.insert_handle(key, handle)?,
        Once::Request { key, made: Made::Answer { answer, at } } => {
            let Writes { keys, values, .. } = writes;
            keys.insert_answer(key, &effected(answer), *at, values, tally)?;
        }
        Once::Call(effect) => writes.effects.insert(effect, &effected(&effect.answer))?,
    }
    Ok(())
}

/// Writes one run's row and records. Runs that may have nothing left to wait for become candidates.
fn write_run(writes: &mut Writes<'_>, run: &Run, candidates: &mut Vec<RunKey>) -> Result<()> {
    let ended = match &run.change {
        Change::Begin(view) => {
            begin_run(writes, run, view)?;
            view.ended_at
        }
        Change::Advance(patch) => {
            advance_run(writes, run, patch)?;
            patch.ended_at
        }
    };
    for blob in &run.blobs {
        writes.blobs.keep(&run.key, blob)?;
    }
    writes.records.insert(run)?;
    if ended.is_some() {
        end_run(writes, &run.key, candidates)?;
    }
    if run.parks {
        candidates.push(run.key.clone());
    }
    Ok(())
}

fn begin_run(writes: &mut Writes<'_>, run: &Run, view: &RunView) -> Result<()> {
    if run.exclusive_session {
        check_session(writes, view)?;
    }
    check_retried(writes, view)?;
    match writes.runs.insert(run, view) {
        Ok(()) => Ok(writes.sessions.join(view)?),
        Err(error) if is_constraint(&error) => Err(why_not(writes, view, error)?),
        Err(error) => Err(error.into()),
    }
}

/// Checks that the session exists and that no other run of it is live.
fn check_session(writes: &mut Writes<'_>, view: &RunView) -> Result<()> {
    let session = view.session;
    if !writes.sessions.is_known(&view.tenant, session)? {
        return Err(CommitError::UnknownSession(session).into());
    }
    match writes.runs.find_busy(&view.tenant, session, view.run)? {
        Some(run) => Err(CommitError::SessionBusy { session, run }.into()),
        None => Ok(()),
    }
}

/// Refuses the retry of a run that was deleted meanwhile, or whose batch was: no one could delete it any more.
fn check_retried(writes: &mut Writes<'_>, view: &RunView) -> Result<()> {
    let Some(retry) = &view.retry else { return Ok(()) };
    let of = RunKey { tenant: view.tenant.clone(), run: retry.of };
    let is_batch_gone = match &view.batch {
        Some(place) => !writes.batches.is_known(&view.tenant, place.batch)?,
        None => false,
    };
    match is_batch_gone || writes.runs.find_seq(&of)?.is_none() {
        true => Err(CommitError::RetriedGone(retry.of).into()),
        false => Ok(()),
    }
}

/// Which rule a new run's row breaks.
fn why_not(writes: &mut Writes<'_>, view: &RunView, error: Error) -> std::result::Result<Stopped, Error> {
    if let Some((found, _)) = writes.runs.find_seq(&view.key())? {
        return Ok(CommitError::Conflict { run: view.run, expected: 0, found }.into());
    }
    if let Some(retry) = &view.retry
        && let Some(by) = writes.runs.find_retry(&view.tenant, retry.of)?
    {
        return Ok(CommitError::AlreadyRetried { run: retry.of, by }.into());
    }
    if let Some(parent) = &view.parent
        && writes.runs.has_child(&view.tenant, parent)?
    {
        let (parent, call, index) = (parent.run, parent.call, parent.index);
        return Ok(CommitError::ChildExists { parent, call, index }.into());
    }
    Ok(match writes.runs.find_live(&view.tenant, &view.agent_id)? {
        Some(run) => CommitError::AgentIdInUse { agent_id: view.agent_id.clone(), run }.into(),
        None => Stopped::Failed(error),
    })
}

fn advance_run(writes: &mut Writes<'_>, run: &Run, patch: &Patch) -> Result<()> {
    if writes.runs.advance(run, patch)? {
        return Ok(());
    }
    let (found, ended) = writes.runs.find_seq(&run.key)?.unwrap_or((0, false));
    Err(if ended && found == run.expected {
        Stopped::Malformed(format!("run {} has ended; no record can follow", run.key.run))
    } else {
        CommitError::Conflict { run: run.key.run, expected: run.expected, found }.into()
    })
}

/// Ends the waits and effects of a run that ended, and counts it off its parent's.
fn end_run(writes: &mut Writes<'_>, key: &RunKey, candidates: &mut Vec<RunKey>) -> Result<()> {
    writes.waits.end_all(key)?;
    writes.effects.end_all(key)?;
    let Some((parent, call)) = writes.runs.find_parent(key)? else { return Ok(()) };
    if writes.waits.count_down(&key.tenant, parent, call)? {
        candidates.push(RunKey { tenant: key.tenant.clone(), run: parent });
    }
    Ok(())
}
