//! What can be read of runs.

use drawloom_contract::{
    caller::Visible,
    ids::{AgentId, BatchId, RunId, RunKey, Tenant},
    journal::Due,
    money::{Cost, Spent, TreeTotal},
    record::{Seq, Status},
    view::RunView,
};

use super::{
    columns::{select_runs, select_runs_without_texts},
    row::{names, read},
};
use crate::{
    sqlite::{Connection, Result, values},
    tables::waits::{children_have_ended, is_newest_child, read_due},
};

pub(crate) fn find(connection: &Connection, key: &RunKey) -> Result<Option<RunView>> {
    const FIND: &str = select_runs!("WHERE tenant = $1 AND run = $2");
    connection.prepare(FIND)?.first(values![&key.tenant, &key.run], read)
}

pub(crate) fn find_without_text(connection: &Connection, key: &RunKey) -> Result<Option<RunView>> {
    const FIND: &str = select_runs_without_texts!("WHERE tenant = $1 AND run = $2");
    connection.prepare(FIND)?.first(values![&key.tenant, &key.run], read)
}

/// The live run with this agent id, or else the newest.
pub(crate) fn find_by_agent_id(
    connection: &Connection,
    visible: &Visible,
    agent_id: &AgentId,
) -> Result<Option<RunView>> {
    const LIVE: &str =
        select_runs!("WHERE tenant = $1 AND agent_id = $2 AND ended_at IS NULL AND ($3 IS NULL OR user_id = $3)");
    const NEWEST: &str = select_runs!(
        "WHERE tenant = $1 AND agent_id = $2 AND ended_at IS NOT NULL AND ($3 IS NULL OR user_id = $3) \
         ORDER BY run DESC LIMIT 1"
    );
    let values = values![visible.tenant(), agent_id, visible.owner()];
    match connection.prepare(LIVE)?.first(values, read)? {
        Some(live) => Ok(Some(live)),
        None => connection.prepare(NEWEST)?.first(values, read),
    }
}

/// The children of a call, by index.
pub(crate) fn children(connection: &Connection, parent: &RunKey, call: Seq) -> Result<Vec<RunView>> {
    const CHILDREN: &str = select_runs!(concat!(
        "WHERE tenant = $1 AND parent_run = $2 AND parent_call = $3 AND ",
        is_newest_child!(),
        " ORDER BY parent_index"
    ));
    connection.prepare(CHILDREN)?.all(values![&parent.tenant, &parent.run, call], read)
}

pub(crate) fn live_children(connection: &Connection, parent: &RunKey) -> Result<Vec<RunView>> {
    const LIVE: &str = select_runs!(
        "INDEXED BY runs_by_parent WHERE tenant = $1 AND parent_run = $2 AND ended_at IS NULL \
         ORDER BY parent_call, parent_index"
    );
    connection.prepare(LIVE)?.all(values![&parent.tenant, &parent.run], read)
}

/// The runs of a batch, by index.
pub(crate) fn of_batch(connection: &Connection, visible: &Visible, batch: BatchId) -> Result<Vec<RunView>> {
    const MEMBERS: &str = select_runs!(
        "WHERE tenant = $1 AND batch = $2 AND NOT EXISTS (SELECT 1 FROM runs AS later INDEXED BY runs_by_batch \
         WHERE later.tenant = runs.tenant AND later.batch = runs.batch AND later.batch_index = runs.batch_index \
         AND later.attempt > runs.attempt) ORDER BY batch_index"
    );
    connection.prepare(MEMBERS)?.all(values![visible.tenant(), &batch], read)
}

/// The retries of those of `runs` that were retried.
pub(crate) fn retries(connection: &Connection, tenant: &Tenant, runs: &[RunId]) -> Result<Vec<(RunId, RunId)>> {
    let mut found = connection.prepare("SELECT run FROM runs WHERE tenant = $1 AND retry_of = $2")?;
    let mut retries = Vec::new();
    for run in runs {
        retries.extend(found.first(values![tenant, run], |row| Ok((*run, row.get(0)?)))?);
    }
    Ok(retries)
}

/// How many runs a tree has.
pub(crate) fn tree_size(connection: &Connection, root: &RunKey) -> Result<u64> {
    const BELOW: &str =
        "SELECT count(*) FROM runs INDEXED BY runs_by_root WHERE tenant = $1 AND root = $2 AND depth > 0";
    let below = connection.prepare(BELOW)?.first(values![&root.tenant, &root.run], |row| row.get::<u64>(0))?;
    Ok(1 + below.unwrap_or_default())
}

