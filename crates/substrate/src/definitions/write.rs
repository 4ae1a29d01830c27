//! Writing definitions: the name's record and the new version in one change, once, and then visible in memory.

use std::sync::Arc;

use drawloom_contract::{
    definition::{DefinitionKind, matches},
    ids::Tenant,
    once::{Applied, Made, Once},
    time::Timestamp,
    values::{ChangeError, Expect, NewValue, Quota, ValueChange, ValueKey},
};
use serde_json::Value;

use super::{
    By, DefinitionError, RuntimeDefinitions,
    change::{Origin, Prepared, add_remarks},
    layer::Known,
    power::Authority,
    rules::{self, Added},
    source::shown,
    version::{NAMES, NameRecord, Summary, Version, name_key, version_key},
};
use crate::channels::MOST_DEFINED;

/// How often a change is tried again when others were first.
pub(super) const TRIES: u32 = 64;

/// A version to add.
#[derive(Clone, Copy)]
pub(super) struct Addition<'a> {
    pub(super) kind: DefinitionKind,
    pub(super) name: &'a str,
    pub(super) prepared: &'a Prepared,
    pub(super) origin: &'a Origin,
    /// A version that is removed to make room.
    pub(super) dropped: Option<u32>,
}

impl RuntimeDefinitions {
    /// Adds a version to a name, or finds the one with the same content.
    pub(super) async fn add(
        &self,
        kind: DefinitionKind,
        name: &str,
        prepared: Prepared,
        origin: Origin,
        by: &By<'_>,
    ) -> Result<Value, DefinitionError> {
        let tenant = by.tenant();
        let _alone = self.alone(tenant, kind, name).await;
        for _ in 0..TRIES {
            let found = self.find_record(tenant, kind, name).await?;
            let record = found.as_ref().map(|(_, record)| record);
            rules::may_change(record, name, by.agent())?;
            if let Some(problem) = self.scope_problem(tenant, kind, name, record, &prepared.source).await? {
                return Err(DefinitionError::Invalid { kind, name: name.to_owned(), problems: vec![problem] });
            }
            let found_messages = match origin.promote {
                rules::Promote::No if record.is_some() => Vec::new(),
                rules::Promote::No | rules::Promote::Yes => {
                    self.admit_source(tenant, kind, name, record, &prepared.source, by).await?
                }
            };
            let addition = Addition { kind, name, prepared: &prepared, origin: &origin, dropped: None };
            let answer = |kept: &Version, next: &NameRecord, deduplicated: bool| {
                let mut answer = shown(kind, kept, next);
                answer["promoted"] = (next.active == Some(kept.version)).into();
                answer["deduplicated"] = deduplicated.into();
                let more = self.cannot_spawn(kind, name, by).into_iter().chain(found_messages.clone()).collect();
                add_remarks(&mut answer, &prepared.examined, more);
                answer
            };
            match self.add_to(found.as_ref(), &addition, by, answer).await {
                Err(DefinitionError::Change(ChangeError::Stale { .. })) => {}
                written => return written,
            }
        }
        Err(DefinitionError::Busy(name.to_owned()))
    }

