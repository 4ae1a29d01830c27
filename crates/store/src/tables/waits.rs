//! What runs and their calls wait for. `children` are counted here: `remaining` of them have not ended. Only the engine can tell
//! that the time `due` has come, or that a log or a value of `causes` has changed.

use drawloom_contract::{
    ids::{RunId, RunKey, Tenant},
    journal::Due,
    record::Seq,
    wait::{Wait, WaitChange, Waiting},
};

use super::Step;
use crate::{
    convert::Json,
    sqlite::{Connection, Result, Row, values},
};

pub(crate) const STEPS: &[Step] = &[
    (
        1,
        "CREATE TABLE waits (
            tenant TEXT NOT NULL,
            run BLOB NOT NULL,
            call INTEGER NOT NULL,
            kind TEXT NOT NULL,
            remaining INTEGER,
            due INTEGER,
            PRIMARY KEY (tenant, run, call)
        ) WITHOUT ROWID;",
    ),
    // kind: children; until, for a run; call, for a call that waits for something else.
    (
        7,
        "CREATE TABLE new_waits (
            tenant TEXT NOT NULL,
            run BLOB NOT NULL,
            call INTEGER NOT NULL,
            kind TEXT NOT NULL,
            remaining INTEGER NOT NULL,
            since INTEGER NOT NULL,
            due INTEGER,
            causes TEXT,
            PRIMARY KEY (tenant, run, call)
        ) WITHOUT ROWID;
        INSERT INTO new_waits (tenant, run, call, kind, remaining, since, due)
            SELECT waits.tenant, waits.run, waits.call, waits.kind, coalesce(waits.remaining, 0),
            coalesce(journal.at, waits.due, 0), waits.due FROM waits LEFT JOIN journal
            ON journal.tenant = waits.tenant AND journal.run = waits.run AND journal.seq = waits.call;
        DROP TABLE waits;
        ALTER TABLE new_waits RENAME TO waits;",
    ),
];

/// Whether no later attempt has the place of this child.
macro_rules! is_newest_child {
    () => {
        "NOT EXISTS (SELECT 1 FROM runs AS later INDEXED BY runs_by_parent WHERE later.tenant = runs.tenant \
         AND later.parent_run = runs.parent_run AND later.parent_call = runs.parent_call \
         AND later.parent_index = runs.parent_index AND later.attempt > runs.attempt)"
    };
}
pub(crate) use is_newest_child;

/// Whether all children that a row of `runs` waits for have ended.
macro_rules! children_have_ended {
    () => {
        "EXISTS (SELECT 1 FROM waits WHERE waits.tenant = runs.tenant AND waits.run = runs.run \
         AND waits.kind = 'children') AND NOT EXISTS (SELECT 1 FROM waits WHERE waits.tenant = runs.tenant \
         AND waits.run = runs.run AND waits.remaining > 0)"
    };
}
pub(crate) use children_have_ended;

/// A wait that begins again is as new.
macro_rules! or_replace {
    () => {
        " ON CONFLICT (tenant, run, call) DO UPDATE SET kind = excluded.kind, remaining = excluded.remaining, \
         since = excluded.since, due = excluded.due, causes = excluded.causes"
    };
}

const END_ALL: &str = "DELETE FROM waits WHERE tenant = $1 AND run = $2";

statements! {
    /// A wait for children begins with those that have not ended yet.
    for_children: concat!(
        "INSERT INTO waits (tenant, run, call, kind, remaining, since) \
         SELECT $1, $2, $3, 'children', max(0, $4 - count(*)), $5 FROM runs INDEXED BY runs_by_parent \
         WHERE tenant = $1 AND parent_run = $2 AND parent_call = $3 AND ended_at IS NOT NULL AND ",
        is_newest_child!(),
        or_replace!()
    );
    begin: concat!(
        "INSERT INTO waits (tenant, run, call, kind, remaining, since, due, causes) \
         VALUES ($1, $2, $3, $4, 0, $5, $6, $7)",
        or_replace!()
    );
    end: "DELETE FROM waits WHERE tenant = $1 AND run = $2 AND call = $3";
    end_all: END_ALL;
    count_up: "UPDATE waits SET remaining = remaining + 1 \
        WHERE tenant = $1 AND run = $2 AND call = $3 AND kind = 'children' AND remaining > 0";
    count_down: "UPDATE waits SET remaining = remaining - 1 \
        WHERE tenant = $1 AND run = $2 AND call = $3 AND kind = 'children' AND remaining > 0";
}