/// What the sums over a tree are made of; the last column says whether the run failed and no later attempt has its place.
macro_rules! counted {
    () => {
        "SELECT runs.run, status, input_tokens, output_tokens, cache_creation_input_tokens, cache_read_input_tokens, \
         coalesce(cost, 0), assumed_cost, ended_at IS NOT NULL AND status <> 'completed' AND "
    };
}

/// Sums over a run and everything below it.
pub(crate) fn tree_total(connection: &Connection, top: &RunKey) -> Result<TreeTotal> {
    // The root itself is not in the index of trees, so it is asked for by its key.
    const SPENT: &str = concat!(
        counted!(),
        is_newest_child!(),
        " FROM runs WHERE tenant = $1 AND run = $2 UNION ALL ",
        counted!(),
        is_newest_child!(),
        " FROM runs INDEXED BY runs_by_root WHERE tenant = $1 AND root = $2 AND depth > 0"
    );
    const SPENT_BELOW: &str = concat!(
        "WITH RECURSIVE below (run) AS (SELECT $2 UNION ALL SELECT runs.run FROM below JOIN runs \
         INDEXED BY runs_by_parent ON runs.tenant = $1 AND runs.parent_run = below.run) ",
        counted!(),
        is_newest_child!(),
        " FROM below JOIN runs ON runs.tenant = $1 AND runs.run = below.run"
    );
    const DEPTH: &str = "SELECT depth FROM runs WHERE tenant = $1 AND run = $2";
    let depth = connection.prepare(DEPTH)?.first(values![&top.tenant, &top.run], |row| row.get::<u32>(0))?;
    let text = if depth == Some(0) { SPENT } else { SPENT_BELOW };
    let mut total = TreeTotal::default();
    connection.prepare(text)?.while_some(values![&top.tenant, &top.run], |row| {
        let mut tokens = 0u64;
        for column in 2..6 {
            tokens = tokens.saturating_add(row.get(column)?);
        }
        total.spent = total.spent + Spent { tokens, cost: row.get(6)? };
        if let Some(assumed) = row.get::<Option<Cost>>(7)? {
            total.assumed = Some(total.assumed.unwrap_or_default() + assumed);
        }
        if row.get::<RunId>(0)? != top.run {
            total.below += 1;
            total.failed += u64::from(row.get::<bool>(8)?);
        }
        Ok(Some(()))
    })?;
    Ok(total)
}

/// Unfinished runs that wait for nothing, oldest first: those that run or are queued, and those that were woken.
pub(crate) fn unfinished(connection: &Connection) -> Result<(Vec<RunView>, Vec<RunView>)> {
    const RUNS: &str = select_runs_without_texts!(
        "WHERE ended_at IS NULL AND (status <> 'waiting' OR ",
        children_have_ended!(),
        " OR NOT EXISTS (SELECT 1 FROM waits WHERE waits.tenant = runs.tenant AND waits.run = runs.run)) ORDER BY accepted_at, run"
    );
    let found = connection.prepare(RUNS)?.all(&[], read)?;
    Ok(found.into_iter().partition(|view| view.status != Status::Waiting))
}

/// The deadlines of parked runs, the next one first.
pub(crate) fn deadlines(connection: &Connection) -> Result<Vec<Due>> {
    const DEADLINES: &str = "SELECT tenant, run, deadline, coalesce(started_at, accepted_at) FROM runs \
        WHERE ended_at IS NULL AND status = 'waiting' AND deadline IS NOT NULL ORDER BY deadline";
    connection.prepare(DEADLINES)?.all(&[], read_due)
}

pub(crate) fn count_parked(connection: &Connection) -> Result<u64> {
    count(connection, "SELECT count(*) FROM runs WHERE ended_at IS NULL AND status = 'waiting'")
}

pub(crate) fn count_all(connection: &Connection) -> Result<u64> {
    count(connection, "SELECT count(*) FROM runs")
}

pub(crate) fn count_unfinished(connection: &Connection) -> Result<u64> {
    count(connection, "SELECT count(*) FROM runs WHERE ended_at IS NULL")
}

fn count(connection: &Connection, text: &str) -> Result<u64> {
    Ok(connection.prepare(text)?.first(&[], |row| row.get(0))?.unwrap_or_default())
}

/// The keys of unfinished runs, parents before their children.
pub(crate) fn unfinished_keys(connection: &Connection) -> Result<Vec<RunKey>> {
    connection
        .prepare("SELECT tenant, run FROM runs WHERE ended_at IS NULL ORDER BY depth, tenant, run")?
        .all(&[], |row| Ok(RunKey { tenant: row.get(0)?, run: row.get(1)? }))
}
