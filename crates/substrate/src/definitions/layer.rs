//! What one tenant has at this moment: the config's agents, channels, skills and volumes, and those that were defined at runtime.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use drawloom_contract::{
    definition::{Definition, DefinitionKind, Teammate, matches},
    ids::{AgentName, Tenant},
};

use super::{
    agent,
    ceiling::Ceiling,
    excess::covers,
    layers::Boot,
    power::{Authority, Powerless},
    version::{NameRecord, Version},
};
use crate::{
    catalog::{Inputs, MOST_TEAM},
    channels::{Channel, ChannelTable},
    lint::Finding,
    names,
    skills::{SkillSource, SkillTable, StoredSkill},
    volumes::{VolumeConfig, VolumeTable},
};

/// A name as the store has it.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    /// Of the name's record: what has a lower one is older.
    pub(crate) revision: u64,
    pub(crate) record: Arc<NameRecord>,
    /// The active version.
    pub(crate) version: Option<Arc<Version>>,
}

impl Known {
    /// Whose power bounds the active version, where that is stored.
    fn authority(&self) -> Option<&Authority> {
        self.version.as_ref().and_then(|version| self.record.find(version.version)?.authority.as_ref())
    }

    fn is_same(&self, other: &Self) -> bool {
        let is_same = match (&self.version, &other.version) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        is_same && self.authority() == other.authority()
    }
}

/// Whether what is defined can be used, and what today's config takes away from it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) unusable: Option<String>,
    pub(crate) notes: Vec<String>,
}

pub(crate) type Names = BTreeMap<(DefinitionKind, String), Known>;

#[derive(Debug)]
pub(crate) struct TenantLayer {
    pub(crate) names: Names,
    /// All agents that can run, of both layers, each with its team.
    pub(crate) agents: Arc<BTreeMap<AgentName, Arc<Definition>>>,
    pub(crate) channels: Arc<ChannelTable>,
    pub(crate) skills: Arc<SkillTable>,
    pub(crate) volumes: Arc<VolumeTable>,
    pub(crate) states: BTreeMap<(DefinitionKind, String), State>,
    /// Agents of runtime before they know their teams, by name.
    resolved: Arc<BTreeMap<String, (Definition, Vec<String>)>>,
}

impl TenantLayer {
    /// The layer of these names. What did not change is taken from the layer before it.
    pub(crate) fn build(boot: &Boot, tenant: &Tenant, before: Option<&Self>, names: Names) -> Self {
        let mut states = BTreeMap::new();
        let channels = Arc::new(channels(boot, before, &names, &mut states));
        let mut keep = |before: &Self, is_meant: fn(DefinitionKind) -> bool| {
            let kept = before.states.iter().filter(|((kind, _), _)| is_meant(*kind));
            states.extend(kept.map(|(key, state)| (key.clone(), state.clone())));
            (before.skills.clone(), before.volumes.clone())
        };
        // No agent, skill or volume depends on a channel.
        let beside_channels = |kind| kind != DefinitionKind::Channel;
        if let Some(before) = before.filter(|before| !differ(&before.names, &names, beside_channels)) {
            let (skills, volumes) = keep(before, beside_channels);
            let (agents, resolved) = (before.agents.clone(), before.resolved.clone());
            return Self { names, agents, channels, skills, volumes, states, resolved };
        }
        let tables = |kind| matches!(kind, DefinitionKind::Skill | DefinitionKind::Volume);
        let same = before.filter(|before| !differ(&before.names, &names, tables));
        let (skills, volumes) = match same {
            Some(before) => keep(before, tables),
            None => (skills(boot, &names, &mut states), volumes(boot, tenant, &names, &mut states)),
        };
        let (agents, resolved) = (Arc::default(), Arc::default());
        let mut layer = Self { names, agents, channels, skills, volumes, states, resolved };
        layer.resolve(boot, tenant, same);
        layer.introduce(boot, before);
        layer
    }

