//! What `create_channel`, `update_channel` and `delete_channel` do: the first version of a channel, the next one, and the end of all.

use drawloom_contract::{
    definition::DefinitionKind,
    ids::Tenant,
    values::{ChangeError, Expect, ValueChange},
};
use serde_json::{Value, json};

use super::{
    By, DefinitionError, RuntimeDefinitions,
    change::{Origin, Prepared},
    layer::channel_of,
    rules::{self, MOST_VERSIONS_OF_NAME},
    version::{NameRecord, Version, name_key, version_key, version_name},
    write::{Addition, TRIES},
};
use crate::channels::{ChannelConfig, ChannelError, check_name};

const KIND: DefinitionKind = DefinitionKind::Channel;

impl RuntimeDefinitions {
    /// Makes a channel. Messages of a deleted one of the same name are removed before; others that the name has stay, and the answer says
    /// how many.
    pub async fn create_channel(
        &self,
        name: &str,
        config: ChannelConfig,
        by: &By<'_>,
    ) -> Result<Value, DefinitionError> {
        let (config, tenant) = (config.plain(), by.tenant());
        config.check(name)?;
        let taken = || DefinitionError::from(ChannelError::NameInUse(name.to_owned()));
        if self.is_in_config(KIND, name) {
            return Err(ChannelError::NameInConfig(name.to_owned()).into());
        }
        let _alone = self.alone(tenant, KIND, name).await;
        if let Some(answer) = self.first_answer(KIND, name, by).await? {
            return Ok(answer);
        }
        self.refresh(tenant, KIND, name).await?;
        if self.find_record(tenant, KIND, name).await?.is_some() {
            return Err(taken());
        }
        self.check_name(KIND, name)?;
        self.parts.layers.channels_of(tenant).check_dead_letters(name, &config)?;
        let prepared = self.prepare(KIND, name, config.source(), by).await?;
        let mut warnings = prepared.examined.warnings.clone();
        warnings.extend(self.admit(tenant, name, None, &config, by).await?);
        let messages = self.channels()?.count(tenant, name).await?.messages;
        let origin = Origin { parent: None, description: String::new(), promote: rules::Promote::Yes };
        let addition = Addition { kind: KIND, name, prepared: &prepared, origin: &origin, dropped: None };
        let answer = |kept: &Version, _: &NameRecord, _| described(kept, messages, &warnings);
        match self.add_to(None, &addition, by, answer).await {
            Err(DefinitionError::Change(ChangeError::Stale { .. })) => Err(taken()),
            made => made,
        }
    }

    /// Changes the settings of a channel made at runtime: a new version, or the one that has these settings, is active at once. When there
    /// is no room for a further version, the oldest one goes, and the answer says so.
    pub async fn update_channel(
        &self,
        name: &str,
        change: impl Fn(&mut ChannelConfig) + Send + Sync,
        by: &By<'_>,
    ) -> Result<Value, DefinitionError> {
        let tenant = by.tenant();
        self.refuse_declared(name)?;
        let _alone = self.alone(tenant, KIND, name).await;
        if let Some(answer) = self.first_answer(KIND, name, by).await? {
            return Ok(answer);
        }
        let mut is_full = false;
        for _ in 0..TRIES {
            self.refresh(tenant, KIND, name).await?;
            let Some(found) = self.find_record(tenant, KIND, name).await? else {
                return Err(self.no_channel(by, name)?);
            };
            let record = &found.1;
            let active = record.active.ok_or_else(|| DefinitionError::NoVersion(name.to_owned()))?;
            let Some(kept) = self.find_version(tenant, KIND, name, active).await? else {
                return Err(self.unknown_version(tenant, KIND, name, active));
            };
            let mut config = channel_of(&kept).map_err(|_| DefinitionError::Unreadable(kept.name.clone()))?.config;
            let before = config.clone();
            change(&mut config);
            let config = config.plain();
            config.check(name)?;
            if config.dead_letter != before.dead_letter {
                self.parts.layers.channels_of(tenant).check_dead_letters(name, &config)?;
            }
            let prepared = self.prepare(KIND, name, config.source(), by).await?;
            if let Some(problem) = self.scope_problem(tenant, KIND, name, Some(record), &prepared.source).await? {
                return Err(ChannelError::Scope(problem.to_string()).into());
            }
            let dropped = dropped(record, &prepared, is_full);
            let mut warnings = prepared.examined.warnings.clone();
            warnings.extend(
                dropped.map(|version| {
                    format!("{} was removed to make room for this version", version_name(name, version))
                }),
            );
            warnings.extend(self.admit(tenant, name, Some(record), &config, by).await?);
            let messages = self.channels()?.count(tenant, name).await?.messages;
            let parent = Some(version_name(name, active));
            let origin = Origin { parent, description: String::new(), promote: rules::Promote::Yes };
            let addition = Addition { kind: KIND, name, prepared: &prepared, origin: &origin, dropped };
            let answer = |kept: &Version, _: &NameRecord, _| described(kept, messages, &warnings);
            match self.add_to(Some(&found), &addition, by, answer).await {
                Err(DefinitionError::Change(ChangeError::Stale { .. })) => {}
                Err(DefinitionError::Change(ChangeError::OverQuota { .. })) if !is_full => is_full = true,
                changed => return changed,
            }
        }
        Err(ChannelError::Busy(name.to_owned()).into())
    }

