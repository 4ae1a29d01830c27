//! Logs and their messages.

use std::collections::HashMap;

use drawloom_contract::{
    ids::Tenant,
    log::{LogChange, LogChanged, LogKey, Message, NewMessage, Page},
    values::Space,
};

use super::Step;
use crate::{
    convert::Json,
    sqlite::{Connection, Result, Row, values},
};

pub(crate) const STEPS: &[Step] = &[(
    7,
    "CREATE TABLE logs (
        log INTEGER PRIMARY KEY,
        tenant TEXT NOT NULL,
        space TEXT NOT NULL,
        name TEXT NOT NULL,
        head INTEGER NOT NULL,
        kept INTEGER NOT NULL,
        UNIQUE (tenant, space, name)
    );
    CREATE TABLE log_messages (
        log INTEGER NOT NULL,
        sequence INTEGER NOT NULL,
        id TEXT NOT NULL,
        at INTEGER NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (log, sequence)
    ) WITHOUT ROWID;
    CREATE INDEX log_messages_by_id ON log_messages (log, id, sequence);",
)];

const FIND: &str = "SELECT log, head, kept FROM logs WHERE tenant = $1 AND space = $2 AND name = $3";

statements! {
    find: FIND;
    begin: "INSERT INTO logs (tenant, space, name, head, kept) VALUES ($1, $2, $3, 0, 0) RETURNING log";
    set: "UPDATE logs SET head = $2, kept = $3 WHERE log = $1";
    find_message: "SELECT sequence FROM log_messages WHERE log = $1 AND id = $2 AND sequence > $3 LIMIT 1";
    insert: "INSERT INTO log_messages (log, sequence, id, at, body) VALUES ($1, $2, $3, $4, $5)";
    /// The last of the oldest so many.
    find_oldest: "SELECT sequence FROM log_messages WHERE log = $1 ORDER BY sequence LIMIT 1 OFFSET $2";
    trim: "DELETE FROM log_messages WHERE log = $1 AND sequence <= $2";
}

/// A log's row.
#[derive(Debug, Clone)]
struct Found {
    log: u64,
    head: u64,
    kept: u64,
}

/// The rows of the logs that the open transaction changes: read once, and written at its end.
#[derive(Debug, Clone, Default)]
pub(crate) struct LogTally(HashMap<LogKey, Found>);

impl Writes<'_> {
    pub(crate) fn change(&mut self, change: &LogChange, bodies: &[String], tally: &mut LogTally) -> Result<LogChanged> {
        let key = change.log();
        if !tally.0.contains_key(key) {
            let found = self.find.first(values![&key.tenant, key.space.as_str(), &key.name], read_found)?;
            let found = match (found, change) {
                (Some(found), _) => found,
                (None, LogChange::Append { .. }) => self.begin(key)?,
                (None, LogChange::Trim { .. }) => return Ok(LogChanged::default()),
            };
            tally.0.insert(key.clone(), found);
        }
        let found = tally.0.get_mut(key).expect("it was read above");
        let mut changed = LogChanged::default();
        match change {
            LogChange::Append { messages, since, keep, .. } => {
                for (message, body) in messages.iter().zip(bodies) {
                    self.append(found, message, body, *since, &mut changed)?;
                }
                if let Some(most) = keep
                    && found.kept > *most
                    && let Some(last) = self.oldest(found, found.kept - most)?
                {
                    changed.dropped = self.remove(found, last)?;
                }
            }
            LogChange::Trim { up_to, .. } => changed.dropped = self.remove(found, *up_to)?,
        }
        changed.head = found.head;
        Ok(changed)
    }

    /// Writes what the transaction came to, at its end.
    pub(crate) fn settle(&mut self, tally: &LogTally) -> Result<()> {
        for found in tally.0.values() {
            self.set.execute(values![found.log, found.head, found.kept])?;
        }
        Ok(())
    }

    fn begin(&mut self, key: &LogKey) -> Result<Found> {
        let values = values![&key.tenant, key.space.as_str(), &key.name];
        let log = self.begin.first(values, |row| row.get(0))?.expect("an insert returns its row");
        Ok(Found { log, head: 0, kept: 0 })
    }

    fn append(
        &mut self,
        found: &mut Found,
        message: &NewMessage,
        body: &str,
        since: u64,
        changed: &mut LogChanged,
    ) -> Result<()> {
        let known = self.find_message.first(values![found.log, &message.id, since], |row| row.get(0))?;
        let sequence = match known {
            Some(sequence) => sequence,
            None => {
                found.head += 1;
                found.kept += 1;
                changed.added += 1;
                self.insert.execute(values![found.log, found.head, &message.id, message.at, body])?;
                found.head
            }
        };
        changed.sequences.push(sequence);
        Ok(())
    }

    fn oldest(&mut self, found: &Found, count: u64) -> Result<Option<u64>> {
        self.find_oldest.first(values![found.log, count - 1], |row| row.get(0))
    }

    fn remove(&mut self, found: &mut Found, up_to: u64) -> Result<u64> {
        let dropped = self.trim.execute(values![found.log, up_to])? as u64;
        found.kept = found.kept.saturating_sub(dropped);
        Ok(dropped)
    }
}

