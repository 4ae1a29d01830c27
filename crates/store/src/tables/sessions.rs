//! Sessions: labels that group runs. A session has one unfinished run at a time.

use drawloom_contract::{
    caller::Visible,
    ids::{SessionId, Tenant},
    view::RunView,
};

use super::Step;
use crate::sqlite::{Connection, Result, values};

pub(crate) const STEPS: &[Step] = &[
    (
        1,
        "CREATE TABLE sessions (
            tenant TEXT NOT NULL,
            session BLOB NOT NULL,
            agent TEXT NOT NULL,
            user TEXT NOT NULL,
            created_at INTEGER NOT NULL,
            PRIMARY KEY (tenant, session)
        ) WITHOUT ROWID;",
    ),
    (6, "ALTER TABLE sessions RENAME COLUMN user TO user_id;"),
];

statements! {
    insert: "INSERT INTO sessions (tenant, session, agent, user_id, created_at) VALUES ($1, $2, $3, $4, $5) \
        ON CONFLICT DO NOTHING";
    find: "SELECT 1 FROM sessions WHERE tenant = $1 AND session = $2";
}

impl Writes<'_> {
    /// Begins the session of a new run, unless it joins one.
    pub(crate) fn join(&mut self, view: &RunView) -> Result<()> {
        let values = values![&view.tenant, &view.session, &view.agent, &view.user, view.accepted_at];
        self.insert.execute(values).map(drop)
    }

    pub(crate) fn is_known(&mut self, tenant: &Tenant, session: SessionId) -> Result<bool> {
        self.find.finds(values![tenant, &session])
    }
}

/// Whether the session and all of its runs are visible.
pub(crate) fn is_visible(connection: &Connection, visible: &Visible, session: SessionId) -> Result<bool> {
    const SEEN: &str = "SELECT 1 FROM sessions WHERE tenant = $1 AND session = $2 AND ($3 IS NULL OR user_id = $3) \
        AND NOT EXISTS (SELECT 1 FROM runs INDEXED BY runs_by_session \
        WHERE tenant = $1 AND session = $2 AND user_id <> $3)";
    connection.prepare(SEEN)?.finds(values![visible.tenant(), &session, visible.owner()])
}

/// Makes the session unknown, so that no run joins it with a part missing.
pub(crate) fn remove(connection: &Connection, tenant: &Tenant, session: SessionId) -> Result<()> {
    connection
        .prepare(
            "DELETE FROM sessions WHERE tenant = $1 AND session = $2 AND NOT EXISTS \
             (SELECT 1 FROM runs WHERE runs.tenant = $1 AND runs.session = $2)",
        )?
        .execute(values![tenant, &session])
        .map(drop)
}
