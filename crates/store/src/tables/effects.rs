//! Effects of tools' calls, each with its answer, until the run ends.

use drawloom_contract::{
    ids::{RunId, RunKey, Tenant},
    once::{CallEffect, Effected},
};

use super::Step;
use crate::{
    convert::Json,
    sqlite::{Connection, Result, values},
};

pub(crate) const STEPS: &[Step] = &[(
    7,
    "CREATE TABLE effects (
        tenant TEXT NOT NULL,
        run BLOB NOT NULL,
        call INTEGER NOT NULL,
        part INTEGER NOT NULL,
        answer TEXT NOT NULL,
        PRIMARY KEY (tenant, run, call, part)
    ) WITHOUT ROWID;",
)];

const END_ALL: &str = "DELETE FROM effects WHERE tenant = $1 AND run = $2";

statements! {
    find: "SELECT answer FROM effects WHERE tenant = $1 AND run = $2 AND call = $3 AND part = $4";
    insert: "INSERT INTO effects (tenant, run, call, part, answer) VALUES ($1, $2, $3, $4, $5)";
    end_all: END_ALL;
}

impl Writes<'_> {
    pub(crate) fn find(&mut self, effect: &CallEffect) -> Result<Option<Effected>> {
        let CallEffect { run, call, part, .. } = effect;
        self.find.first(values![&run.tenant, &run.run, *call, *part], |row| row.get(0).map(|Json(answer)| answer))
    }

    pub(crate) fn insert(&mut self, effect: &CallEffect, effected: &Effected) -> Result<()> {
        let CallEffect { run, call, part, .. } = effect;
        self.insert.execute(values![&run.tenant, &run.run, *call, *part, Json(effected)]).map(drop)
    }

    /// A run that has ended makes no effect any more, so that no answer is asked for.
    pub(crate) fn end_all(&mut self, key: &RunKey) -> Result<()> {
        self.end_all.execute(values![&key.tenant, &key.run]).map(drop)
    }
}

pub(crate) fn remove(connection: &Connection, tenant: &Tenant, run: RunId) -> Result<()> {
    connection.prepare(END_ALL)?.execute(values![tenant, &run]).map(drop)
}
