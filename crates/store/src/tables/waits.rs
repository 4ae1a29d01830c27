//! What runs wait for: `children`, of which `remaining` have not ended, or `until` the time `due`.

use drawloom_contract::{
    ids::{RunId, RunKey, Tenant},
    journal::{Due, WaitChange},
    record::Seq,
};

use super::{Step, statements};
use crate::sqlite::{Connection, Result, Row, values};

pub(crate) const STEPS: &[Step] = &[(
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
)];

/// Whether a row of `runs` waits for nothing any more. Only the engine's clock can tell that a time has come.
macro_rules! waits_for_nothing {
    () => {
        "NOT EXISTS (SELECT 1 FROM waits WHERE waits.tenant = runs.tenant AND waits.run = runs.run \
         AND (waits.kind = 'until' OR waits.remaining > 0))"
    };
}
pub(crate) use waits_for_nothing;

/// A wait that begins again is as new.
macro_rules! or_replace {
    () => {
        " ON CONFLICT (tenant, run, call) \
         DO UPDATE SET kind = excluded.kind, remaining = excluded.remaining, due = excluded.due"
    };
}

const END_ALL: &str = "DELETE FROM waits WHERE tenant = $1 AND run = $2";

statements! {
    /// A wait for children begins with those that have not ended yet.
    for_children: concat!(
        "INSERT INTO waits (tenant, run, call, kind, remaining, due) \
         SELECT $1, $2, $3, 'children', max(0, $4 - count(*)), NULL FROM runs INDEXED BY runs_by_parent \
         WHERE tenant = $1 AND parent_run = $2 AND parent_call = $3 AND ended_at IS NOT NULL",
        or_replace!()
    );
    until: concat!(
        "INSERT INTO waits (tenant, run, call, kind, remaining, due) VALUES ($1, $2, $3, 'until', NULL, $4)",
        or_replace!()
    );
    end: "DELETE FROM waits WHERE tenant = $1 AND run = $2 AND call = $3";
    end_all: END_ALL;
    count_down: "UPDATE waits SET remaining = remaining - 1 \
        WHERE tenant = $1 AND run = $2 AND call = $3 AND kind = 'children' AND remaining > 0";
}

impl Writes<'_> {
    pub(crate) fn change(&mut self, change: &WaitChange) -> Result<()> {
        match change {
            WaitChange::Children { run, call, count } => {
                self.for_children.execute(values![&run.tenant, &run.run, *call, *count])
            }
            WaitChange::Until { run, call, due } => self.until.execute(values![&run.tenant, &run.run, *call, *due]),
            WaitChange::Remove { run, call } => self.end.execute(values![&run.tenant, &run.run, *call]),
        }
        .map(drop)
    }

    /// Ends the waits of a run that ended.
    pub(crate) fn end_all(&mut self, key: &RunKey) -> Result<()> {
        self.end_all.execute(values![&key.tenant, &key.run]).map(drop)
    }

    /// Counts a child that ended off the wait of its parent's call; says whether there was one.
    pub(crate) fn count_down(&mut self, tenant: &Tenant, parent: RunId, call: Seq) -> Result<bool> {
        Ok(self.count_down.execute(values![tenant, &parent, call])? > 0)
    }
}

/// The times that parked runs wait for, the next one first.
pub(crate) fn timers(connection: &Connection) -> Result<Vec<Due>> {
    const TIMERS: &str = "SELECT waits.tenant, waits.run, waits.due, coalesce(journal.at, waits.due) FROM runs \
        JOIN waits ON waits.tenant = runs.tenant AND waits.run = runs.run \
        LEFT JOIN journal ON journal.tenant = waits.tenant AND journal.run = waits.run AND journal.seq = waits.call \
        WHERE runs.ended_at IS NULL AND runs.status = 'waiting' AND waits.kind = 'until' ORDER BY waits.due";
    connection.prepare(TIMERS)?.all(&[], read_due)
}

/// A run with a time that matters to it and the time since when it does.
pub(crate) fn read_due(row: Row<'_>) -> Result<Due> {
    let run = RunKey { tenant: row.get(0)?, run: row.get(1)? };
    Ok(Due { run, due: row.get(2)?, since: row.get(3)? })
}

pub(crate) fn remove(connection: &Connection, tenant: &Tenant, run: RunId) -> Result<()> {
    connection.prepare(END_ALL)?.execute(values![tenant, &run]).map(drop)
}
