//! Boots: one row per start of an owning process. The largest epoch owns the file.

use drawloom_contract::{VERSION, record::Epoch, time::Timestamp};

use super::Step;
use crate::sqlite::{Connection, Result, open::Previous, values};

pub(crate) const STEPS: &[Step] = &[(
    1,
    "CREATE TABLE boots (
        epoch INTEGER PRIMARY KEY,
        started_at INTEGER NOT NULL,
        version TEXT NOT NULL,
        clean INTEGER NOT NULL
    );",
)];

const OWNER: &str = "SELECT max(epoch) FROM boots";

statements! {
    owner: OWNER;
}

impl Writes<'_> {
    /// The epoch that owns the file.
    pub(crate) fn owner(&mut self) -> Result<Epoch> {
        Ok(self.owner.first(&[], |row| row.get(0))?.flatten().unwrap_or_default())
    }
}

/// The epoch that owns the file.
pub(crate) fn owner(connection: &Connection) -> Result<Option<Epoch>> {
    Ok(connection.prepare(OWNER)?.first(&[], |row| row.get(0))?.flatten())
}

/// Begins the next boot, which is unclean until [`end`].
pub(crate) fn begin(connection: &Connection, now: Timestamp) -> Result<(Epoch, Previous)> {
    let last = connection
        .prepare("SELECT epoch, clean FROM boots ORDER BY epoch DESC LIMIT 1")?
        .first(&[], |row| Ok((row.get::<Epoch>(0)?, row.get::<bool>(1)?)))?;
    let (epoch, previous) = match last {
        None => (1, Previous::None),
        Some((epoch, true)) => (epoch + 1, Previous::Clean),
        Some((epoch, false)) => (epoch + 1, Previous::Unclean),
    };
    connection
        .prepare("INSERT INTO boots (epoch, started_at, version, clean) VALUES ($1, $2, $3, 0)")?
        .execute(values![epoch, now, VERSION])?;
    Ok((epoch, previous))
}

/// Marks a boot as ended well.
pub(crate) fn end(connection: &Connection, epoch: Epoch) -> Result<()> {
    connection.prepare("UPDATE boots SET clean = 1 WHERE epoch = $1")?.execute(values![epoch]).map(drop)
}
