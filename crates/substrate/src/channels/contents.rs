//! What a channel holds: messages, deferred messages, cursors and groups, of one owner or of all. Counted, purged, removed.

use std::{collections::BTreeSet, fmt};

use drawloom_contract::{
    ids::Tenant,
    log::{LogChange, LogKey},
    time::Timestamp,
    values::{Range, ValueChange, ValueKey, Within},
};
use serde_json::{Value, json};

use super::{
    By, Channel, ChannelError, Channels, LogsAsked, Place, Unread,
    place::{CHANNELS, DEFERRED, prefix_of, range_of},
};

/// Pages in which stored things are listed.
const PAGE: u32 = 256;

/// What a name has in it that may mean no channel now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) messages: u64,
    pub(crate) deferred: u64,
    /// Of the owners of these messages.
    pub(crate) scopes: BTreeSet<&'static str>,
}

impl Left {
    pub(crate) fn is_empty(&self) -> bool {
        self.messages == 0 && self.deferred == 0
    }
}

impl fmt::Display for Left {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counted = |count: u64, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        match (self.messages, self.deferred) {
            (messages, 0) => out.write_str(&counted(messages, "message")),
            (0, deferred) => out.write_str(&counted(deferred, "deferred message")),
            (messages, deferred) => {
                write!(out, "{} and {}", counted(messages, "message"), counted(deferred, "deferred message"))
            }
        }
    }
}

/// What a channel keeps, for all its owners together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counted {
    pub messages: u64,
    pub owners: u64,
    pub unread: Unread,
}

impl Channels {
    /// Removes the messages of a channel, delivered or deferred: of one owner, or of all.
    pub async fn purge(&self, channel: &Channel, place: Option<&Place>, by: &By<'_>) -> Result<Value, ChannelError> {
        let (tenant, now) = (by.tenant(), self.parts.clock.steady());
        let mut purged = 0;
        let mut deferred = 0;
        for name in self.names_of(tenant, &channel.name, place).await? {
            // Deferred ones first: one that becomes due in between is in the log when that is trimmed.
            deferred += self.remove_values(&range_of(tenant, DEFERRED, &name), now).await?;
            purged += self.trim_all(tenant, &name).await?;
        }
        Ok(json!({ "name": channel.name, "purged": purged, "deferred": deferred }))
    }

    /// What a channel keeps.
    pub async fn count(&self, tenant: &Tenant, name: &str) -> Result<Counted, ChannelError> {
        let mut counted = Counted::default();
        let (mut after, mut logs) = (None, Vec::new());
        loop {
            let asked = LogsAsked {
                space: CHANNELS,
                within: Some((tenant.clone(), prefix_of(name))),
                after: after.take(),
                limit: PAGE,
            };
            let page = self.parts.backlog.list_logs(&asked).await?;
            for state in &page {
                counted.messages += state.kept;
                counted.owners += u64::from(state.kept > 0);
            }
            match page.last() {
                Some(last) if page.len() as u32 == PAGE => after = Some((tenant.clone(), last.log.name.clone())),
                _ => {
                    logs.extend(page);
                    break;
                }
            }
            logs.extend(page);
        }
        counted.unread = self.unread(tenant, name, &logs).await?;
        Ok(counted)
    }