    /// Adds a version to the record that was found; `Stale` when another was first.
    pub(super) async fn add_to(
        &self,
        found: Option<&(u64, NameRecord)>,
        addition: &Addition<'_>,
        by: &By<'_>,
        answer: impl Fn(&Version, &NameRecord, bool) -> Value,
    ) -> Result<Value, DefinitionError> {
        let Addition { kind, name, prepared, origin, dropped } = *addition;
        let Prepared { source, digest, authority: Authority { agent: under, .. }, .. } = prepared;
        // Only agents are bounded by their maker.
        let authority = Some(&prepared.authority).filter(|_| kind == DefinitionKind::Agent);
        let Origin { parent, description, promote } = origin;
        let (tenant, now) = (by.tenant(), self.parts.clock.wall());
        let mut before = found.map(|(_, record)| record.clone());
        let drop_from = |record: &mut NameRecord| record.versions.retain(|summary| Some(summary.version) != dropped);
        // The last version says what the next one is called.
        before.iter_mut().filter(|record| record.versions.len() > 1).for_each(drop_from);
        let new = Summary {
            version: 0,
            digest: *digest,
            parent: parent.clone(),
            created_at: now,
            retired: false,
            authority: authority.cloned(),
        };
        let Added { record: mut next, version, deduplicated } =
            rules::add(before.as_ref(), name, &new, by.agent(), *promote)?;
        drop_from(&mut next);
        let kept = match deduplicated {
            true => self.find_version(tenant, kind, name, version).await?,
            false => None,
        };
        let is_new = kept.is_none();
        let kept = kept.unwrap_or_else(|| Version {
            name: name.to_owned(),
            version,
            digest: *digest,
            parent: parent.clone(),
            maker: by.maker(),
            under: under.clone(),
            created_at: now,
            description: description.clone(),
            source: source.clone(),
        });
        // What is removed makes room for what is added.
        let removed = dropped.map(|dropped| ValueChange::remove(version_key(tenant, kind, name, dropped), now));
        let mut changes: Vec<ValueChange> = removed.into_iter().collect();
        if is_new {
            let value = serde_json::to_value(&kept).expect("a version has only text keys");
            let key = version_key(tenant, kind, name, version);
            changes.push(self.put(key, Expect::Absent, value, now));
        }
        changes.extend(self.record_change(tenant, kind, name, found, &next, now));
        let written = self.write(changes, answer(&kept, &next, deduplicated), by, now).await;
        self.visible(tenant, kind, name, written).await
    }

    /// An agent that makes another one probably wants to spawn it.
    fn cannot_spawn(&self, kind: DefinitionKind, name: &str, by: &By<'_>) -> Vec<String> {
        let By::Call { definition, .. } = by else { return Vec::new() };
        let may = definition.agents.iter().any(|pattern| matches(pattern, name));
        match kind == DefinitionKind::Agent && !may {
            true => vec![format!("agent {} cannot spawn {name}: its `agents` does not match it", definition.name)],
            false => Vec::new(),
        }
    }

    /// Changes a name's record by a rule.
    pub(super) async fn change_record(
        &self,
        kind: DefinitionKind,
        name: &str,
        by: &By<'_>,
        rule: impl Fn(Option<&NameRecord>) -> Result<(NameRecord, Value), rules::Refusal>,
    ) -> Result<Value, DefinitionError> {
        let tenant = by.tenant();
        for _ in 0..TRIES {
            let now = self.parts.clock.wall();
            let found = self.find_record(tenant, kind, name).await?;
            let record = found.as_ref().map(|(_, record)| record);
            rules::may_change(record, name, by.agent())?;
            let (next, answer) = rule(record)?;
            let changes = self.record_change(tenant, kind, name, found.as_ref(), &next, now);
            match self.write(changes.into_iter().collect(), answer, by, now).await {
                Err(DefinitionError::Change(ChangeError::Stale { .. })) => {}
                written => return self.visible(tenant, kind, name, written).await,
            }
        }
        Err(DefinitionError::Busy(name.to_owned()))
    }

    fn record_change(
        &self,
        tenant: &Tenant,
        kind: DefinitionKind,
        name: &str,
        found: Option<&(u64, NameRecord)>,
        next: &NameRecord,
        now: Timestamp,
    ) -> Option<ValueChange> {
        if found.is_some_and(|(_, record)| record == next) {
            return None;
        }
        let expect = found.map_or(Expect::Absent, |(revision, _)| Expect::Revision(*revision));
        let value = serde_json::to_value(next).expect("a record has only text keys");
        Some(self.put(name_key(tenant, kind, name), expect, value, now))
    }

    fn put(&self, key: ValueKey, expect: Expect, value: Value, now: Timestamp) -> ValueChange {
        let config = &self.parts.layers.boot.definitions;
        let is_channel = key.space == NAMES && key.owner == DefinitionKind::Channel.as_str();
        let most = if is_channel { MOST_DEFINED } else { u64::MAX };
        let quota = Some(Quota { keys: config.max_versions.min(most), bytes: config.max_bytes });
        let value = self.parts.redactor.clean(value);
        ValueChange { key, expect, to: Some(NewValue { value, expires_at: None, quota, searched: None }), at: now }
    }

