//! Runs: each as its records leave it. The row is derived from the records in the same transaction.
//!
//! Every index is paid for by every run, so most are partial: only children, members of a batch and unfinished runs are
//! in theirs.

mod columns;
pub(crate) mod costs;
pub(crate) mod labels;
pub(crate) mod list;
pub(crate) mod prune;
pub(crate) mod read;
mod row;

use drawloom_contract::{
    ids::{AgentId, RunId, RunKey, SessionId, Tenant},
    record::{Parent, Seq},
    view::{Patch, RunView},
};

use super::waits::children_have_ended;
use crate::{
    prepare::Run,
    sqlite::{Result, values},
};
pub(crate) use row::STEPS;

statements! {
    insert: columns::insert(row::COLUMNS);
    advance: columns::advance(row::COLUMNS);
    finish: columns::finish(row::COLUMNS);
    find_seq: "SELECT seq, ended_at IS NOT NULL FROM runs WHERE tenant = $1 AND run = $2";
    find_parent: "SELECT parent_run, parent_call FROM runs WHERE tenant = $1 AND run = $2";
    find_child: "SELECT 1 FROM runs WHERE tenant = $1 AND parent_run = $2 AND parent_call = $3 AND parent_index = $4";
    find_retry: "SELECT run FROM runs WHERE tenant = $1 AND retry_of = $2";
    find_live_agent_id: "SELECT run FROM runs WHERE tenant = $1 AND agent_id = $2 AND ended_at IS NULL";
    /// Without being told, SQLite would look at all runs of the tenant.
    find_busy: "SELECT run FROM runs INDEXED BY runs_by_session \
        WHERE tenant = $1 AND session = $2 AND ended_at IS NULL AND run <> $3 LIMIT 1";
    find_woken: concat!(
        "SELECT 1 FROM runs WHERE tenant = $1 AND run = $2 AND status = 'waiting' AND ",
        children_have_ended!()
    );
}

impl Writes<'_> {
    /// Writes the row of a run that begins.
    pub(crate) fn insert(&mut self, run: &Run, view: &RunView) -> Result<()> {
        self.insert.execute(&row::values(view, run.final_blob.as_ref())).map(drop)
    }

    /// Changes the row of a run that is live and at the expected record; says whether it was.
    pub(crate) fn advance(&mut self, run: &Run, patch: &Patch) -> Result<bool> {
        let changed = match patch.ended_at {
            None => self.advance.execute(&row::changes(run, patch))?,
            Some(_) => self.finish.execute(&row::last_changes(run, patch))?,
        };
        Ok(changed == 1)
    }

    /// Where a run is, and whether it has ended.
    pub(crate) fn find_seq(&mut self, key: &RunKey) -> Result<Option<(Seq, bool)>> {
        self.find_seq.first(values![&key.tenant, &key.run], |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// The run and the call that spawned this one.
    pub(crate) fn find_parent(&mut self, key: &RunKey) -> Result<Option<(RunId, Seq)>> {
        let parent = self.find_parent.first(values![&key.tenant, &key.run], |row| {
            Ok(row.get::<Option<RunId>>(0)?.zip(row.get::<Option<Seq>>(1)?))
        })?;
        Ok(parent.flatten())
    }

    /// Whether a call has this child.
    pub(crate) fn has_child(&mut self, tenant: &Tenant, parent: &Parent) -> Result<bool> {
        self.find_child.finds(values![tenant, &parent.run, parent.call, parent.index])
    }

    /// The retry of a run.
    pub(crate) fn find_retry(&mut self, tenant: &Tenant, of: RunId) -> Result<Option<RunId>> {
        self.find_retry.first(values![tenant, &of], |row| row.get(0))
    }

    /// The live run that has this agent id.
    pub(crate) fn find_live(&mut self, tenant: &Tenant, agent_id: &AgentId) -> Result<Option<RunId>> {
        self.find_live_agent_id.first(values![tenant, agent_id], |row| row.get(0))
    }

    /// A live run of the session besides `run`.
    pub(crate) fn find_busy(&mut self, tenant: &Tenant, session: SessionId, run: RunId) -> Result<Option<RunId>> {
        self.find_busy.first(values![tenant, &session, &run], |row| row.get(0))
    }

    /// Whether the run is parked with nothing left to wait for.
    pub(crate) fn is_woken(&mut self, key: &RunKey) -> Result<bool> {
        self.find_woken.finds(values![&key.tenant, &key.run])
    }
}
