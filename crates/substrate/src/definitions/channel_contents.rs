//! What a change of a channel's definition means for messages that exist: which stay, which go, and what the caller is told.
//!
//! Messages go only with a channel that `delete_channel` deleted. A name that means no channel now keeps what it has.

use std::collections::BTreeSet;

use drawloom_contract::{
    definition::DefinitionKind,
    ids::Tenant,
    values::{Range, ValueKey, Within},
};

use serde_json::Value;

use super::{
    By, DefinitionError, RuntimeDefinitions,
    layer::channel_of,
    version::{NameRecord, VERSIONS, Version},
};
use crate::channels::{ChannelConfig, ChannelError, Deletion};

const KIND: DefinitionKind = DefinitionKind::Channel;

/// Versions that are read at once.
const PAGE: u32 = 256;

impl RuntimeDefinitions {
    /// Prepares the names that a version of a channel uses, before it becomes active: what deleted channels left in them is removed.
    /// Returns what the caller should know about messages that exist.
    pub(super) async fn admit(
        &self,
        tenant: &Tenant,
        name: &str,
        record: Option<&NameRecord>,
        next: &ChannelConfig,
        by: &By<'_>,
    ) -> Result<Vec<String>, DefinitionError> {
        self.check_settings(tenant, name, record, next, by).await?;
        let dead = next.dead_letter_of(name);
        for used in [name, &dead] {
            if let Some(deletion) = self.channels()?.find_deletion(tenant, used).await? {
                if !self.is_meant(tenant, used) {
                    self.channels()?.remove_contents(tenant, used, self.parts.clock.wall()).await?;
                }
                self.channels()?.forget_deletion(&deletion).await?;
            }
        }
        let mut warnings = Vec::new();
        if record.is_none() {
            warnings.extend(self.found_in(tenant, name, next).await?);
        }
        if !self.is_meant(tenant, &dead) {
            let left = self.channels()?.left(tenant, &dead).await?;
            if !left.is_empty() {
                warnings.push(format!("its dead-letter channel {dead:?} has {left} from before"));
            }
        }
        warnings.extend(self.taken_again(tenant, name, next).await?);
        warnings.extend(self.letters_left(tenant, name, record, &dead).await?);
        Ok(warnings)
    }

    /// Refuses settings that would take messages from users whose messages the maker may not remove, or show them to others.
    async fn check_settings(
        &self,
        tenant: &Tenant,
        name: &str,
        record: Option<&NameRecord>,
        next: &ChannelConfig,
        by: &By<'_>,
    ) -> Result<(), DefinitionError> {
        let known = self.parts.layers.channels_of(tenant).find(name);
        let taking = match (known, record) {
            (Some(before), _) => next.takes_away(&before.config),
            // A name without a channel keeps what it has as a channel without settings would.
            (None, None) => next.takes_away(&ChannelConfig::default()),
            // What the channel had when it was retired is not compared: any version may be smaller.
            (None, Some(_)) => Some("another version"),
        };
        if let Some(taking) = taking {
            self.channels()?.may_remove_others(tenant, &[name], &by.visible(), taking).await?;
        }
        match by.visible().owner() {
            Some(_) => Ok(self.parts.layers.channels_of(tenant).check_walls(name, next)?),
            None => Ok(()),
        }
    }

    /// The same for a source of any kind: other kinds have no messages.
    pub(super) async fn admit_source(
        &self,
        tenant: &Tenant,
        kind: DefinitionKind,
        name: &str,
        record: Option<&NameRecord>,
        source: &Value,
        by: &By<'_>,
    ) -> Result<Vec<String>, DefinitionError> {
        match serde_json::from_value::<ChannelConfig>(source.clone()) {
            Ok(next) if kind == KIND => self.admit(tenant, name, record, &next, by).await,
            _ => Ok(Vec::new()),
        }
    }

    /// What a name has before it gets a channel. Messages of another scope could not be read, so they are a refusal.
    async fn found_in(
        &self,
        tenant: &Tenant,
        name: &str,
        next: &ChannelConfig,
    ) -> Result<Option<String>, DefinitionError> {
        let left = self.channels()?.left(tenant, name).await?;
        let scope = next.scope.plain().as_str();
        if let Some(other) = left.scopes.iter().find(|other| **other != scope) {
            let message = format!(
                "channel {name:?} has {left} from before, of the scope {other}: with the scope {scope} they could not be \
                 read; create it with the scope {other} (delete_channel then removes them), or use another name"
            );
            return Err(ChannelError::Scope(message).into());
        }
        let is_implicit = self.parts.layers.channels_of(tenant).find(name).is_some();
        Ok((!left.is_empty() && !is_implicit).then(|| {
            format!(
                "channel {name:?} has {left} from before it was created, which readers get (purge_channel removes them)"
            )
        }))
    }

