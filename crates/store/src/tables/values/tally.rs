//! What a transaction changes beside the values themselves: read once, kept while it goes on, and written at its end.

use std::collections::HashMap;

use drawloom_contract::{
    ids::Tenant,
    values::{Space, ValueKey},
};

use super::Writes;
use crate::{
    sqlite::{Result, values},
    tables::logs::LogTally,
};

/// The revisions and the amounts that owners have, in the open transaction. A copy of it is a mark to go back to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally {
    revisions: Option<Revisions>,
    owners: HashMap<(Space, Tenant, String), Owned>,
    pub(crate) logs: LogTally,
    /// Spaces that were looked through for values whose time is over.
    swept: Vec<Space>,
    /// How many more values than before the transaction search has yet to learn.
    pub(crate) waiting: i64,
    /// Whether there is anything that the index does not follow yet.
    pub(crate) loses_or_gains_words: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Revisions {
    last: u64,
    /// Search knows every value up to this one.
    pub(super) indexed: u64,
    is_changed: bool,
}

/// What an owner has.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Owned {
    keys: i64,
    bytes: i64,
    is_changed: bool,
}

impl Owned {
    /// Keys and bytes.
    pub(super) fn amounts(&self) -> (u64, u64) {
        (u64::try_from(self.keys).unwrap_or(0), u64::try_from(self.bytes).unwrap_or(0))
    }
}

impl Tally {
    /// Whether the space is to be looked through: once in a transaction.
    pub(super) fn sweeps(&mut self, space: &Space) -> bool {
        let is_new = !self.swept.contains(space);
        if is_new {
            self.swept.push(space.clone());
        }
        is_new
    }
}

impl Writes<'_> {
    pub(super) fn revisions<'t>(&mut self, tally: &'t mut Tally) -> Result<&'t mut Revisions> {
        if tally.revisions.is_none() {
            tally.revisions = self
                .revisions
                .first(&[], |row| Ok(Revisions { last: row.get(0)?, indexed: row.get(1)?, is_changed: false }))?;
        }
        Ok(tally.revisions.as_mut().expect("the table has one row"))
    }

    /// The next revision. What search does not look for leaves nothing behind that it would have to learn.
    pub(super) fn next(&mut self, tally: &mut Tally, is_searched: bool) -> Result<u64> {
        let revisions = self.revisions(tally)?;
        let knows_all = revisions.indexed == revisions.last;
        revisions.last += 1;
        if knows_all && !is_searched {
            revisions.indexed = revisions.last;
        }
        revisions.is_changed = true;
        Ok(revisions.last)
    }

    /// What the key's owner has.
    pub(super) fn owned<'t>(&mut self, tally: &'t mut Tally, key: &ValueKey) -> Result<&'t mut Owned> {
        let name = (key.space.clone(), key.tenant.clone(), key.owner.clone());
        if !tally.owners.contains_key(&name) {
            let values = values![key.space.as_str(), &key.tenant, &key.owner];
            let read = self.find_owner.first(values, |row| Ok((row.get(0)?, row.get(1)?)))?;
            let (keys, bytes) = read.unwrap_or_default();
            tally.owners.insert(name.clone(), Owned { keys, bytes, is_changed: false });
        }
        Ok(tally.owners.get_mut(&name).expect("it was read above"))
    }

    /// The keys and bytes that the key's owner has.
    pub(crate) fn amounts(&mut self, tally: &mut Tally, key: &ValueKey) -> Result<(u64, u64)> {
        Ok(self.owned(tally, key)?.amounts())
    }

    /// Counts what an owner has. What has no owner has no quota.
    pub(crate) fn count(&mut self, tally: &mut Tally, key: &ValueKey, keys: i64, bytes: i64) -> Result<()> {
        if key.owner.is_empty() || (keys == 0 && bytes == 0) {
            return Ok(());
        }
        let owned = self.owned(tally, key)?;
        (owned.keys, owned.bytes, owned.is_changed) = (owned.keys + keys, owned.bytes + bytes, true);
        Ok(())
    }

    /// Writes what the transaction came to, at its end.
    pub(crate) fn settle(&mut self, tally: &Tally) -> Result<()> {
        if let Some(Revisions { last, indexed, is_changed: true }) = tally.revisions {
            self.set_revisions.execute(values![last, indexed])?;
        }
        for ((space, tenant, owner), owned) in tally.owners.iter().filter(|(_, owned)| owned.is_changed) {
            match owned.keys <= 0 {
                true => self.forget_owner.execute(values![space.as_str(), tenant, owner])?,
                false => self.keep_owner.execute(values![space.as_str(), tenant, owner, owned.keys, owned.bytes])?,
            };
        }
        Ok(())
    }
}
