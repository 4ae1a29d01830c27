//! Small values under a key, with revisions.

mod tally;

use drawloom_contract::{
    ids::Tenant,
    time::Timestamp,
    values::{ChangeError, Expect, Kept, NewValue, Present, Quota, Range, Space, ValueChange, ValueKey, Within},
};

pub(crate) use self::tally::Tally;
use super::Step;
use crate::{
    convert::Json,
    prepare::ChangedValue,
    sqlite::{Connection, Result, Row, Value, values},
};

pub(crate) const STEPS: &[Step] = &[
    (
        4,
        "CREATE TABLE kept (
            tenant TEXT NOT NULL,
            space TEXT NOT NULL,
            key TEXT NOT NULL,
            value TEXT NOT NULL,
            expires_at INTEGER NOT NULL,
            PRIMARY KEY (tenant, space, key)
        ) WITHOUT ROWID;
        CREATE INDEX kept_by_expiry ON kept (space, expires_at);",
    ),
    // bytes: of key and value together. value_owners: what each owner has, for quotas.
    (
        7,
        "CREATE TABLE key_values (
            space TEXT NOT NULL,
            tenant TEXT NOT NULL,
            owner TEXT NOT NULL,
            key TEXT NOT NULL,
            value TEXT NOT NULL,
            bytes INTEGER NOT NULL,
            revision INTEGER NOT NULL,
            at INTEGER NOT NULL,
            expires_at INTEGER,
            PRIMARY KEY (space, tenant, owner, key)
        ) WITHOUT ROWID;
        CREATE INDEX key_values_by_expiry ON key_values (space, expires_at) WHERE expires_at IS NOT NULL;
        CREATE TABLE value_owners (
            space TEXT NOT NULL,
            tenant TEXT NOT NULL,
            owner TEXT NOT NULL,
            keys INTEGER NOT NULL,
            bytes INTEGER NOT NULL,
            PRIMARY KEY (space, tenant, owner)
        ) WITHOUT ROWID;
        CREATE TABLE value_revisions (one INTEGER PRIMARY KEY CHECK (one = 1), revision INTEGER NOT NULL);
        INSERT INTO key_values (space, tenant, owner, key, value, bytes, revision, at, expires_at)
            SELECT space, tenant, '', key, value, length(key) + length(value),
            row_number() OVER (ORDER BY tenant, space, key), 0, expires_at FROM kept;
        INSERT INTO value_revisions (one, revision) SELECT 1, count(*) FROM kept;
        DROP TABLE kept;",
    ),
    // searched: whether `value_words` has a row of it, whose id is the revision.
    (
        8,
        "ALTER TABLE key_values ADD COLUMN searched INTEGER NOT NULL DEFAULT 0;
        CREATE UNIQUE INDEX key_values_by_revision ON key_values (revision);",
    ),
    // searched: 0, or the JSON pointer of the part that search finds. indexed: `value_words` has every searched value up to this
    // revision; those after it are still to be added.
    (
        10,
        "UPDATE key_values SET searched = '/value' WHERE searched = 1;
        ALTER TABLE value_revisions ADD COLUMN indexed INTEGER NOT NULL DEFAULT 0;
        UPDATE value_revisions SET indexed = revision;",
    ),
];

const REVISION: &str = "SELECT revision FROM value_revisions WHERE one = 1";

/// Values of one commit that are removed because their time is over: as many as fit into a short one.
const REMOVED_AT_ONCE: u32 = 64;

const OLD: &str = "SELECT tenant, owner, key, revision, bytes, expires_at, searched <> 0 FROM key_values \
    WHERE space = $1 AND expires_at <= $2 LIMIT $3";

const OF_OWNER: &str = "SELECT tenant, owner, key, revision, bytes, expires_at, searched <> 0 FROM key_values \
    WHERE space = $1 AND tenant = $2 AND owner = $3 LIMIT $4";