    fn resolve(&mut self, boot: &Boot, tenant: &Tenant, before: Option<&Self>) {
        let mut resolved = BTreeMap::new();
        let grant = boot.grant_ceiling(&self.volumes);
        for ((kind, name), known) in self.names.iter().filter(|((kind, _), _)| *kind == DefinitionKind::Agent) {
            let key = (*kind, name.clone());
            let Some(version) = &known.version else {
                self.states.insert(key, inactive_state());
                continue;
            };
            if names::is_reserved(name) {
                let reason = format!("{}; fork it under another name", names::RESERVED);
                self.states.insert(key, State { unusable: Some(reason), notes: Vec::new() });
                continue;
            }
            if boot.catalog.get(name).is_some() {
                let reason = "the config has an agent of this name, which is used; rename one of them".to_owned();
                self.states.insert(key, State { unusable: Some(reason), notes: Vec::new() });
                continue;
            }
            let is_same = |before: &&Self| before.names.get(&key).is_some_and(|before| before.is_same(known));
            let unchanged = before.filter(is_same);
            let settled = match unchanged.and_then(|before| before.resolved.get(name)) {
                Some(known) => Ok(known.clone()),
                None => boot.ceiling_of(tenant, known.authority(), version, &grant).and_then(|ceiling| {
                    let inputs = boot.config.inputs_with(&self.volumes, &self.skills);
                    agent::settle(&inputs, name, &version.source, &ceiling)
                }),
            };
            let state = match settled {
                Ok((mut definition, notes)) => {
                    definition.version = Some(version.version);
                    resolved.insert(name.clone(), (definition, notes.clone()));
                    State { unusable: None, notes }
                }
                Err(reason) => State { unusable: Some(reason), notes: Vec::new() },
            };
            self.states.insert(key, state);
        }
        self.resolved = Arc::new(resolved);
    }

    /// Tells each agent whom it may spawn. Agents that did not change stay the same value, so that runs pin them once.
    fn introduce(&mut self, boot: &Boot, before: Option<&Self>) {
        let under = |name: &str| {
            let known = self.names.get(&(DefinitionKind::Agent, name.to_owned()));
            known.and_then(|known| known.version.as_ref()).and_then(|version| version.under.clone())
        };
        let config: BTreeSet<&str> = boot.catalog.names().collect();
        let runtime = self.resolved.values().map(|(definition, _)| definition);
        let mates: Vec<Teammate> =
            boot.catalog.all().map(|definition| &**definition).chain(runtime).map(mate).collect();
        let mut agents = BTreeMap::new();
        for definition in boot.catalog.all() {
            let definition = match definition.agents.is_empty() || self.resolved.is_empty() {
                true => definition.clone(),
                false => {
                    let team = || mates.iter().filter(|mate| lists(definition, mate)).cloned();
                    let team = (team().count() <= MOST_TEAM).then(|| team().collect());
                    Arc::new(Definition { team, ..Definition::clone(definition) })
                }
            };
            agents.insert(definition.name.clone(), definition);
        }
        for (name, (definition, _)) in &*self.resolved {
            let own = under(name);
            let may = |mate: &&Teammate| {
                let is_granted = |name: &str| boot.definitions.grant.agents.iter().any(|allowed| covers(allowed, name));
                // What callers made may spawn what callers made, and what the operator grants.
                lists(definition, mate)
                    && match &own {
                        Some(_) => true,
                        None => {
                            let mate = mate.name.as_str();
                            is_granted(mate) || (!config.contains(mate) && under(mate).is_none())
                        }
                    }
            };
            // Never absent: without a team, the patterns alone would count.
            let team: Vec<Teammate> = mates.iter().filter(may).take(MOST_TEAM).cloned().collect();
            if team.len() == MOST_TEAM {
                let note = format!("agents: the team has the first {MOST_TEAM} agents that match; narrow `agents`");
                self.states.entry((DefinitionKind::Agent, name.clone())).or_default().notes.push(note);
            }
            let definition = Definition { team: Some(team), ..definition.clone() };
            agents.insert(definition.name.clone(), Arc::new(definition));
        }
        for (name, definition) in &mut agents {
            let known = before.and_then(|before| before.agents.get(name)).filter(|known| *known == definition);
            if let Some(known) = known {
                *definition = known.clone();
            }
        }
        self.agents = Arc::new(agents);
    }