    /// The names of the logs of a channel, and of the owners of its values: of one place, or of all.
    async fn names_of(&self, tenant: &Tenant, name: &str, place: Option<&Place>) -> Result<Vec<String>, ChannelError> {
        if let Some(place) = place {
            return Ok(vec![place.name()]);
        }
        let (mut names, prefix) = (BTreeSet::new(), prefix_of(name));
        let mut after = None;
        loop {
            let within = Some((tenant.clone(), prefix.clone()));
            let asked = LogsAsked { space: CHANNELS, within, after: after.take(), limit: PAGE };
            let page = self.parts.backlog.list_logs(&asked).await?;
            let is_full = page.len() as u32 == PAGE;
            names.extend(page.into_iter().map(|state| state.log.name));
            match names.last().filter(|_| is_full) {
                Some(last) => after = Some((tenant.clone(), last.clone())),
                None => break,
            }
        }
        // Owners who have only deferred messages, cursors or groups have no log yet.
        let now = self.parts.clock.steady();
        for space in [DEFERRED, CHANNELS] {
            let range = Range { space, within: Within::Tenant(tenant.clone()) };
            let start = |owner: String| ValueKey {
                tenant: tenant.clone(),
                space: range.space.clone(),
                owner,
                key: String::new(),
            };
            let mut after = start(prefix.clone());
            while let Some((key, _)) = self.parts.values.list_values(&range, Some(&after), 1, now).await?.pop() {
                if !key.owner.starts_with(&prefix) {
                    break;
                }
                // The next owner.
                after = start(format!("{}\0", key.owner));
                names.insert(key.owner);
            }
        }
        Ok(names.into_iter().collect())
    }

    /// The messages of a name, whether or not it means a channel.
    pub(crate) async fn left(&self, tenant: &Tenant, name: &str) -> Result<Left, ChannelError> {
        let mut left = Left::default();
        let (within, mut after) = (Some((tenant.clone(), prefix_of(name))), None);
        loop {
            let asked = LogsAsked { space: CHANNELS, within: within.clone(), after: after.take(), limit: PAGE };
            let page = self.parts.backlog.list_logs(&asked).await?;
            for state in page.iter().filter(|state| state.kept > 0) {
                left.messages += state.kept;
                left.scopes.extend(scope_of(tenant, &state.log.name));
            }
            match page.last() {
                Some(last) if page.len() as u32 == PAGE => after = Some((tenant.clone(), last.log.name.clone())),
                _ => break,
            }
        }
        let (prefix, now) = (prefix_of(name), self.parts.clock.steady());
        let range = Range { space: DEFERRED, within: Within::Tenant(tenant.clone()) };
        let mut after = ValueKey { tenant: tenant.clone(), space: DEFERRED, owner: prefix.clone(), key: String::new() };
        loop {
            let page = self.parts.values.list_values(&range, Some(&after), PAGE, now).await?;
            for (key, _) in page.iter().filter(|(key, _)| key.owner.starts_with(&prefix)) {
                left.deferred += 1;
                left.scopes.extend(scope_of(tenant, &key.owner));
            }
            match page.last() {
                Some((last, _)) if last.owner.starts_with(&prefix) => after = last.clone(),
                _ => return Ok(left),
            }
        }
    }

    /// Removes all messages, cursors and groups of a name.
    pub(crate) async fn remove_contents(
        &self,
        tenant: &Tenant,
        name: &str,
        now: Timestamp,
    ) -> Result<(), ChannelError> {
        for name in self.names_of(tenant, name, None).await? {
            // In the order of a purge.
            self.remove_values(&range_of(tenant, DEFERRED, &name), now).await?;
            self.trim_all(tenant, &name).await?;
            self.remove_values(&range_of(tenant, CHANNELS, &name), now).await?;
        }
        Ok(())
    }

    async fn trim_all(&self, tenant: &Tenant, name: &str) -> Result<u64, ChannelError> {
        let log = LogKey { tenant: tenant.clone(), space: CHANNELS, name: name.to_owned() };
        let up_to = self.parts.logs.head(&log).await?;
        Ok(self.parts.logs.change_log(LogChange::Trim { log, up_to }, None).await?.result.dropped)
    }

    async fn remove_values(&self, range: &Range, now: Timestamp) -> Result<u64, ChannelError> {
        let mut removed = 0;
        loop {
            let page = self.parts.values.list_values(range, None, PAGE, now).await?;
            if page.is_empty() {
                return Ok(removed);
            }
            removed += page.len() as u64;
            let changes = page.into_iter().map(|(key, _)| ValueChange::remove(key, now)).collect();
            self.parts.values.change(changes, None).await?;
        }
    }
}

fn scope_of(tenant: &Tenant, name: &str) -> Option<&'static str> {
    Place::named(tenant.clone(), name).map(|place| place.scope().as_str())
}