impl Writes<'_> {
    pub(crate) fn change(&mut self, change: &WaitChange) -> Result<()> {
        match change {
            WaitChange::Call { run, call, wait, since } => match wait.children() {
                Some((count, _)) => self.for_children.execute(values![&run.tenant, &run.run, *call, count, *since]),
                None => {
                    let causes = Json(&wait.on);
                    self.begin.execute(values![&run.tenant, &run.run, *call, "call", *since, wait.until, causes])
                }
            },
            WaitChange::Run { run, record, until, since } => {
                let causes: Option<&str> = None;
                self.begin.execute(values![&run.tenant, &run.run, *record, "until", *since, *until, causes])
            }
            // `count_up` did it.
            WaitChange::OneMore { .. } => Ok(0),
            WaitChange::End { run, call } => self.end.execute(values![&run.tenant, &run.run, *call]),
        }
        .map(drop)
    }

    /// Ends the waits of a run that ended.
    pub(crate) fn end_all(&mut self, key: &RunKey) -> Result<()> {
        self.end_all.execute(values![&key.tenant, &key.run]).map(drop)
    }

    /// Adds a child to a wait for other children; says whether there was one.
    pub(crate) fn count_up(&mut self, parent: &RunKey, call: Seq) -> Result<bool> {
        Ok(self.count_up.execute(values![&parent.tenant, &parent.run, call])? > 0)
    }

    /// Counts a child that ended off the wait of its parent's call; says whether there was one.
    pub(crate) fn count_down(&mut self, tenant: &Tenant, parent: RunId, call: Seq) -> Result<bool> {
        Ok(self.count_down.execute(values![tenant, &parent, call])? > 0)
    }
}

/// The times that parked runs wait for, the next one first.
pub(crate) fn timers(connection: &Connection) -> Result<Vec<Due>> {
    const TIMERS: &str = "SELECT waits.tenant, waits.run, waits.due, waits.since FROM runs \
        JOIN waits ON waits.tenant = runs.tenant AND waits.run = runs.run \
        WHERE runs.ended_at IS NULL AND runs.status = 'waiting' AND waits.kind = 'until' ORDER BY waits.due";
    connection.prepare(TIMERS)?.all(&[], read_due)
}

/// Calls of live runs that wait for logs, values or times.
pub(crate) fn waiting(connection: &Connection) -> Result<Vec<Waiting>> {
    const WAITING: &str = "SELECT waits.tenant, waits.run, waits.call, waits.causes, waits.due, waits.since FROM runs \
        JOIN waits ON waits.tenant = runs.tenant AND waits.run = runs.run \
        WHERE runs.ended_at IS NULL AND waits.kind = 'call'";
    connection.prepare(WAITING)?.all(&[], |row| {
        let on: Option<Json<_>> = row.get(3)?;
        let wait = Wait { on: on.map(|Json(on)| on).unwrap_or_default(), until: row.get(4)? };
        let run = RunKey { tenant: row.get(0)?, run: row.get(1)? };
        Ok(Waiting { run, call: row.get(2)?, wait, since: row.get(5)? })
    })
}

/// A run with a time that matters to it and the time since when it does.
pub(crate) fn read_due(row: Row<'_>) -> Result<Due> {
    let run = RunKey { tenant: row.get(0)?, run: row.get(1)? };
    Ok(Due { run, due: row.get(2)?, since: row.get(3)? })
}

pub(crate) fn remove(connection: &Connection, tenant: &Tenant, run: RunId) -> Result<()> {
    connection.prepare(END_ALL)?.execute(values![tenant, &run]).map(drop)
}