    /// Deletes a channel made at runtime, with all its versions and everything in it.
    pub async fn delete_channel(&self, name: &str, by: &By<'_>) -> Result<Value, DefinitionError> {
        let tenant = by.tenant();
        self.refuse_declared(name)?;
        let _alone = self.alone(tenant, KIND, name).await;
        if let Some(first) = self.first_answer(KIND, name, by).await? {
            // The first request may have been cut off before this.
            self.finish_deleted(tenant, name).await?;
            return Ok(first);
        }
        for _ in 0..TRIES {
            self.refresh(tenant, KIND, name).await?;
            let Some((revision, record)) = self.find_record(tenant, KIND, name).await? else {
                return Err(self.no_channel(by, name)?);
            };
            let mut answer = json!({ "name": name, "deleted": true });
            let mut warnings = Vec::new();
            let dead_letters = self.own_dead_letters(tenant, name, &record).await?;
            let mut names: Vec<&str> = dead_letters.iter().map(String::as_str).collect();
            names.push(name);
            self.channels()?.may_remove_others(tenant, &names, &by.visible(), "the deletion").await?;
            for dead in &dead_letters {
                let left = self.channels()?.left(tenant, dead).await?;
                if !left.is_empty() {
                    warnings.push(format!("its dead-letter channel {dead:?} was deleted too, with {left}"));
                }
            }
            if !warnings.is_empty() {
                answer["warnings"] = json!(warnings);
            }
            let now = self.parts.clock.wall();
            let name_change = ValueChange {
                expect: Expect::Revision(revision),
                ..ValueChange::remove(name_key(tenant, KIND, name), now)
            };
            let versions = record.versions.iter().map(|summary| version_key(tenant, KIND, name, summary.version));
            let removed = [name_change].into_iter().chain(versions.map(|key| ValueChange::remove(key, now)));
            let recorded = self.channels()?.record_deletion(tenant, name, &dead_letters, now);
            // The definition goes first, so that nothing is published afterwards. What a crash leaves is removed by a repeat, at the next
            // start, or by the next create.
            let written = self.write(removed.chain(recorded).collect(), answer, by, now).await;
            match self.visible(tenant, KIND, name, written).await {
                Err(DefinitionError::Change(ChangeError::Stale { .. })) => {}
                deleted => {
                    let deleted = deleted?;
                    self.channels()?.remove_contents(tenant, name, now).await?;
                    self.finish_deleted(tenant, name).await?;
                    return Ok(deleted);
                }
            }
        }
        Err(ChannelError::Busy(name.to_owned()).into())
    }

    /// The dead-letter channels that go with a channel: those of all its versions, unless they are defined on their own or a version of
    /// another channel has them too.
    async fn own_dead_letters(
        &self,
        tenant: &Tenant,
        name: &str,
        record: &NameRecord,
    ) -> Result<Vec<String>, DefinitionError> {
        let mut own = Vec::new();
        for dead in self.dead_letters_of(tenant, name, record).await? {
            let is_used = self.parts.layers.channels_of(tenant).is_used(&dead, name);
            if !is_used && !self.is_named_by_others(tenant, &dead, name).await? {
                own.push(dead);
            }
        }
        Ok(own)
    }

    fn refuse_declared(&self, name: &str) -> Result<(), DefinitionError> {
        check_name(name)?;
        match self.is_in_config(KIND, name) {
            true => Err(ChannelError::Immutable(name.to_owned()).into()),
            false => Ok(()),
        }
    }

    /// Why there is nothing to change.
    fn no_channel(&self, by: &By<'_>, name: &str) -> Result<DefinitionError, DefinitionError> {
        let unknown = self.channels()?.load_channel(by.tenant(), name).err();
        Ok(unknown.unwrap_or_else(|| ChannelError::Immutable(name.to_owned())).into())
    }
}

/// The channel of a version, as callers see it.
fn described(kept: &Version, messages: u64, warnings: &[String]) -> Value {
    let mut shown = channel_of(kept).map(|channel| channel.shown()).unwrap_or_default();
    shown["message_count"] = messages.into();
    if !warnings.is_empty() {
        shown["warnings"] = json!(warnings);
    }
    shown
}

/// The version that makes room for new settings: the oldest, when the name or the tenant has too many.
fn dropped(record: &NameRecord, prepared: &Prepared, is_full: bool) -> Option<u32> {
    let is_known = record.versions.iter().any(|summary| summary.digest == prepared.digest && !summary.retired);
    let needs_room = !is_known && (is_full || record.versions.len() >= MOST_VERSIONS_OF_NAME);
    record.versions.first().filter(|_| needs_room).map(|summary| summary.version)
}