    /// Readers of a queue share one cursor, consumers of a broadcast channel have their own: a change of `semantic` begins at the oldest
    /// message.
    async fn taken_again(
        &self,
        tenant: &Tenant,
        name: &str,
        next: &ChannelConfig,
    ) -> Result<Option<String>, DefinitionError> {
        let table = self.parts.layers.channels_of(tenant);
        let Some(before) = table.defined(name).map(|channel| channel.config.semantic.plain()) else { return Ok(None) };
        if before == next.semantic.plain() {
            return Ok(None);
        }
        let messages = self.channels()?.count(tenant, name).await?.messages;
        Ok((messages > 0).then(|| {
            format!(
                "semantic changed from {} to {}: cursors do not carry over, so the {messages} messages that the channel has \
                 are delivered again, also those that were taken (purge_channel removes them)",
                before.as_str(),
                next.semantic.plain().as_str(),
            )
        }))
    }

    /// Dead letters of the channel that no channel name leads to when `dead` is its dead-letter channel.
    async fn letters_left(
        &self,
        tenant: &Tenant,
        name: &str,
        record: Option<&NameRecord>,
        dead: &str,
    ) -> Result<Vec<String>, DefinitionError> {
        let table = self.parts.layers.channels_of(tenant);
        let earlier = match (table.defined(name).and_then(|channel| channel.dead_letter()), record) {
            (Some(before), _) => BTreeSet::from([before]),
            (None, Some(record)) => self.dead_letters_of(tenant, name, record).await?,
            (None, None) => BTreeSet::new(),
        };
        let mut warnings = Vec::new();
        for before in earlier.iter().filter(|before| *before != dead && !table.is_used(before, name)) {
            let left = self.channels()?.left(tenant, before).await?;
            if let Some(scope) = left.scopes.first() {
                warnings.push(format!(
                    "the earlier dead-letter channel {before:?} has {left}, which stay but cannot be read now; to read them, \
                     use create_channel with the name {before:?} and the scope {scope}"
                ));
            }
        }
        Ok(warnings)
    }

    /// The dead-letter channels of all versions of a channel.
    pub(super) async fn dead_letters_of(
        &self,
        tenant: &Tenant,
        name: &str,
        record: &NameRecord,
    ) -> Result<BTreeSet<String>, DefinitionError> {
        let mut found = BTreeSet::new();
        for summary in &record.versions {
            let kept = self.find_version(tenant, KIND, name, summary.version).await?;
            let channel = kept.and_then(|kept| channel_of(&kept).ok());
            found.extend(channel.map(|channel| channel.config.dead_letter_of(name)));
        }
        Ok(found)
    }

    /// Whether a version of another channel than `name` has this dead-letter channel, active or not.
    pub(super) async fn is_named_by_others(
        &self,
        tenant: &Tenant,
        dead: &str,
        name: &str,
    ) -> Result<bool, DefinitionError> {
        let owner = KIND.as_str().to_owned();
        let within = Within::Owner { tenant: tenant.clone(), owner, prefix: String::new() };
        let (range, mut after) = (Range { space: VERSIONS, within }, None::<ValueKey>);
        loop {
            let now = self.parts.clock.wall();
            let page = self.parts.values.list_values(&range, after.as_ref(), PAGE, now).await?;
            let Some((last, _)) = page.last() else { return Ok(false) };
            after = Some(last.clone());
            for (_, kept) in page {
                let version = serde_json::from_value::<Version>(kept.value).ok().filter(|kept| kept.name != name);
                let channel = version.and_then(|version| channel_of(&version).ok());
                if channel.is_some_and(|channel| channel.dead_letter().as_deref() == Some(dead)) {
                    return Ok(true);
                }
            }
        }
    }

    /// Removes what a deleted channel left, and the dead letters that were deleted with it.
    pub(super) async fn finish_deleted(&self, tenant: &Tenant, name: &str) -> Result<(), DefinitionError> {
        let Some(deletion) = self.channels()?.find_deletion(tenant, name).await? else { return Ok(()) };
        for dead in &deletion.dead_letters {
            if let Some(deletion) = self.channels()?.find_deletion(tenant, dead).await? {
                self.finish(&deletion).await?;
            }
        }
        self.finish(&deletion).await
    }

    /// Finishes deletions that an earlier process left. Called once, after [`Self::load`], by the process that owns the store.
    pub async fn finish_deletions(&self) -> Result<(), DefinitionError> {
        for deletion in self.channels()?.list_deletions().await? {
            self.finish(&deletion).await?;
        }
        Ok(())
    }

    /// Removes what a deleted channel left, unless the name means a channel again: then its messages are not those of the deleted one.
    async fn finish(&self, deletion: &Deletion) -> Result<(), DefinitionError> {
        let channels = self.channels()?;
        match self.is_meant(&deletion.tenant, &deletion.name) {
            true => channels.forget_deletion(deletion).await?,
            false => channels.finish_deletion(deletion).await?,
        }
        Ok(())
    }

    /// Whether a name means a channel, also one without an active version.
    fn is_meant(&self, tenant: &Tenant, name: &str) -> bool {
        let table = self.parts.layers.channels_of(tenant);
        table.find(name).is_some() || table.is_inactive(name)
    }
}
