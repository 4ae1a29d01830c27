//! How far the store had come, written down beside it, so that the next start notices when the end of the store is missing: SQLite
//! takes a write-ahead log that is gone for one that never was.
//!
//! It is written when the store is opened, after every 64 groups and when the writer has nothing to do, and never synced: after
//! a loss of power it may be behind the store, which is synced, but never ahead of it.

use std::{
    fmt,
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{FileExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use drawloom_contract::{record::Epoch, time::Timestamp};
use serde::{Deserialize, Serialize};

use super::{Connection, Result};
/// The file of the mark, in the store's directory.
pub(crate) const FILE: &str = "written.json";
/// After so many groups it is written, even when more work waits.
const GROUPS: u32 = 64;
/// Its size: a write of this replaces all of the one before.
const SIZE: usize = 512;
const REACHED: &str = "SELECT (SELECT max(epoch) FROM boots), (SELECT max(position) FROM journal),
    (SELECT revision FROM value_revisions WHERE one = 1)";

/// How far a store has come. Each number only grows while the store is whole, except that pruning takes records away.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reached {
    /// The boot.
    pub epoch: Epoch,
    /// The position of the newest record.
    pub position: u64,
    /// The newest revision of a value.
    pub revision: u64,
}

/// The end of a store was missing when it was opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// When that was noticed.
    pub noticed_at: Timestamp,
    /// How far the store had come.
    pub written: Reached,
    /// How far it was found.
    pub found: Reached,
    /// The file to remove to be told no more of it.
    #[serde(skip)]
    pub file: PathBuf,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Content {
    written: Reached,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lost: Option<Lost>,
}

/// The mark of an open store.
pub(crate) struct Mark {
    path: PathBuf,
    file: Option<File>,
    content: Content,
    /// Groups since it was written.
    groups: u32,
}

impl Reached {
    pub(crate) fn of(connection: &Connection) -> Result<Self> {
        let found = connection.prepare(REACHED)?.first(&[], |row| {
            Ok([row.get::<Option<u64>>(0)?, row.get(1)?, row.get(2)?].map(Option::unwrap_or_default))
        })?;
        let [epoch, position, revision] = found.unwrap_or_default();
        Ok(Self { epoch, position, revision })
    }

    fn is_before(self, other: Self) -> bool {
        self.epoch < other.epoch || self.position < other.position || self.revision < other.revision
    }
}

impl Mark {
    /// The mark of a store in which this was found, before anything more is written to it. A mark that cannot be read says nothing.
    pub(crate) fn open(directory: &Path, found: Reached, now: Timestamp) -> Self {
        let path = directory.join(FILE);
        let read = fs::read(&path).ok().and_then(|text| serde_json::from_slice::<Content>(&text).ok());
        let mut content = read.unwrap_or_default();
        if found.is_before(content.written) {
            content.lost = Some(Lost { noticed_at: now, written: content.written, found, file: path.clone() });
        }
        if let Some(lost) = &mut content.lost {
            lost.file = path.clone();
        }
        content.written = found;
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        if let Err(error) = &file {
            tracing::warn!(file = %path.display(), %error, "cannot write how far the store has come: its loss would not be noticed");
        }
        Self { path, file: file.ok(), content, groups: 0 }
    }

    /// What was missing, now or at an earlier start.
    pub(crate) fn lost(&self) -> Option<&Lost> {
        self.content.lost.as_ref()
    }

    /// Whether the store has come further.
    pub(crate) fn is_behind(&self) -> bool {
        self.groups > 0
    }

    /// A group was committed; says whether the mark is to be written now.
    pub(crate) fn after_group(&mut self) -> bool {
        self.groups += 1;
        self.groups >= GROUPS
    }

    /// Before records are pruned: the newest one may be among them.
    pub(crate) fn expect_fewer_records(&mut self) {
        let written = Reached { position: 0, ..self.content.written };
        self.groups = 1;
        self.write(written);
    }

    /// Writes down how far the store has come.
    pub(crate) fn bring_up_to_date(&mut self, connection: &Connection) {
        self.groups = 0;
        match Reached::of(connection) {
            Ok(reached) => self.write(reached),
            Err(error) => tracing::debug!(%error, "cannot read how far the store has come"),
        }
    }

    fn write(&mut self, reached: Reached) {
        self.content.written = reached;
        let Some(file) = &self.file else { return };
        let mut text = serde_json::to_vec(&self.content).expect("numbers and text keys");
        text.resize(SIZE.max(text.len()), b' ');
        if let Err(error) = file.write_all_at(&text, 0) {
            tracing::warn!(file = %self.path.display(), %error, "cannot write how far the store has come");
            self.file = None;
        }
    }
}

/// What was missing when the store of a directory was opened, until somebody takes note and removes the mark.
pub fn lost(directory: &Path) -> Option<Lost> {
    let path = directory.join(FILE);
    let content = serde_json::from_slice::<Content>(&fs::read(&path).ok()?).ok()?;
    content.lost.map(|lost| Lost { file: path, ..lost })
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (written, found) = (self.written, self.found);
        match written.epoch.saturating_sub(found.epoch) {
            0 => f.write_str("the last changes of the store are missing"),
            1 => f.write_str("all changes of the last time that the store was open are missing"),
            times => write!(f, "all changes of the last {times} times that the store was open are missing"),
        }?;
        let records = written.position.saturating_sub(found.position);
        if records > 0 {
            write!(f, ", at least {records} records")?;
        }
        write!(f, ": its write-ahead log was removed or cut, or an older file was put in its place")
    }
}

/// A store that was put in the place of another one has its own history.
pub(crate) fn forget(directory: &Path) -> io::Result<()> {
    match fs::remove_file(directory.join(FILE)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
