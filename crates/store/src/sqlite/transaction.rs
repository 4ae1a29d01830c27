//! Transactions of the writer, and savepoints in them.

use super::{Connection, Result, Statement};

/// The statements that begin and end transactions, prepared once.
pub(crate) struct Transactions<'c> {
    connection: &'c Connection,
    begin: Statement<'c>,
    commit: Statement<'c>,
    roll_back: Statement<'c>,
    savepoint: Statement<'c>,
    release: Statement<'c>,
    undo: Statement<'c>,
}

impl<'c> Transactions<'c> {
    pub(crate) fn prepare(connection: &'c Connection) -> Result<Self> {
        Ok(Self {
            connection,
            begin: connection.prepare("BEGIN IMMEDIATE")?,
            commit: connection.prepare("COMMIT")?,
            roll_back: connection.prepare("ROLLBACK")?,
            savepoint: connection.prepare("SAVEPOINT entry")?,
            release: connection.prepare("RELEASE entry")?,
            undo: connection.prepare("ROLLBACK TO entry")?,
        })
    }

    pub(crate) fn begin(&mut self) -> Result<()> {
        self.begin.execute(&[]).map(drop)
    }

    /// Writes the transaction and waits for its sync.
    pub(crate) fn commit(&mut self) -> Result<()> {
        self.commit.execute(&[]).map(drop)
    }

    pub(crate) fn roll_back(&mut self) -> Result<()> {
        self.roll_back.execute(&[]).map(drop)
    }

    /// Whether nothing of a failed transaction is left. SQLite ends the transaction after some failures.
    pub(crate) fn is_rolled_back(&mut self) -> bool {
        !self.connection.is_in_transaction() || self.roll_back().is_ok()
    }

    /// Marks where [`Transactions::undo`] goes back to.
    pub(crate) fn savepoint(&mut self) -> Result<()> {
        self.savepoint.execute(&[]).map(drop)
    }

    /// Forgets the savepoint.
    pub(crate) fn release(&mut self) -> Result<()> {
        self.release.execute(&[]).map(drop)
    }

    /// Takes back what was written since the savepoint, which stays.
    pub(crate) fn undo(&mut self) -> Result<()> {
        self.undo.execute(&[]).map(drop)
    }
}
