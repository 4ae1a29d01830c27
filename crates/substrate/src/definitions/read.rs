//! Reading definitions: one, many, what differs, what would be refused, and where a version comes from.

use std::{collections::BTreeMap, future::Future, sync::Arc};

use drawloom_contract::{
    definition::DefinitionKind,
    ids::{Digest, Tenant},
    journal::RunReader,
    streams,
    values::{Kept, Range, Seen, ValueKey, WatchFrom, Within},
};
use futures::StreamExt as _;
use serde_json::{Value, json};
use similar::TextDiff;

use super::{
    By, DefinitionError, MOST_LISTED, RuntimeDefinitions,
    layer::Known,
    power::{Authority, Powerless},
    rules, shown_finding,
    source::shown,
    version::{CONFIG, NAMES, NameRecord, Summary, Version, name_key, parse_reference, version_key, version_name},
};
use crate::{catalog::Inputs, lint};

/// Values read at once when everything is loaded.
const PAGE: u32 = 500;

/// Most steps from a version to its first ancestor.
const MOST_ANCESTORS: usize = 1_000;

/// What to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListAsked {
    pub kind: Option<DefinitionKind>,
    /// Lists the versions of this name.
    pub name: Option<String>,
    /// `next` of the previous page.
    pub after: Option<String>,
    pub limit: Option<u32>,
}

/// What to verify: a source that is not stored, or a stored version.
#[derive(Debug, Clone, PartialEq)]
pub struct Verify {
    pub kind: DefinitionKind,
    pub name: String,
    pub source: Option<Value>,
    pub version: Option<u32>,
    pub content_sha256: Option<String>,
}

/// Where a version comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lineage {
    /// `NAME@VERSION`, or `NAME@config`.
    pub def_id: String,
    /// Its parent, the parent of that, and so on.
    pub parents: Vec<String>,
}

impl RuntimeDefinitions {
    /// Reads everything that is defined, for every tenant. Nothing that is wrong with it keeps a server from starting.
    pub async fn load(&self) -> Result<(), DefinitionError> {
        let range = Range { space: NAMES, within: Within::Space };
        let (mut after, mut tenants) = (None::<ValueKey>, BTreeMap::<Tenant, Vec<_>>::new());
        loop {
            let now = self.parts.clock.wall();
            let page = self.parts.values.list_values(&range, after.as_ref(), PAGE, now).await?;
            let is_last = page.len() < PAGE as usize;
            after = page.last().map(|(key, _)| key.clone());
            for (key, kept) in page {
                let (Some(kind), Ok(record)) = (kind_of(&key), read_record(&kept)) else {
                    tracing::warn!(
                        owner = key.owner,
                        name = key.key,
                        "a stored definition cannot be read; it is ignored"
                    );
                    continue;
                };
                let known = match self.known(&key.tenant, kind, &key.key, kept.revision, record).await {
                    Err(DefinitionError::Unreadable(what)) => {
                        tracing::warn!(what, "a stored definition cannot be read; it is ignored");
                        continue;
                    }
                    known => known?,
                };
                tenants.entry(key.tenant).or_default().push(((kind, key.key), Some(known)));
            }
            if is_last {
                break;
            }
        }
        for (tenant, name, known) in self.load_older().await? {
            let known_names = tenants.entry(tenant).or_default();
            let key = (DefinitionKind::Channel, name);
            if !known_names.iter().any(|(known, _)| *known == key) {
                known_names.push((key, Some(known)));
            }
        }
        for (tenant, changes) in tenants {
            self.parts.layers.apply(&tenant, changes);
        }
        Ok(())
    }

    /// Keeps memory in step with the store, from the moment of this call on, for ever.
    pub fn follow(self: Arc<Self>) -> impl Future<Output = ()> + Send + use<> {
        let range = Range { space: NAMES, within: Within::Space };
        let (first, definitions) = (self.parts.values.watch(&range, WatchFrom::Now), Arc::clone(&self));
        let (space, clock) = (range.clone(), self.parts.clock.clone());
        let open = move || Some(definitions.parts.values.watch(&space, WatchFrom::Now));
        let mut seen = streams::reopened(first, open, || Seen::Gap, clock);
        async move {
            while let Some(seen) = seen.next().await {
                let taken = match seen {
                    Seen::Is { key, .. } => match kind_of(&key) {
                        Some(kind) => self.refresh(&key.tenant, kind, &key.key).await,
                        None => Ok(()),
                    },
                    Seen::Gap => self.refresh_all(&range).await,
                    Seen::CaughtUp => Ok(()),
                };
                if let Err(error) = taken {
                    tracing::warn!(%error, "cannot read a changed definition");
                }
            }
        }
    }