    /// Brings the layer in memory up to date before the answer is returned.
    pub(super) async fn visible(
        &self,
        tenant: &Tenant,
        kind: DefinitionKind,
        name: &str,
        written: Result<Value, DefinitionError>,
    ) -> Result<Value, DefinitionError> {
        let answer = written?;
        self.refresh(tenant, kind, name).await?;
        Ok(answer)
    }

    /// Takes in what the store has of a name, or that it has it no more.
    pub(super) async fn refresh(
        &self,
        tenant: &Tenant,
        kind: DefinitionKind,
        name: &str,
    ) -> Result<(), DefinitionError> {
        let _in_turn = self.refreshing.lock().await;
        let known = match self.find_record(tenant, kind, name).await? {
            Some((revision, record)) => Some(self.known(tenant, kind, name, revision, record).await?),
            None => None,
        };
        self.parts.layers.apply(tenant, vec![((kind, name.to_owned()), known)]);
        Ok(())
    }

    /// A name with its active version, which is read only when memory does not have it.
    pub(super) async fn known(
        &self,
        tenant: &Tenant,
        kind: DefinitionKind,
        name: &str,
        revision: u64,
        record: NameRecord,
    ) -> Result<Known, DefinitionError> {
        let layer = self.parts.layers.of(tenant);
        let before = layer.as_ref().and_then(|layer| layer.names.get(&(kind, name.to_owned()))?.version.clone());
        // A name that was deleted and made again counts its versions from 1 again.
        let is_active = |known: &Version| {
            let summary = record.find(known.version).filter(|summary| record.active == Some(summary.version));
            summary.is_some_and(|summary| summary.digest == known.digest && summary.created_at == known.created_at)
        };
        let version = match (record.active, before) {
            (None, _) => None,
            (Some(_), Some(before)) if is_active(&before) => Some(before),
            (Some(active), _) => self.find_version(tenant, kind, name, active).await?.map(Arc::new),
        };
        Ok(Known { revision, record: Arc::new(record), version })
    }

    /// Writes changes under the key of the call or request, with the answer that a repeat gets.
    pub(super) async fn write(
        &self,
        changes: Vec<ValueChange>,
        answer: Value,
        by: &By<'_>,
        now: Timestamp,
    ) -> Result<Value, DefinitionError> {
        let once = self.once(&answer, by, now);
        let is_keyed = once.is_some();
        if changes.is_empty() && !is_keyed {
            return Ok(self.parts.redactor.clean(answer).into_inner());
        }
        let Applied { answer: first, .. } = self.parts.values.change(changes, once).await?;
        Ok(if is_keyed { first } else { self.parts.redactor.clean(answer).into_inner() })
    }

    /// What was answered before under the same key. It asks for a change that never happens: a used key is looked at first.
    pub(super) async fn first_answer(
        &self,
        kind: DefinitionKind,
        name: &str,
        by: &By<'_>,
    ) -> Result<Option<Value>, DefinitionError> {
        let now = self.parts.clock.wall();
        let Some(once) = self.once(&Value::Null, by, now) else { return Ok(None) };
        let key = name_key(by.tenant(), kind, name);
        let never = ValueChange { key, expect: Expect::Revision(u64::MAX), to: None, at: now };
        match self.parts.values.change(vec![never], Some(once)).await {
            Ok(Applied { answer, .. }) => {
                self.refresh(by.tenant(), kind, name).await?;
                Ok(Some(answer))
            }
            Err(ChangeError::Stale { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn once(&self, answer: &Value, by: &By<'_>, now: Timestamp) -> Option<Once> {
        match by {
            By::Call { context, .. } => Some(context.once(0, answer.clone())),
            By::Request { key, .. } => {
                let answer = self.parts.redactor.clean(answer.clone());
                Some(Once::Request { key: key.clone()?, made: Made::Answer { answer, at: now } })
            }
        }
    }
}
