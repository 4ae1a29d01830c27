//! Making and changing definitions: create, fork, promote, retire. Each happens once under its key.

use drawloom_contract::{
    caller::Proof,
    definition::DefinitionKind,
    ids::{AgentName, Digest, Tenant},
    suggest::closest,
};
use serde_json::{Value, json};

use super::{
    By, DefinitionError, Examined, MOST_SOURCE_BYTES, RuntimeDefinitions, SourceProblem, agent,
    ceiling::Ceiling,
    channel, partial,
    power::{Authority, Powerless},
    rules, shown_finding,
    source::{canonical, merge, plain_agent, readable, shown},
    version::{CONFIG, parse_reference, version_name},
};
use crate::{
    agents::AgentConfig,
    channels::{ChannelConfig, check_name as check_channel_name},
    hint::did_you_mean,
    names,
    skills::{self, SkillSource},
    volumes::{VolumeConfig, VolumeTable},
};

/// A new definition, or a new version of one.
#[derive(Debug, Clone, PartialEq)]
pub struct Create {
    pub kind: DefinitionKind,
    pub name: String,
    pub source: Value,
    pub description: Option<String>,
    pub promote: rules::Promote,
}

/// A new version that is made from another one.
#[derive(Debug, Clone, PartialEq)]
pub struct Fork {
    pub kind: DefinitionKind,
    /// `NAME`, `NAME@VERSION`, or an agent or channel of the config.
    pub from: String,
    /// The name of the new version; that of the old one, when absent.
    pub name: Option<String>,
    /// A merge patch (RFC 7396) for the source.
    pub changes: Value,
    pub description: Option<String>,
    pub promote: rules::Promote,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promote {
    pub kind: DefinitionKind,
    pub name: String,
    pub version: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retire {
    pub kind: DefinitionKind,
    pub name: String,
    /// The active one, when absent.
    pub version: Option<u32>,
    /// Or takes the retirement back.
    pub retired: bool,
}

/// Most names that a hint lists.
const MOST_HINTED: usize = 50;

/// A source that may become a version.
pub(super) struct Prepared {
    pub(super) source: Value,
    pub(super) digest: Digest,
    pub(super) examined: Examined,
    pub(super) authority: Authority,
}

/// What a new version comes from.
pub(super) struct Origin {
    pub(super) parent: Option<String>,
    pub(super) description: String,
    pub(super) promote: rules::Promote,
}

impl RuntimeDefinitions {
    pub async fn create(&self, asked: Create, by: &By<'_>) -> Result<Value, DefinitionError> {
        let Create { kind, name, mut source, description, promote } = asked;
        if let Some(answer) = self.first_answer(kind, &name, by).await? {
            return Ok(answer);
        }
        self.check_new_name(by.tenant(), kind, &name)?;
        // Who describes a version of an agent or channel, and not the agent or channel, means that.
        if let (Some(fields), Some(text), DefinitionKind::Agent | DefinitionKind::Channel) =
            (source.as_object_mut(), &description, kind)
        {
            fields.entry("description").or_insert_with(|| text.as_str().into());
        }
        let prepared = self.prepare(kind, &name, source, by).await?;
        let origin = Origin { parent: None, description: description.unwrap_or_default(), promote };
        self.add(kind, &name, prepared, origin, by).await
    }

    pub async fn fork(&self, asked: Fork, by: &By<'_>) -> Result<Value, DefinitionError> {
        let Fork { kind, from, name, changes, description, promote } = asked;
        let base = parse_reference(&from).ok_or_else(|| DefinitionError::BadReference(from.clone()))?;
        let name = name.unwrap_or_else(|| base.0.to_owned());
        if let Some(answer) = self.first_answer(kind, &name, by).await? {
            return Ok(answer);
        }
        let (parent, mut source, described) = self.base(by.tenant(), kind, base).await?;
        self.check_new_name(by.tenant(), kind, &name)?;
        merge(&mut source, &changes);
        let prepared = self.prepare(kind, &name, source, by).await?;
        let origin = Origin { parent: Some(parent), description: description.unwrap_or(described), promote };
        self.add(kind, &name, prepared, origin, by).await
    }

    pub async fn promote(&self, asked: Promote, by: &By<'_>) -> Result<Value, DefinitionError> {
        let Promote { kind, name, version } = asked;
        if let Some(answer) = self.first_answer(kind, &name, by).await? {
            return Ok(answer);
        }
        self.check_name(kind, &name)?;
        let tenant = by.tenant();
        let Some(kept) = self.find_version(tenant, kind, &name, version).await? else {
            return Err(self.unknown_version(tenant, kind, &name, version));
        };
        // Its maker's power may have changed since, and that of who promotes it may be less. A version whose maker has none any more
        // gets a new maker.
        let grant = self.grant(tenant);
        let (root, new_maker) = match kind {
            DefinitionKind::Channel | DefinitionKind::Skill | DefinitionKind::Volume => {
                let maker = kept.under.as_deref().and_then(|agent| self.parts.layers.boot.catalog.get(agent));
                (maker.map_or_else(|| grant.clone(), |agent| Ceiling::of(agent)), None)
            }
            DefinitionKind::Agent => {
                let stored = self.stored_authority(tenant, &name, version).await?;
                match stored.and_then(|authority| self.with_power(tenant, authority)) {
                    Ok(authority) => (self.ceiling(kind, &name, tenant, &authority, &grant)?, None),
                    Err(_) => {
                        let authority = self.authority(by).await?;
                        (self.ceiling(kind, &name, tenant, &authority, &grant)?, Some(authority))
                    }
                }
            }
        };
        let own = by_ceiling(by, &grant);
        let ceilings: Vec<&Ceiling> = [&root].into_iter().chain(own.as_ref()).collect();
        let examined = self.examine(tenant, kind, &name, &kept.source, &ceilings);
        refuse(kind, &name, &examined)?;
        let _alone = self.alone(tenant, kind, &name).await;
        let record = self.find_record(tenant, kind, &name).await?.map(|(_, record)| record);
        rules::may_change(record.as_ref(), &name, by.agent())?;
        let found_messages = self.admit_source(tenant, kind, &name, record.as_ref(), &kept.source, by).await?;
        self.change_record(kind, &name, by, |record| {
            let next = rules::promote(record, &name, version, new_maker.as_ref())?;
            let mut answer = shown(kind, &kept, &next);
            answer["promoted"] = true.into();
            add_remarks(&mut answer, &examined, found_messages.clone());
            Ok((next, answer))
        })
        .await
    }

    pub async fn retire(&self, asked: Retire, by: &By<'_>) -> Result<Value, DefinitionError> {
        let Retire { kind, name, version, retired } = asked;
        if let Some(answer) = self.first_answer(kind, &name, by).await? {
            return Ok(answer);
        }
        self.check_name(kind, &name)?;
        let tenant = by.tenant();
        let record = self.find_record(tenant, kind, &name).await?;
        let Some((_, record)) = record else { return Err(self.unknown(tenant, kind, &name)) };
        let version = version.or(record.active).ok_or_else(|| DefinitionError::NoVersion(name.clone()))?;
        let Some(kept) = self.find_version(tenant, kind, &name, version).await? else {
            return Err(self.unknown_version(tenant, kind, &name, version));
        };
        let _alone = self.alone(tenant, kind, &name).await;
        if kind == DefinitionKind::Channel && retired && record.active == Some(version) {
            // They could not be read any more.
            self.channels()?.may_remove_others(tenant, &[name.as_str()], &by.visible(), "the retirement").await?;
        }
        self.change_record(kind, &name, by, |record| {
            let next = rules::retire(record, &name, version, retired)?;
            let mut answer = shown(kind, &kept, &next);
            let was_active = record.and_then(|record| record.active) == Some(version);
            if retired && was_active {
                let what = match kind {
                    DefinitionKind::Channel => {
                        "publishing and reading are refused until one is promoted; its messages stay"
                    }
                    DefinitionKind::Agent | DefinitionKind::Skill | DefinitionKind::Volume => {
                        "new runs of it are refused until one is promoted"
                    }
                };
                let what = format!("{name} has no active version now: {what}");
                answer["warnings"] = json!([what]);
            }
            Ok((next, answer))
        })
        .await
    }

    /// What a fork begins with: the reference of its parent, the source and the description.
    async fn base(
        &self,
        tenant: &Tenant,
        kind: DefinitionKind,
        (name, version): (&str, Option<u32>),
    ) -> Result<(String, Value, String), DefinitionError> {
        if let Some(source) = self.config_source(kind, name).filter(|_| version.is_none()) {
            return Ok((format!("{name}@{CONFIG}"), source, String::new()));
        }
        let record = self.find_record(tenant, kind, name).await?.map(|(_, record)| record);
        let record = record.ok_or_else(|| self.unknown_reference(tenant, kind, name, version))?;
        let version = version.or(record.active).ok_or_else(|| DefinitionError::NoVersion(name.to_owned()))?;
        let Some(kept) = self.find_version(tenant, kind, name, version).await? else {
            return Err(self.unknown_version(tenant, kind, name, version));
        };
        if record.find(version).is_some_and(|summary| summary.retired) {
            return Err(rules::Refusal::Retired(version_name(name, version)).into());
        }
        Ok((version_name(name, version), kept.source, kept.description))
    }

    /// The source of an agent or channel of the config. A prompt is written out, because a definition of runtime reads no files.
    pub(super) fn config_source(&self, kind: DefinitionKind, name: &str) -> Option<Value> {
        let boot = &self.parts.layers.boot;
        match kind {
            DefinitionKind::Agent => {}
            DefinitionKind::Channel => return boot.config.channels.get(name).map(ChannelConfig::source),
            DefinitionKind::Skill | DefinitionKind::Volume => return None,
        }
        let (config, definition) = (boot.config.agents.get(name)?, boot.catalog.get(name)?);
        let system_prompt = Some(definition.system_prompt.clone()).filter(|prompt| !prompt.is_empty());
        let config =
            AgentConfig { system_prompt_file: None, bundled_skills: Vec::new(), system_prompt, ..config.clone() };
        Some(plain_agent(&config))
    }

    /// Checks a source: its form, its meaning, and that it has no more than its maker may give.
    pub(super) async fn prepare(
        &self,
        kind: DefinitionKind,
        name: &str,
        source: Value,
        by: &By<'_>,
    ) -> Result<Prepared, DefinitionError> {
        let authority = self.authority(by).await?;
        let prepared = self.look_at(kind, name, source, authority, by)?;
        refuse(kind, name, &prepared.examined)?;
        Ok(prepared)
    }

    /// The same without a refusal, for what is bounded by `authority`.
    pub(super) fn look_at(
        &self,
        kind: DefinitionKind,
        name: &str,
        mut source: Value,
        authority: Authority,
        by: &By<'_>,
    ) -> Result<Prepared, DefinitionError> {
        let bytes = source.to_string().len();
        if bytes > MOST_SOURCE_BYTES {
            return Err(DefinitionError::TooLarge(bytes));
        }
        let tenant = by.tenant();
        let mut problems = self.parts.check.check(kind, &mut source);
        let is_well_formed = problems.is_empty();
        let grant = self.grant(tenant);
        let root = self.ceiling(kind, name, tenant, &authority, &grant)?;
        let own = by_ceiling(by, &grant);
        let ceilings: Vec<&Ceiling> = [&root].into_iter().chain(own.as_ref()).collect();
        let (source, notes) = match is_well_formed && kind == DefinitionKind::Agent {
            true => {
                let (volumes, skills) = (self.parts.layers.volumes_of(tenant), self.parts.layers.skills_of(tenant));
                let inputs = self.parts.layers.boot.config.inputs_with(&volumes, &skills);
                agent::complete(&inputs, canonical(kind, source), &ceilings)
            }
            false => (canonical(kind, source), Vec::new()),
        };
        let cleaned = self.parts.redactor.clean(source);
        let is_masked = cleaned.is_masked();
        let source = cleaned.into_inner();
        let mut examined = match is_well_formed {
            true => self.examine(tenant, kind, name, &source, &ceilings),
            false => {
                // What can be read is examined all the same, so that everything is reported at once.
                let part = readable(kind, &source, problems.iter().map(|problem| problem.path.as_str()));
                let mut known = self.examine(tenant, kind, name, &part, &ceilings);
                partial::keep_certain(&mut known, &problems, &part);
                problems.extend(partial::beside(&problems, &part, known.problems));
                Examined { problems, ..known }
            }
        };
        examined.warnings.extend(notes);
        if is_masked {
            examined.warnings.push("the source contains a secret, which is masked in the stored source".into());
        }
        let digest = Digest::of(source.to_string().as_bytes());
        Ok(Prepared { source, digest, examined, authority })
    }

    /// What callers of a tenant may give.
    pub(super) fn grant(&self, tenant: &Tenant) -> Ceiling {
        let layers = &self.parts.layers;
        layers.boot.grant_ceiling(&layers.volumes_of(tenant))
    }

    pub(super) fn examine(
        &self,
        tenant: &Tenant,
        kind: DefinitionKind,
        name: &str,
        source: &Value,
        ceilings: &[&Ceiling],
    ) -> Examined {
        let layers = &self.parts.layers;
        let (volumes, skills) = (layers.volumes_of(tenant), layers.skills_of(tenant));
        let mut examined = Examined::default();
        match kind {
            DefinitionKind::Agent => {
                let mut inputs = layers.boot.config.inputs_with(&volumes, &skills);
                let channels = layers.channels_of(tenant).configs();
                inputs.channels = &channels;
                let layer = layers.of(tenant);
                let is_defined = |name: &str| {
                    let key = (DefinitionKind::Agent, name.to_owned());
                    layer.as_ref().is_some_and(|layer| layer.names.contains_key(&key))
                };
                examined = agent::examine(&inputs, name, source, ceilings, &is_defined);
            }
            DefinitionKind::Channel => {
                examined = channel::examine(&layers.channels_of(tenant), name, source, ceilings);
            }
            DefinitionKind::Skill => match serde_json::from_value::<SkillSource>(source.clone()) {
                Ok(skill) => {
                    let problems = skills::source_problems(&skill).into_iter();
                    examined.problems.extend(problems.map(|(path, message)| SourceProblem::new(path, message)));
                }
                Err(error) => examined.problems.push(SourceProblem::new("", error.to_string())),
            },
            DefinitionKind::Volume => match serde_json::from_value::<VolumeConfig>(source.clone()) {
                Ok(VolumeConfig { default: true, .. }) => {
                    let message = "a volume that is defined at runtime cannot be the default volume";
                    examined.problems.push(SourceProblem::new("default", message).with_hint("remove it"));
                }
                Ok(config) => {
                    let mut table = VolumeTable::clone(&layers.boot.config.volumes);
                    match table.add_below(&layers.boot.parents, tenant, name, &config, layers.boot.data()) {
                        Ok(narrowed) => examined.warnings.extend(narrowed),
                        Err(message) => examined.problems.push(SourceProblem::new("path", message)),
                    }
                }
                Err(error) => examined.problems.push(SourceProblem::new("", error.to_string())),
            },
        }
        examined
    }

    /// Whose power bounds what is made: of an agent of runtime, that which bounds the agent.
    pub(super) async fn authority(&self, by: &By<'_>) -> Result<Authority, DefinitionError> {
        let (context, definition) = match by {
            By::Request { caller, .. } => return Ok(Authority::of_caller(caller)),
            By::Call { context, definition } => (context, definition),
        };
        let (tenant, user, name) = (&context.run.tenant, &context.user, definition.name.as_str());
        let principals = &self.parts.layers.boot.principals;
        let Some(version) = definition.version else {
            return Ok(Authority::of_agent(Some(name), principals, tenant, user));
        };
        let authority = self.stored_authority(tenant, name, version).await?;
        let authority = authority.map_err(|reason| DefinitionError::Powerless { name: name.to_owned(), reason })?;
        Ok(authority.in_run_of(principals, tenant, user))
    }

    /// Whose power bounds a stored version of an agent.
    pub(super) async fn stored_authority(
        &self,
        tenant: &Tenant,
        name: &str,
        version: u32,
    ) -> Result<Result<Authority, Powerless>, DefinitionError> {
        let kind = DefinitionKind::Agent;
        let record = self.find_record(tenant, kind, name).await?.map(|(_, record)| record);
        if let Some(authority) = record.and_then(|record| record.find(version)?.authority.clone()) {
            return Ok(Ok(authority));
        }
        let kept = self.find_version(tenant, kind, name, version).await?;
        let principals = &self.parts.layers.boot.principals;
        let older = kept.and_then(|kept| Authority::of_older(&kept, principals, tenant));
        Ok(older.ok_or(Powerless::UnknownMaker))
    }

    /// The authority, if it has any power today.
    pub(super) fn with_power(&self, tenant: &Tenant, authority: Authority) -> Result<Authority, Powerless> {
        let grant = self.grant(tenant);
        self.parts.layers.boot.ceiling(tenant, &authority, &grant).map(|_| authority)
    }

    /// What an authority may give today. Only agents are bounded by it.
    fn ceiling(
        &self,
        kind: DefinitionKind,
        name: &str,
        tenant: &Tenant,
        authority: &Authority,
        grant: &Ceiling,
    ) -> Result<Ceiling, DefinitionError> {
        match self.parts.layers.boot.ceiling(tenant, authority, grant) {
            Ok(ceiling) => Ok(ceiling),
            Err(_) if kind != DefinitionKind::Agent => Ok(grant.clone()),
            Err(reason) => Err(DefinitionError::Powerless { name: name.to_owned(), reason }),
        }
    }

    /// The same for a name that gets a version. A name that exists keeps working: earlier programs accepted more names.
    fn check_new_name(&self, tenant: &Tenant, kind: DefinitionKind, name: &str) -> Result<(), DefinitionError> {
        let layer = self.parts.layers.of(tenant);
        let exists = layer.is_some_and(|layer| layer.names.contains_key(&(kind, name.to_owned())));
        let is_named = |part: &str| part.chars().any(|letter| letter.is_ascii_alphanumeric());
        // Channels have a rule of their own.
        if kind != DefinitionKind::Channel && !exists && !name.is_empty() && !name.split('/').all(is_named) {
            let problem = "every part between slashes needs a letter or a digit";
            return Err(DefinitionError::BadName { name: name.chars().take(80).collect(), problem });
        }
        self.check_name(kind, name)
    }

    /// A name that can be one, and that the config does not have.
    pub(super) fn check_name(&self, kind: DefinitionKind, name: &str) -> Result<(), DefinitionError> {
        if kind == DefinitionKind::Channel {
            check_channel_name(name)?;
        }
        let refuse = |problem| Err(DefinitionError::BadName { name: name.chars().take(80).collect(), problem });
        if name.len() > 128 {
            return refuse("it has more than 128 bytes");
        }
        if names::is_reserved(name) {
            return refuse(names::RESERVED);
        }
        if name.parse::<AgentName>().is_err() {
            return refuse("it is empty or contains other characters than names have");
        }
        // It is not shown: it would be in the error.
        if self.parts.redactor.mask(&mut name.to_owned()) {
            return Err(DefinitionError::BadName { name: "…".into(), problem: "it contains a secret" });
        }
        match self.is_in_config(kind, name) {
            true => Err(DefinitionError::InConfig { kind, name: name.to_owned() }),
            false => Ok(()),
        }
    }

    pub(super) fn is_in_config(&self, kind: DefinitionKind, name: &str) -> bool {
        let boot = &self.parts.layers.boot;
        match kind {
            DefinitionKind::Agent => boot.catalog.get(name).is_some(),
            DefinitionKind::Channel => boot.channels.is_declared(name),
            DefinitionKind::Skill => boot.config.skills.look(name).is_some(),
            DefinitionKind::Volume => boot.config.volumes.mode(name).is_some(),
        }
    }

    pub(super) fn unknown(&self, tenant: &Tenant, kind: DefinitionKind, name: &str) -> DefinitionError {
        let layer = self.parts.layers.of(tenant);
        let made = layer.iter().flat_map(|layer| layer.names.keys());
        let made = made.filter(|(known, _)| *known == kind).map(|(_, name)| name.as_str());
        let mut names: Vec<&str> = self.config_names(kind).into_iter().chain(made).collect();
        // Skills and volumes of the config have no source that could be read or changed.
        names.retain(|known| *known != name);
        let is_close = closest(name, names.iter().copied()).is_some();
        let hint = did_you_mean(name, names.into_iter().take(if is_close { usize::MAX } else { MOST_HINTED }));
        DefinitionError::Unknown { kind, name: name.to_owned(), hint }
    }

    fn config_names(&self, kind: DefinitionKind) -> Vec<&str> {
        let boot = &self.parts.layers.boot;
        match kind {
            DefinitionKind::Agent => boot.catalog.names().collect(),
            DefinitionKind::Channel => boot.config.channels.keys().map(String::as_str).collect(),
            DefinitionKind::Skill => boot.config.skills.names().collect(),
            DefinitionKind::Volume => boot.config.volumes.names().collect(),
        }
    }

    /// The error of a name without a record.
    pub(super) fn unknown_reference(
        &self,
        tenant: &Tenant,
        kind: DefinitionKind,
        name: &str,
        version: Option<u32>,
    ) -> DefinitionError {
        match version {
            Some(version) => self.unknown_version(tenant, kind, name, version),
            None => self.unknown(tenant, kind, name),
        }
    }

    pub(super) fn unknown_version(
        &self,
        tenant: &Tenant,
        kind: DefinitionKind,
        name: &str,
        version: u32,
    ) -> DefinitionError {
        let layer = self.parts.layers.of(tenant);
        match layer.is_some_and(|layer| layer.names.contains_key(&(kind, name.to_owned()))) {
            true => rules::Refusal::UnknownVersion(version_name(name, version)).into(),
            false if self.is_in_config(kind, name) => DefinitionError::ConfigVersion { name: name.to_owned(), version },
            false => self.unknown(tenant, kind, name),
        }
    }
}

/// What who asks may give: an agent what it has, a principal what the operator grants and its token may do.
fn by_ceiling(by: &By<'_>, grant: &Ceiling) -> Option<Ceiling> {
    match by {
        By::Call { definition, .. } => Some(Ceiling::of(definition)),
        By::Request { caller, .. } => match caller.proof {
            Proof::Open | Proof::SharedToken => None,
            Proof::Principal => Some(grant.clone().cut(caller)),
        },
    }
}

pub(super) fn refuse(kind: DefinitionKind, name: &str, examined: &Examined) -> Result<(), DefinitionError> {
    let name = name.to_owned();
    if !examined.problems.is_empty() {
        return Err(DefinitionError::Invalid { kind, name, problems: examined.problems.clone() });
    }
    match examined.excess.is_empty() {
        true => Ok(()),
        false => Err(DefinitionError::Excess { kind, name, excess: examined.excess.clone() }),
    }
}

pub(super) fn add_remarks(answer: &mut Value, examined: &Examined, more: Vec<String>) {
    answer["findings"] = examined.findings.iter().map(shown_finding).collect();
    answer["warnings"] = examined.warnings.iter().cloned().chain(more).collect();
}