statements! {
    find: "SELECT revision, bytes, expires_at, searched <> 0 FROM key_values \
        WHERE space = $1 AND tenant = $2 AND owner = $3 AND key = $4";
    insert: "INSERT INTO key_values (space, tenant, owner, key, value, bytes, revision, at, expires_at, searched) \
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
    update: "UPDATE key_values SET value = $5, bytes = $6, revision = $7, at = $8, expires_at = $9, searched = $10 \
        WHERE space = $1 AND tenant = $2 AND owner = $3 AND key = $4";
    remove: "DELETE FROM key_values WHERE space = $1 AND tenant = $2 AND owner = $3 AND key = $4";
    revisions: "SELECT revision, indexed FROM value_revisions WHERE one = 1";
    set_revisions: "UPDATE value_revisions SET revision = $1, indexed = $2 WHERE one = 1";
    lose_words: "INSERT INTO value_words_gone (revision) VALUES ($1) ON CONFLICT DO NOTHING";
    old: OLD;
    old_of_owner: "SELECT tenant, owner, key, revision, bytes, expires_at, searched <> 0 FROM key_values \
        WHERE space = $1 AND tenant = $2 AND owner = $3 AND expires_at <= $4";
    find_owner: "SELECT keys, bytes FROM value_owners WHERE space = $1 AND tenant = $2 AND owner = $3";
    forget_owner: "DELETE FROM value_owners WHERE space = $1 AND tenant = $2 AND owner = $3";
    keep_owner: "INSERT INTO value_owners (space, tenant, owner, keys, bytes) VALUES ($1, $2, $3, $4, $5) \
        ON CONFLICT DO UPDATE SET keys = excluded.keys, bytes = excluded.bytes";
}

/// A value's row, without the value.
struct Found {
    revision: u64,
    bytes: u64,
    expires_at: Option<Timestamp>,
    is_searched: bool,
}

impl Writes<'_> {
    /// Makes a change; the revision, or why it is refused.
    pub(crate) fn change(
        &mut self,
        changed: &ChangedValue,
        tally: &mut Tally,
    ) -> Result<std::result::Result<u64, ChangeError>> {
        let ChangedValue { change: ValueChange { key, expect, to, at }, text, .. } = changed;
        let found = self.find.first(&place(key), read_found)?;
        let live = found.as_ref().filter(|found| found.expires_at.is_none_or(|time| time > *at));
        let live_revision = live.map(|found| found.revision);
        let is_expected = match expect {
            Expect::Anything => true,
            Expect::Absent => live_revision.is_none(),
            Expect::Revision(revision) => live_revision == Some(*revision),
        };
        if !is_expected {
            return Ok(Err(ChangeError::Stale { key: key.key.clone(), found: live_revision }));
        }
        let Some((new, text)) = to.as_ref().zip(text.as_deref()) else {
            if let Some(found) = found {
                self.remove(key, &found, tally)?;
            }
            return match live_revision {
                Some(_) => self.next(tally, false).map(Ok),
                None => Ok(Ok(0)),
            };
        };
        // What is over is removed with others that are.
        let (found, over) = match found {
            Some(found) if found.expires_at.is_some_and(|time| time <= *at) => (None, Some(found)),
            found => (found, None),
        };
        self.remove_old(key, over, *at, tally)?;
        self.put(changed, new, text, found.as_ref(), tally)
    }

    fn put(
        &mut self,
        changed: &ChangedValue,
        new: &NewValue,
        text: &str,
        found: Option<&Found>,
        tally: &mut Tally,
    ) -> Result<std::result::Result<u64, ChangeError>> {
        let ChangedValue { change: ValueChange { key, at, .. }, searched, .. } = changed;
        let bytes = (key.key.len() + text.len()) as u64;
        let (old_keys, old_bytes) = found.map_or((0, 0), |found| (1, found.bytes));
        if let Some(quota) = new.quota
            && self.over_quota(tally, key, quota, 1 - old_keys, bytes, old_bytes)?.is_some()
        {
            // What is over does not count.
            self.remove_old_of_owner(key, *at, tally)?;
            if let Some(refused) = self.over_quota(tally, key, quota, 1 - old_keys, bytes, old_bytes)? {
                return Ok(Err(refused));
            }
        }
        let revision = self.next(tally, searched.is_some())?;
        let [space, tenant, owner, name] = place(key);
        let (revision_value, bytes_value) = (Value::from(revision), Value::from(bytes));
        let rest = [text.into(), bytes_value, revision_value, (*at).into(), new.expires_at.into()];
        let [value, size, numbered, made, until] = rest;
        let part = searched.map_or(Value::from(0_u32), Value::from);
        let values = [space, tenant, owner, name, value, size, numbered, made, until, part];
        match found {
            Some(_) => self.update.execute(&values)?,
            None => self.insert.execute(&values)?,
        };
        self.count(tally, key, 1 - old_keys as i64, bytes as i64 - old_bytes as i64)?;
        if let Some(found) = found {
            self.lose_words(found, tally)?;
        }
        tally.waiting += i64::from(searched.is_some());
        tally.loses_or_gains_words |= searched.is_some();
        Ok(Ok(revision))
    }

    /// Whether the owner would have too much.
    fn over_quota(
        &mut self,
        tally: &mut Tally,
        key: &ValueKey,
        quota: Quota,
        new_keys: u64,
        bytes: u64,
        old_bytes: u64,
    ) -> Result<Option<ChangeError>> {
        let (keys, all) = self.owned(tally, key)?.amounts();
        let (keys, all) = (keys + new_keys, (all + bytes).saturating_sub(old_bytes));
        let is_over = keys > quota.keys || all > quota.bytes;
        Ok(is_over.then(|| ChangeError::OverQuota { owner: key.owner.clone(), keys, bytes: all, quota }))
    }

    /// Removes everything else of the key's owner whose time is over.
    fn remove_old_of_owner(&mut self, key: &ValueKey, at: Timestamp, tally: &mut Tally) -> Result<()> {
        let values = values![key.space.as_str(), &key.tenant, &key.owner, at];
        let old = self.old_of_owner.all(values, |row| read_old(row, &key.space))?;
        for (old, found) in old.into_iter().filter(|(old, _)| old != key) {
            self.remove(&old, &found, tally)?;
        }
        Ok(())
    }

    /// Removes some of what is over in the space, once in a transaction, and the key's own value when that is over.
    fn remove_old(&mut self, key: &ValueKey, over: Option<Found>, at: Timestamp, tally: &mut Tally) -> Result<()> {
        let values = values![key.space.as_str(), at, REMOVED_AT_ONCE];
        let mut old = match tally.sweeps(&key.space) {
            true => self.old.all(values, |row| read_old(row, &key.space))?,
            false => Vec::new(),
        };
        if let Some(found) = over
            && old.iter().all(|(other, _)| other != key)
        {
            old.push((key.clone(), found));
        }
        for (key, found) in old {
            self.remove(&key, &found, tally)?;
        }
        Ok(())
    }

    fn remove(&mut self, key: &ValueKey, found: &Found, tally: &mut Tally) -> Result<()> {
        self.remove.execute(&place(key))?;
        self.lose_words(found, tally)?;
        self.count(tally, key, -1, -(found.bytes as i64))
    }

    /// Notes that search must not find this any more. What it never learned need not be taken back.
    fn lose_words(&mut self, found: &Found, tally: &mut Tally) -> Result<()> {
        if !found.is_searched {
            return Ok(());
        }
        match found.revision <= self.revisions(tally)?.indexed {
            true => {
                tally.loses_or_gains_words = true;
                self.lose_words.execute(values![found.revision]).map(drop)
            }
            false => {
                tally.waiting -= 1;
                Ok(())
            }
        }
    }
}