    /// Reads all names again: those that the store has, and those that it had.
    async fn refresh_all(&self, range: &Range) -> Result<(), DefinitionError> {
        let mut names = self.parts.layers.names();
        let mut after = None::<ValueKey>;
        loop {
            let page = self.parts.values.list_values(range, after.as_ref(), PAGE, self.parts.clock.wall()).await?;
            let Some((last, _)) = page.last() else { break };
            after = Some(last.clone());
            let found = page.into_iter().filter_map(|(key, _)| Some((kind_of(&key)?, key)));
            names.extend(found.map(|(kind, key)| (key.tenant, kind, key.key)));
        }
        for (tenant, kind, name) in &names {
            if let Err(error) = self.refresh(tenant, *kind, name).await {
                tracing::warn!(%error, name, "cannot read a changed definition");
            }
        }
        Ok(())
    }

    pub async fn get(
        &self,
        tenant: &Tenant,
        kind: DefinitionKind,
        name: &str,
        version: Option<u32>,
    ) -> Result<Value, DefinitionError> {
        let Some((_, record)) = self.find_record(tenant, kind, name).await? else {
            let found = self.get_config(kind, name).filter(|_| version.is_none());
            return found.ok_or_else(|| self.unknown_reference(tenant, kind, name, version));
        };
        let newest = || record.versions.last().map(|summary| summary.version);
        let version = version.or(record.active).or_else(newest).unwrap_or(1);
        let Some(kept) = self.find_version(tenant, kind, name, version).await? else {
            return Err(self.unknown_version(tenant, kind, name, version));
        };
        let mut answer = shown(kind, &kept, &record);
        answer["source"] = kept.source;
        if record.active == Some(version) {
            let state = self.parts.layers.state(tenant, kind, name);
            answer["unusable"] = state.unusable.into();
            answer["warnings"] = state.notes.into();
            let layer = self.parts.layers.of(tenant).filter(|_| kind == DefinitionKind::Agent);
            let findings = layer.map(|layer| layer.findings(&self.parts.layers.boot, tenant, |known| known == name));
            answer["findings"] = findings.iter().flatten().map(|(_, finding)| shown_finding(finding)).collect();
        }
        Ok(answer)
    }

    /// An agent or channel of the config, which has no versions.
    fn get_config(&self, kind: DefinitionKind, name: &str) -> Option<Value> {
        let source = self.config_source(kind, name)?;
        let digest = Digest::of(source.to_string().as_bytes());
        Some(json!({
            "kind": kind, "name": name, "def_id": format!("{name}@{CONFIG}"), "content_sha256": digest,
            "retired": false, "active": true, "source": source,
        }))
    }

    /// Names of both layers, or the versions of one name.
    pub async fn list(&self, tenant: &Tenant, asked: &ListAsked) -> Result<Value, DefinitionError> {
        match &asked.name {
            Some(name) => self.list_versions(tenant, asked.kind.unwrap_or(DefinitionKind::Agent), name).await,
            None => Ok(self.list_names(tenant, asked)),
        }
    }

    async fn list_versions(&self, tenant: &Tenant, kind: DefinitionKind, name: &str) -> Result<Value, DefinitionError> {
        let Some((_, record)) = self.find_record(tenant, kind, name).await? else {
            return match self.is_in_config(kind, name) {
                true => Ok(json!({ "definitions": [], "versions": [] })),
                false => Err(self.unknown(tenant, kind, name)),
            };
        };
        let versions = record.versions.iter().map(|summary| {
            json!({
                "def_id": version_name(name, summary.version),
                "version": summary.version,
                "content_sha256": summary.digest,
                "parent": summary.parent,
                "created_at": summary.created_at.to_rfc3339(),
                "retired": summary.retired,
                "active": record.active == Some(summary.version),
            })
        });
        Ok(json!({ "definitions": [], "versions": versions.collect::<Vec<_>>() }))
    }