    /// What lint finds about agents of runtime that can be used, by name. It is made when it is asked for, because it depends on channels,
    /// which change without the agents.
    pub(crate) fn findings(
        &self,
        boot: &Boot,
        tenant: &Tenant,
        is_meant: impl Fn(&str) -> bool,
    ) -> Vec<(String, Finding)> {
        let (grant, channels) = (boot.grant_ceiling(&self.volumes), self.channels.configs());
        let inputs = Inputs { channels: &channels, ..boot.config.inputs_with(&self.volumes, &self.skills) };
        let mut found = Vec::new();
        for (name, known) in of_kind(&self.names, DefinitionKind::Agent).filter(|(name, _)| is_meant(name)) {
            let (Some(version), Some((definition, _))) = (&known.version, self.resolved.get(name)) else { continue };
            let Ok(ceiling) = boot.ceiling_of(tenant, known.authority(), version, &grant) else { continue };
            let findings = agent::findings(&inputs, definition, &version.source, &ceiling).into_iter();
            found.extend(findings.map(|finding| (name.to_owned(), finding)));
        }
        found
    }

    /// The state of what is defined, if it is.
    pub(crate) fn state(&self, kind: DefinitionKind, name: &str) -> Option<&State> {
        self.states.get(&(kind, name.to_owned()))
    }
}

fn mate(definition: &Definition) -> Teammate {
    Teammate { name: definition.name.clone(), description: definition.description.clone() }
}

fn lists(definition: &Definition, mate: &Teammate) -> bool {
    definition.agents.iter().any(|pattern| matches(pattern, mate.name.as_str()))
}

fn inactive_state() -> State {
    let reason = "it has no active version; promote one that is not retired".to_owned();
    State { unusable: Some(reason), notes: Vec::new() }
}

/// A name with what is known of it.
type Entry<'a> = (&'a (DefinitionKind, String), &'a Known);

/// Whether definitions of the kinds that are meant differ.
fn differ(before: &Names, now: &Names, is_meant: fn(DefinitionKind) -> bool) -> bool {
    fn meant(names: &Names, is_meant: fn(DefinitionKind) -> bool) -> impl Iterator<Item = Entry<'_>> {
        names.iter().filter(move |((kind, _), _)| is_meant(*kind))
    }
    let is_same = |(one, other): (Entry<'_>, Entry<'_>)| one.0 == other.0 && one.1.is_same(other.1);
    let (before, now) = (|| meant(before, is_meant), || meant(now, is_meant));
    before().count() != now().count() || !before().zip(now()).all(is_same)
}

fn of_kind(names: &Names, kind: DefinitionKind) -> impl Iterator<Item = (&str, &Known)> {
    names.iter().filter(move |((known, _), _)| *known == kind).map(|((_, name), known)| (name.as_str(), known))
}

fn channels(
    boot: &Boot,
    before: Option<&TenantLayer>,
    names: &Names,
    states: &mut BTreeMap<(DefinitionKind, String), State>,
) -> ChannelTable {
    let (mut defined, mut inactive) = (BTreeMap::new(), BTreeSet::new());
    for (name, known) in of_kind(names, DefinitionKind::Channel) {
        let read = |version: &Arc<Version>| {
            let key = (DefinitionKind::Channel, name.to_owned());
            let same = before.filter(|before| {
                let known = before.names.get(&key).and_then(|known| known.version.as_ref());
                known.is_some_and(|known| Arc::ptr_eq(known, version))
            });
            match same.and_then(|before| before.channels.defined(name)) {
                Some(channel) => Ok(channel.clone()),
                None => channel_of(version).map(Arc::new),
            }
        };
        let state = match &known.version {
            None => inactive_state(),
            Some(_) if boot.channels.is_declared(name) => {
                let reason = "the config has a channel of this name, which is used".to_owned();
                State { unusable: Some(reason), notes: Vec::new() }
            }
            Some(version) => match read(version) {
                Ok(channel) => {
                    defined.insert(name.to_owned(), channel);
                    State::default()
                }
                Err(error) => State { unusable: Some(error.to_string()), notes: Vec::new() },
            },
        };
        if state.unusable.is_some() {
            inactive.insert(name.to_owned());
        }
        states.insert((DefinitionKind::Channel, name.to_owned()), state);
    }
    boot.channels.with(defined, inactive)
}

/// The channel that a version says.
pub(super) fn channel_of(version: &Version) -> Result<Channel, serde_json::Error> {
    let Version { name, version, digest, created_at, source, .. } = version;
    Channel::defined(name, source, (*version, *digest, *created_at))
}