fn read_found(row: Row<'_>) -> Result<Found> {
    Ok(Found { log: row.get(0)?, head: row.get(1)?, kept: row.get(2)? })
}

fn find(connection: &Connection, key: &LogKey) -> Result<Option<Found>> {
    connection.prepare(FIND)?.first(values![&key.tenant, key.space.as_str(), &key.name], read_found)
}

pub(crate) fn head(connection: &Connection, key: &LogKey) -> Result<u64> {
    Ok(find(connection, key)?.map_or(0, |found| found.head))
}

/// Logs of a space by tenant and name, after one, at most `limit`: all, or those of one tenant whose name begins with a prefix.
pub(crate) fn list(
    connection: &Connection,
    space: &Space,
    within: Option<&(Tenant, String)>,
    after: Option<&(Tenant, String)>,
    limit: u32,
) -> Result<Vec<(LogKey, u64, u64)>> {
    const OF_TENANT: &str = "SELECT tenant, name, head, kept FROM logs
        WHERE tenant = $1 AND space = $2 AND name > $3 AND name >= $4 AND name < $5 ORDER BY name LIMIT $6";
    const OF_ALL: &str = "SELECT tenant, name, head, kept FROM logs
        WHERE space = $1 AND (tenant, name) > ($2, $3) ORDER BY tenant, name LIMIT $4";
    let read = |row: Row<'_>| {
        let key = LogKey { tenant: row.get(0)?, space: space.clone(), name: row.get(1)? };
        Ok((key, row.get(2)?, row.get(3)?))
    };
    let (tenant, name) = after.map_or(("", ""), |(tenant, name)| (tenant.as_str(), name.as_str()));
    match within {
        Some((within, prefix)) => {
            // No name has a later character after the prefix.
            let end = format!("{prefix}\u{10ffff}");
            connection.prepare(OF_TENANT)?.all(values![within, space.as_str(), name, prefix, &end, limit], read)
        }
        None => connection.prepare(OF_ALL)?.all(values![space.as_str(), tenant, name, limit], read),
    }
}

/// What [`read`] finds, unless it may be more than `few` messages.
pub(crate) fn read_few(
    connection: &Connection,
    key: &LogKey,
    after: u64,
    limit: u32,
    few: u64,
) -> Result<Option<Page>> {
    let is_few = u64::from(limit) <= few || head(connection, key)?.saturating_sub(after) <= few;
    is_few.then(|| read(connection, key, after, limit)).transpose()
}

pub(crate) fn read(connection: &Connection, key: &LogKey, after: u64, limit: u32) -> Result<Page> {
    const FIRST: &str = "SELECT sequence FROM log_messages WHERE log = $1 ORDER BY sequence LIMIT 1";
    const AFTER: &str =
        "SELECT sequence, id, at, body FROM log_messages WHERE log = $1 AND sequence > $2 ORDER BY sequence LIMIT $3";
    let Some(found) = find(connection, key)? else {
        return Ok(Page { messages: Vec::new(), first: 1, head: 0 });
    };
    let first = connection.prepare(FIRST)?.first(values![found.log], |row| row.get(0))?;
    let messages = connection.prepare(AFTER)?.all(values![found.log, after, limit], |row| {
        let Json(body) = row.get(3)?;
        Ok(Message { sequence: row.get(0)?, id: row.get(1)?, at: row.get(2)?, body })
    })?;
    Ok(Page { messages, first: first.unwrap_or(found.head + 1), head: found.head })
}