    fn list_names(&self, tenant: &Tenant, asked: &ListAsked) -> Value {
        let boot = &self.parts.layers.boot;
        let layer = self.parts.layers.of(tenant);
        let mut rows: BTreeMap<(DefinitionKind, String), Value> = BTreeMap::new();
        let agents = boot.catalog.names().map(|name| (DefinitionKind::Agent, name));
        let skills = boot.config.skills.names().map(|name| (DefinitionKind::Skill, name));
        let volumes = boot.config.volumes.names().map(|name| (DefinitionKind::Volume, name));
        let channels = boot.config.channels.keys().map(|name| (DefinitionKind::Channel, name.as_str()));
        for (kind, name) in agents.chain(channels).chain(skills).chain(volumes) {
            rows.insert((kind, name.to_owned()), json!({ "kind": kind, "name": name, "origin": "config" }));
        }
        for ((kind, name), known) in layer.iter().flat_map(|layer| &layer.names) {
            let state = layer.as_ref().and_then(|layer| layer.state(*kind, name)).cloned().unwrap_or_default();
            let row = json!({
                "kind": kind,
                "name": name,
                "origin": "runtime",
                "active": known.record.active,
                "versions": known.record.versions.len(),
                "description": known.version.as_deref().map(about),
                "unusable": state.unusable,
                "warnings": state.notes,
            });
            // Of a name that the config has too, the config's is used; the row of the other says why it is not.
            rows.insert((*kind, name.clone()), row);
        }
        let id = |(kind, name): &(DefinitionKind, String)| format!("{}/{name}", kind.as_str());
        let is_meant = |key: &(DefinitionKind, String)| {
            asked.kind.is_none_or(|kind| kind == key.0) && asked.after.as_ref().is_none_or(|after| id(key) > *after)
        };
        let limit = asked.limit.unwrap_or(MOST_LISTED).clamp(1, MOST_LISTED) as usize;
        let mut meant: Vec<_> = rows.into_iter().filter(|(key, _)| is_meant(key)).collect();
        let has_more = meant.len() > limit;
        meant.truncate(limit);
        let next = meant.last().filter(|_| has_more).map(|(key, _)| id(key));
        json!({ "definitions": meant.into_iter().map(|(_, row)| row).collect::<Vec<_>>(), "versions": [], "next": next })
    }

    /// A unified diff of two sources.
    pub async fn diff(
        &self,
        tenant: &Tenant,
        kind: DefinitionKind,
        from: &str,
        to: &str,
    ) -> Result<Value, DefinitionError> {
        let (old_id, old) = self.source_of(tenant, kind, from).await?;
        let (new_id, new) = self.source_of(tenant, kind, to).await?;
        let (old, new) = (as_text(&old), as_text(&new));
        let diff =
            TextDiff::from_lines(&old, &new).unified_diff().context_radius(3).header(&old_id, &new_id).to_string();
        Ok(json!({ "from": old_id, "to": new_id, "same": old == new, "diff": diff }))
    }

    async fn source_of(
        &self,
        tenant: &Tenant,
        kind: DefinitionKind,
        reference: &str,
    ) -> Result<(String, Value), DefinitionError> {
        let bad = || DefinitionError::BadReference(reference.to_owned());
        let (name, version) = parse_reference(reference).ok_or_else(bad)?;
        let mut found = self.get(tenant, kind, name, version).await?;
        let id = found["def_id"].as_str().unwrap_or_default().to_owned();
        Ok((id, found["source"].take()))
    }

    /// Every problem of a source, or of a version today, at once. Nothing is written.
    pub async fn verify(&self, asked: Verify, by: &By<'_>) -> Result<Value, DefinitionError> {
        let Verify { kind, name, source, version, content_sha256 } = asked;
        let tenant = by.tenant();
        let record = self.find_record(tenant, kind, &name).await?.map(|(_, record)| record);
        let current = record.as_ref().and_then(|record| record.find(record.active?));
        if source.is_none() && version.is_none() && record.is_none() && self.is_in_config(kind, &name) {
            return Ok(self.verify_config(tenant, kind, &name, content_sha256.as_deref()));
        }
        let mut powerless = None;
        let (source, authority) = match source {
            Some(source) => (source, self.authority(by).await?),
            None => {
                let mut found = self.get(tenant, kind, &name, version).await?;
                let number = found["version"].as_u64().and_then(|number| u32::try_from(number).ok());
                let authority = match (kind, number) {
                    (DefinitionKind::Agent, Some(number)) => self.stored_authority(tenant, &name, number).await?,
                    _ => Ok(Authority::default()),
                };
                let usable = authority.and_then(|authority| self.with_power(tenant, authority));
                // Who promotes it is its maker then.
                let by_promotion = |reason: Powerless| {
                    let told = reason.told(&name, number.unwrap_or_default());
                    powerless = Some(super::SourceProblem::new("", told));
                };
                let authority = match usable.map_err(by_promotion) {
                    Ok(authority) => authority,
                    Err(()) => self.authority(by).await?,
                };
                (found["source"].take(), authority)
            }
        };
        let prepared = self.look_at(kind, &name, source, authority, by)?;
        let mut problems = prepared.examined.problems.clone();
        problems.extend(powerless);
        problems.extend(self.scope_problem(tenant, kind, &name, record.as_ref(), &prepared.source).await?);
        if self.is_in_config(kind, &name) {
            let error = DefinitionError::InConfig { kind, name: name.clone() };
            problems.insert(0, super::SourceProblem::new("name", error.to_string()));
        }
        let examined = &prepared.examined;
        let compared = content_sha256.unwrap_or_else(|| prepared.digest.to_string());
        Ok(json!({
            "kind": kind,
            "name": name,
            "origin": "runtime",
            "valid": problems.is_empty() && examined.excess.is_empty(),
            "problems": problems,
            "excess": examined.excess,
            "findings": examined.findings.iter().map(shown_finding).collect::<Vec<_>>(),
            "warnings": examined.warnings,
            "content_sha256": prepared.digest,
            "version": current.map(|summary| summary.version),
            "current_def_id": current.map(|summary| version_name(&name, summary.version)),
            "current_sha256": current.map(|summary| summary.digest),
            "matches": current.is_some_and(|summary| summary.digest.to_string() == compared),
            "deployed": current.is_some() && self.parts.layers.state(tenant, kind, &name).unusable.is_none(),
        }))
    }