fn place(key: &ValueKey) -> [Value<'_>; 4] {
    [key.space.as_str().into(), (&key.tenant).into(), (&key.owner).into(), (&key.key).into()]
}

fn read_found(row: Row<'_>) -> Result<Found> {
    found_at(row, 0)
}

fn found_at(row: Row<'_>, first: usize) -> Result<Found> {
    Ok(Found {
        revision: row.get(first)?,
        bytes: row.get(first + 1)?,
        expires_at: row.get(first + 2)?,
        is_searched: row.get(first + 3)?,
    })
}

fn read_old(row: Row<'_>, space: &Space) -> Result<(ValueKey, Found)> {
    let key = ValueKey { tenant: row.get(0)?, space: space.clone(), owner: row.get(1)?, key: row.get(2)? };
    Ok((key, found_at(row, 3)?))
}

fn read_kept(row: Row<'_>, first: usize) -> Result<Kept> {
    let Json(value) = row.get(first)?;
    Ok(Kept { value, revision: row.get(first + 1)?, at: row.get(first + 2)?, expires_at: row.get(first + 3)? })
}

pub(crate) fn find(connection: &Connection, key: &ValueKey, now: Timestamp) -> Result<Option<Kept>> {
    const FIND: &str = "SELECT value, revision, at, expires_at FROM key_values WHERE space = $1 AND tenant = $2 \
        AND owner = $3 AND key = $4";
    let kept = connection.prepare(FIND)?.first(&place(key), |row| read_kept(row, 0))?;
    Ok(kept.filter(|kept| kept.expires_at.is_none_or(|time| time > now)))
}