fn skills(boot: &Boot, names: &Names, states: &mut BTreeMap<(DefinitionKind, String), State>) -> Arc<SkillTable> {
    let mut stored = Vec::new();
    for (name, known) in of_kind(names, DefinitionKind::Skill) {
        let state = match &known.version {
            None => inactive_state(),
            Some(_) if boot.config.skills.look(name).is_some() => {
                let reason = "a folder of `skills.directories` has a skill of this name, which is used".to_owned();
                State { unusable: Some(reason), notes: Vec::new() }
            }
            Some(version) => match serde_json::from_value::<SkillSource>(version.source.clone()) {
                Ok(source) => {
                    stored.push(Arc::new(StoredSkill { name: name.to_owned(), source }));
                    State::default()
                }
                Err(error) => State { unusable: Some(error.to_string()), notes: Vec::new() },
            },
        };
        states.insert((DefinitionKind::Skill, name.to_owned()), state);
    }
    match stored.is_empty() {
        true => boot.config.skills.clone(),
        false => Arc::new(boot.config.skills.with_stored(stored)),
    }
}

fn volumes(
    boot: &Boot,
    tenant: &Tenant,
    names: &Names,
    states: &mut BTreeMap<(DefinitionKind, String), State>,
) -> Arc<VolumeTable> {
    let mut table = VolumeTable::clone(&boot.config.volumes);
    for (name, known) in of_kind(names, DefinitionKind::Volume) {
        let state = match &known.version {
            None => inactive_state(),
            Some(_) if boot.config.volumes.mode(name).is_some() => {
                let reason = "the config has a volume of this name, which is used".to_owned();
                State { unusable: Some(reason), notes: Vec::new() }
            }
            Some(version) => {
                let config = serde_json::from_value::<VolumeConfig>(version.source.clone());
                let added = config
                    .map_err(|error| error.to_string())
                    .and_then(|config| table.add_below(&boot.parents, tenant, name, &config, boot.data()));
                match added {
                    Ok(narrowed) => State { unusable: None, notes: narrowed.into_iter().collect() },
                    Err(reason) => State { unusable: Some(reason), notes: Vec::new() },
                }
            }
        };
        states.insert((DefinitionKind::Volume, name.to_owned()), state);
    }
    Arc::new(table)
}

/// The ceiling of what callers make: the operator's grant, with the volumes that were defined at runtime.
impl Boot {
    pub(super) fn grant_ceiling(&self, volumes: &VolumeTable) -> Ceiling {
        let grant = &self.definitions.grant;
        let is_granted = |name: &&str| {
            grant.volumes.iter().any(|granted| granted == name) || self.config.volumes.mode(name).is_none()
        };
        let modes = volumes.names().filter(is_granted).filter_map(|name| Some((name.to_owned(), volumes.mode(name)?)));
        Ceiling::of_grant(grant, modes.collect(), self.catalog.names().map(str::to_owned).collect())
    }

    /// The ceiling of a stored version today, or why it has no power any more.
    pub(super) fn ceiling_of(
        &self,
        tenant: &Tenant,
        authority: Option<&Authority>,
        version: &Version,
        grant: &Ceiling,
    ) -> Result<Ceiling, String> {
        let older = || Authority::of_older(version, &self.principals, tenant).ok_or(Powerless::UnknownMaker);
        let authority = authority.cloned().map_or_else(older, Ok);
        let ceiling = authority.and_then(|authority| self.ceiling(tenant, &authority, grant));
        ceiling.map_err(|reason| reason.told(&version.name, version.version))
    }

    /// What an authority may give today: what the operator grants or its agent has, cut with what its principal may do.
    pub(super) fn ceiling(
        &self,
        tenant: &Tenant,
        authority: &Authority,
        grant: &Ceiling,
    ) -> Result<Ceiling, Powerless> {
        let Authority { principal, agent, user } = authority;
        let ceiling = match agent {
            None => grant.clone(),
            Some(name) => {
                let agent = self.catalog.get(name).ok_or_else(|| Powerless::NoAgent(name.clone()))?;
                Ceiling::of(agent)
            }
        };
        let caller = principal.as_ref().map(|user| {
            let caller = self.principals.of(tenant, user);
            caller.ok_or_else(|| Powerless::NoPrincipal(user.clone()))
        });
        let caller = caller.transpose()?;
        let ceiling = match &caller {
            Some(caller) => ceiling.cut(caller),
            None => ceiling,
        };
        Ok(ceiling.for_user(user.as_ref(), caller.as_ref()))
    }
}