    /// What is to say about what the config has: it was checked when the server started, and is bounded by no maker.
    fn verify_config(&self, tenant: &Tenant, kind: DefinitionKind, name: &str, compared: Option<&str>) -> Value {
        let boot = &self.parts.layers.boot;
        let source = self.config_source(kind, name);
        let digest = source.map(|source| Digest::of(source.to_string().as_bytes()).to_string()).unwrap_or_default();
        let agent =
            Some((boot.config.agents.get(name), boot.catalog.get(name))).filter(|_| kind == DefinitionKind::Agent);
        let findings = match agent {
            Some((Some(config), Some(definition))) => {
                let channels = self.parts.layers.channels_of(tenant).configs();
                lint::agent(config, definition, &Inputs { channels: &channels, ..boot.config.inputs() })
            }
            _ => Vec::new(),
        };
        json!({
            "kind": kind,
            "name": name,
            "origin": "config",
            "valid": true,
            "problems": [],
            "excess": [],
            "findings": findings.iter().map(shown_finding).collect::<Vec<_>>(),
            "warnings": [],
            "content_sha256": digest,
            "current_def_id": format!("{name}@{CONFIG}"),
            "current_sha256": digest,
            "matches": compared.is_none_or(|compared| compared == digest),
            "deployed": true,
        })
    }

    /// Where an agent's version comes from. `reference` is `NAME@VERSION`, the digest of a source, or the digest that a run pinned.
    pub async fn lineage(
        &self,
        reader: &dyn RunReader,
        tenant: &Tenant,
        reference: &str,
    ) -> Result<Option<Lineage>, DefinitionError> {
        let def_id = match reference.parse::<Digest>() {
            Ok(digest) => self.with_digest(reader, tenant, &digest).await?,
            Err(_) => Some(reference.to_owned()),
        };
        let Some(def_id) = def_id else { return Ok(None) };
        let mut parents: Vec<String> = Vec::new();
        let mut next = Some(def_id.clone());
        while let Some(reference) = next.take().filter(|_| parents.len() < MOST_ANCESTORS) {
            let Some((name, Some(version))) = parse_reference(&reference) else { break };
            let record = self.find_record(tenant, DefinitionKind::Agent, name).await?;
            let Some(summary) = record.as_ref().and_then(|(_, record)| record.find(version)) else {
                if parents.is_empty() {
                    return Ok(None);
                }
                break;
            };
            next = summary.parent.clone();
            parents.extend(next.clone());
        }
        Ok(Some(Lineage { def_id, parents }))
    }

    /// Whether there is such a version of an agent; `NAME@config` is one for each agent of the config.
    pub(crate) fn knows(&self, tenant: &Tenant, reference: &str) -> bool {
        match parse_reference(reference) {
            Some((name, Some(version))) => self.summary(tenant, name, version).is_some(),
            Some((name, None)) => self.is_in_config(DefinitionKind::Agent, name),
            None => false,
        }
    }

    /// What a version of an agent was made from.
    pub(crate) fn parent(&self, tenant: &Tenant, reference: &str) -> Option<String> {
        let (name, version) = parse_reference(reference)?;
        self.summary(tenant, name, version?)?.parent
    }