/// Values of a range after a key, at most `limit`.
pub(crate) fn list(
    connection: &Connection,
    range: &Range,
    after: Option<&ValueKey>,
    limit: usize,
    now: Timestamp,
) -> Result<Vec<(ValueKey, Kept)>> {
    const FROM: &str = "SELECT tenant, owner, key, expires_at, value, revision, at, expires_at FROM key_values \
        WHERE space = $1 AND (tenant, owner, key) >= ($2, $3, $4) ORDER BY tenant, owner, key";
    let is_live = |expires_at: Option<Timestamp>| expires_at.is_none_or(|time| time > now);
    scan(connection, FROM, range, after, limit, is_live, |row| read_kept(row, 4))
}

/// The same without the values, and with those whose time is over: their revisions and ends.
pub(crate) fn list_present(
    connection: &Connection,
    range: &Range,
    after: Option<&ValueKey>,
    limit: usize,
) -> Result<Vec<(ValueKey, (u64, Present))>> {
    const FROM: &str = "SELECT tenant, owner, key, expires_at, revision FROM key_values \
        WHERE space = $1 AND (tenant, owner, key) >= ($2, $3, $4) ORDER BY tenant, owner, key";
    scan(connection, FROM, range, after, limit, |_| true, |row| Ok((row.get(4)?, Present { expires_at: row.get(3)? })))
}

/// Rows of a range after a key: tenant, owner, key, the end of its time, and what `read` takes of the rest.
fn scan<T>(
    connection: &Connection,
    query: &str,
    range: &Range,
    after: Option<&ValueKey>,
    limit: usize,
    is_live: impl Fn(Option<Timestamp>) -> bool,
    read: impl Fn(Row<'_>) -> Result<T>,
) -> Result<Vec<(ValueKey, T)>> {
    let first: (&str, &str, &str) = match &range.within {
        Within::Space => ("", "", ""),
        Within::Tenant(tenant) => (tenant.as_str(), "", ""),
        Within::Owner { tenant, owner, prefix } => (tenant.as_str(), owner, prefix),
    };
    let after = after.map(|key| (key.tenant.as_str(), key.owner.as_str(), key.key.as_str()));
    let from = after.filter(|after| *after >= first).unwrap_or(first);
    let mut left = limit;
    let rows = connection.prepare(query)?.while_some(values![range.space.as_str(), from.0, from.1, from.2], |row| {
        let key = ValueKey {
            tenant: row.get::<Tenant>(0)?,
            space: range.space.clone(),
            owner: row.get(1)?,
            key: row.get(2)?,
        };
        // In order, so that nothing in the range follows the first key outside.
        if left == 0 || !range.contains(&key) {
            return Ok(None);
        }
        let is_after = after != Some((key.tenant.as_str(), key.owner.as_str(), key.key.as_str()));
        if !is_after || !is_live(row.get(3)?) {
            return Ok(Some(None));
        }
        left -= 1;
        Ok(Some(Some((key, read(row)?))))
    })?;
    Ok(rows.into_iter().flatten().collect())
}

/// The spaces of values that have owners or times.
pub(crate) fn spaces(connection: &Connection) -> Result<Vec<Space>> {
    const SPACES: &str = "SELECT DISTINCT space FROM key_values INDEXED BY key_values_by_expiry \
        WHERE expires_at IS NOT NULL";
    connection.prepare(SPACES)?.all(&[], |row| row.get(0).map(Space::named))
}

/// Removes some values of a space whose time is over; says how many.
pub(crate) fn remove_expired(connection: &Connection, space: &Space, now: Timestamp, most: usize) -> Result<usize> {
    let old = connection.prepare(OLD)?.all(values![space.as_str(), now, most], |row| read_old(row, space))?;
    remove_all(connection, &old)
}

/// Removes some values of an owner; says how many.
pub(crate) fn remove_owned(
    connection: &Connection,
    space: &Space,
    tenant: &Tenant,
    owner: &str,
    most: usize,
) -> Result<usize> {
    let values = values![space.as_str(), tenant, owner, most];
    let owned = connection.prepare(OF_OWNER)?.all(values, |row| read_old(row, space))?;
    remove_all(connection, &owned)
}

fn remove_all(connection: &Connection, values: &[(ValueKey, Found)]) -> Result<usize> {
    if !values.is_empty() {
        let mut writes = Writes::prepare(connection)?;
        let mut tally = Tally::default();
        for (key, found) in values {
            writes.remove(key, found, &mut tally)?;
        }
        writes.settle(&tally)?;
    }
    Ok(values.len())
}

/// The newest revision.
pub(crate) fn revision(connection: &Connection) -> Result<u64> {
    Ok(connection.prepare(REVISION)?.first(&[], |row| row.get(0))?.unwrap_or_default())
}