    fn summary(&self, tenant: &Tenant, name: &str, version: u32) -> Option<Summary> {
        let layer = self.parts.layers.of(tenant)?;
        layer.names.get(&(DefinitionKind::Agent, name.to_owned()))?.record.find(version).cloned()
    }

    /// The names of all agents, also of those without an active version.
    pub(crate) fn agent_names(&self, tenant: &Tenant) -> Vec<String> {
        let layer = self.parts.layers.of(tenant);
        let made = layer.iter().flat_map(|layer| layer.names.keys());
        let made = made.filter(|(kind, _)| *kind == DefinitionKind::Agent).map(|(_, name)| name.clone());
        self.parts.layers.boot.catalog.names().map(str::to_owned).chain(made).collect()
    }

    /// The version with this digest: of its source, or of the definition that a run pinned.
    async fn with_digest(
        &self,
        reader: &dyn RunReader,
        tenant: &Tenant,
        digest: &Digest,
    ) -> Result<Option<String>, DefinitionError> {
        let layer = self.parts.layers.of(tenant);
        let agents =
            layer.iter().flat_map(|layer| &layer.names).filter(|((kind, _), _)| *kind == DefinitionKind::Agent);
        let by_source = agents
            .filter_map(|((_, name), Known { record, .. })| {
                Some(version_name(name, rules::with_digest(record, digest)?))
            })
            .next();
        if by_source.is_some() {
            return Ok(by_source);
        }
        let pinned = reader.find_definition(tenant, digest).await?;
        Ok(pinned.map(|pinned| match pinned.version {
            Some(version) => version_name(pinned.name.as_str(), version),
            None => format!("{}@{CONFIG}", pinned.name),
        }))
    }

    pub(super) async fn find_record(
        &self,
        tenant: &Tenant,
        kind: DefinitionKind,
        name: &str,
    ) -> Result<Option<(u64, NameRecord)>, DefinitionError> {
        let key = name_key(tenant, kind, name);
        let Some(kept) = self.parts.values.find_value(&key, self.parts.clock.wall()).await? else {
            let older = self.find_older(tenant, kind, name).await?;
            return Ok(older.map(|older| (older.revision, older.record)));
        };
        let record = read_record(&kept).map_err(|_| DefinitionError::Unreadable(name.to_owned()))?;
        Ok(Some((kept.revision, record)))
    }

    pub(super) async fn find_version(
        &self,
        tenant: &Tenant,
        kind: DefinitionKind,
        name: &str,
        version: u32,
    ) -> Result<Option<Version>, DefinitionError> {
        let key = version_key(tenant, kind, name, version);
        let Some(kept) = self.parts.values.find_value(&key, self.parts.clock.wall()).await? else {
            let older = self.find_older(tenant, kind, name).await?.map(|older| older.version);
            return Ok(older.filter(|older| older.version == version));
        };
        let version = serde_json::from_value(kept.value).map_err(|_| DefinitionError::Unreadable(key.key))?;
        Ok(Some(version))
    }
}

fn read_record(kept: &Kept) -> Result<NameRecord, serde_json::Error> {
    serde_json::from_value(kept.value.clone())
}

/// What a version is for: in its own words, or in those of its source.
fn about(version: &Version) -> String {
    match version.description.is_empty() {
        true => version.source["description"].as_str().unwrap_or_default().to_owned(),
        false => version.description.clone(),
    }
}

fn kind_of(key: &ValueKey) -> Option<DefinitionKind> {
    DefinitionKind::ALL.iter().copied().find(|kind| kind.as_str() == key.owner)
}

/// A source as lines that can be compared: long texts line by line.
fn as_text(source: &Value) -> String {
    let mut text = String::new();
    for (key, value) in source.as_object().into_iter().flatten() {
        match value {
            Value::String(lines) if lines.contains('\n') => {
                text.push_str(&format!("{key}: |\n"));
                lines.lines().for_each(|line| text.push_str(&format!("  {line}\n")));
            }
            Value::Array(items) if !items.is_empty() => {
                text.push_str(&format!("{key}:\n"));
                items.iter().for_each(|item| text.push_str(&format!("  - {item}\n")));
            }
            Value::Object(fields) if !fields.is_empty() => {
                text.push_str(&format!("{key}:\n"));
                as_text(value).lines().for_each(|line| text.push_str(&format!("  {line}\n")));
            }
            other => text.push_str(&format!("{key}: {other}\n")),
        }
    }
    text
}
