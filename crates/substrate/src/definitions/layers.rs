//! Two layers of definitions: those of the config, which never change, and those that were made at runtime, per tenant.
//!
//! The runtime layer of a tenant is a value that is replaced whole. Who looks an agent up gets one that was active at that moment.

use std::{
    collections::{BTreeSet, HashMap},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError, RwLock},
};

use drawloom_contract::{
    definition::{Definition, DefinitionKind, Definitions},
    ids::{AgentName, Tenant},
    tool::{Holder, Place, ToolError, Volumes},
    values::ValueKey,
};
use tokio::sync::broadcast;

use super::{
    config::DefinitionsConfig,
    layer::{Known, Names, State, TenantLayer},
    power::Principals,
    version::name_key,
};
use crate::{
    agents::AgentConfig,
    catalog::{Catalog, resolve_one},
    channels::ChannelTable,
    lint::{self, Finding},
    operator::OperatorConfig,
    problem::Problem,
    skills::{SkillTable, Skills},
    volumes::{Parents, VolumeTable},
};

/// The layer of the config.
pub(crate) struct Boot {
    pub(crate) config: OperatorConfig,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) definitions: DefinitionsConfig,
    pub(crate) parents: Parents,
    pub(crate) channels: Arc<ChannelTable>,
    pub(crate) principals: Principals,
    data: OnceLock<PathBuf>,
}

impl Boot {
    pub(super) fn data(&self) -> Option<&Path> {
        self.data.get().map(PathBuf::as_path)
    }
}

/// The agents, channels, skills and volumes of every tenant.
pub struct Layers {
    pub(crate) boot: Boot,
    tenants: RwLock<HashMap<Tenant, Arc<TenantLayer>>>,
    /// One layer is built at a time, from the newest one.
    building: Mutex<()>,
    /// Tenants whose channels changed, told after the change is visible.
    channel_changes: broadcast::Sender<Tenant>,
}

/// Changes of channels that a receiver may be behind before it is told only that it missed some.
const CHANGES_KEPT: usize = 64;

impl Layers {
    /// The config's layer alone, and what is wrong with the section `definitions`.
    pub fn new(
        config: OperatorConfig,
        catalog: Arc<Catalog>,
        definitions: DefinitionsConfig,
        principals: Principals,
    ) -> (Arc<Self>, Vec<Problem>) {
        let (parents, mut problems) = Parents::open(&definitions.volumes_under);
        for (index, volume) in definitions.grant.volumes.iter().enumerate() {
            if config.volumes.mode(volume).is_none() {
                let at = ["definitions", "grant", "volumes", &index.to_string()].map(str::to_owned);
                let hint = crate::did_you_mean(volume, config.volumes.names());
                let problem = Problem::new(at, format!("unknown volume {volume:?}"));
                problems.push(problem.with_hint(hint.unwrap_or_else(|| "add it under `volumes`".into())));
            }
        }
        let channels = Arc::new(ChannelTable::of_config(&config.channels));
        let boot = Boot { config, catalog, definitions, parents, channels, principals, data: OnceLock::new() };
        let channel_changes = broadcast::Sender::new(CHANGES_KEPT);
        let layers = Self { boot, tenants: RwLock::default(), building: Mutex::default(), channel_changes };
        (Arc::new(layers), problems)
    }

    /// Resolves an agent that no config has, by the rules of the config, or says all that is wrong with it.
    pub fn resolve_agent(&self, name: &str, config: &AgentConfig) -> Result<Definition, Vec<Problem>> {
        match resolve_one(&self.boot.config.inputs(), name, config) {
            (Some(definition), problems) if problems.is_empty() => Ok(definition),
            (_, problems) => Err(problems),
        }
    }

    /// What the config says beside agents of runtime.
    pub fn operator(&self) -> &OperatorConfig {
        &self.boot.config
    }

    /// Says where the server's data is: no volume may contain it or lie inside it.
    pub fn keep_apart(&self, data: PathBuf) {
        self.boot.data.set(data).ok();
    }

    /// The newest layer of a tenant; none when it defined nothing.
    pub(crate) fn of(&self, tenant: &Tenant) -> Option<Arc<TenantLayer>> {
        self.tenants.read().unwrap_or_else(PoisonError::into_inner).get(tenant).cloned()
    }

    /// Takes in what the store has now: a name, or none any more. What is older than what is known is left out.
    pub(crate) fn apply(&self, tenant: &Tenant, changes: Vec<((DefinitionKind, String), Option<Known>)>) {
        let _alone = self.building.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.of(tenant);
        let mut names: Names = before.as_ref().map(|before| before.names.clone()).unwrap_or_default();
        let (mut is_new, mut has_channels) = (false, false);
        for (key, known) in changes {
            let is_channel = key.0 == DefinitionKind::Channel;
            let is_changed = match known {
                Some(known) if names.get(&key).is_some_and(|before| before.revision >= known.revision) => false,
                Some(known) => {
                    names.insert(key, known);
                    true
                }
                None => names.remove(&key).is_some(),
            };
            is_new |= is_changed;
            has_channels |= is_changed && is_channel;
        }
        if !is_new {
            return;
        }
        let layer = Arc::new(TenantLayer::build(&self.boot, tenant, before.as_deref(), names));
        self.tenants.write().unwrap_or_else(PoisonError::into_inner).insert(tenant.clone(), layer);
        if has_channels {
            // An error means that nothing listens.
            self.channel_changes.send(tenant.clone()).ok();
        }
    }

    /// Tells of tenants whose channels changed from now on.
    pub(crate) fn channel_changes(&self) -> broadcast::Receiver<Tenant> {
        self.channel_changes.subscribe()
    }

    /// The records of the definitions that a channel exists by, with their revisions: its own, or those of the channels whose dead-letter
    /// channel it is. None for a channel of the config.
    pub(crate) fn channel_records(&self, tenant: &Tenant, name: &str) -> Vec<(ValueKey, u64)> {
        let Some(layer) = self.of(tenant) else { return Vec::new() };
        let owners: Vec<&str> = match layer.channels.defined(name) {
            Some(channel) => vec![&channel.name],
            None if layer.channels.is_declared(name) => Vec::new(),
            None => layer.channels.defined_with_dead_letter(name).collect(),
        };
        let kind = DefinitionKind::Channel;
        let record = |owner: &str| {
            let known = layer.names.get(&(kind, owner.to_owned()))?;
            Some((name_key(tenant, kind, owner), known.revision))
        };
        owners.into_iter().filter_map(record).collect()
    }

    /// Everything that is defined, of all tenants.
    pub(crate) fn names(&self) -> BTreeSet<(Tenant, DefinitionKind, String)> {
        let tenants = self.tenants.read().unwrap_or_else(PoisonError::into_inner);
        let names = tenants.iter().flat_map(|(tenant, layer)| layer.names.keys().map(move |key| (tenant, key)));
        names.map(|(tenant, (kind, name))| (tenant.clone(), *kind, name.clone())).collect()
    }

    /// Whether what is defined can be used.
    pub(crate) fn state(&self, tenant: &Tenant, kind: DefinitionKind, name: &str) -> State {
        self.of(tenant).and_then(|layer| layer.state(kind, name).cloned()).unwrap_or_default()
    }

    /// What is defined at runtime and cannot be used, or has less than it asks for, of all tenants.
    pub fn remarks(&self) -> Vec<(Tenant, DefinitionKind, String, String)> {
        let tenants = self.tenants.read().unwrap_or_else(PoisonError::into_inner);
        let mut remarks = Vec::new();
        for (tenant, layer) in tenants.iter() {
            for ((kind, name), state) in &layer.states {
                let is_retired = layer.names.get(&(*kind, name.clone())).is_some_and(|known| known.version.is_none());
                let reasons =
                    state.unusable.iter().filter(|_| !is_retired).map(|reason| format!("cannot be used: {reason}"));
                let all = reasons.chain(state.notes.iter().cloned());
                remarks.extend(all.map(|text| (tenant.clone(), *kind, name.clone(), text)));
            }
        }
        remarks.sort();
        remarks
    }

    /// What lint finds about agents made at runtime, of all tenants, by name.
    pub fn findings(&self) -> Vec<(Tenant, String, Finding)> {
        let mut found = Vec::new();
        for (tenant, layer) in self.all() {
            let findings = layer.findings(&self.boot, &tenant, |_| true).into_iter();
            found.extend(findings.map(|(name, finding)| (tenant.clone(), name, finding)));
        }
        found.sort_by(|one, other| (&one.0, &one.1).cmp(&(&other.0, &other.1)));
        found
    }

    /// Findings about agents of the config that name channels or agents which neither the config has nor any tenant defined. Before the
    /// definitions are loaded, they are part of the findings of the config.
    pub fn open_findings(&self) -> Vec<Finding> {
        let layers = self.all();
        let mut channels = self.boot.channels.configs();
        let mut agents: BTreeSet<&str> = self.boot.catalog.names().collect();
        for (_, layer) in &layers {
            channels.extend(layer.channels.configs());
            agents.extend(layer.agents.keys().map(AgentName::as_str));
        }
        let agents: Vec<&str> = agents.into_iter().collect();
        self.boot.catalog.all().flat_map(|definition| lint::open(definition, &channels, &agents)).collect()
    }

    fn all(&self) -> Vec<(Tenant, Arc<TenantLayer>)> {
        let tenants = self.tenants.read().unwrap_or_else(PoisonError::into_inner);
        tenants.iter().map(|(tenant, layer)| (tenant.clone(), layer.clone())).collect()
    }

    pub(crate) fn channels_of(&self, tenant: &Tenant) -> Arc<ChannelTable> {
        self.of(tenant).map_or_else(|| self.boot.channels.clone(), |layer| layer.channels.clone())
    }

    pub(crate) fn skills_of(&self, tenant: &Tenant) -> Arc<SkillTable> {
        self.of(tenant).map_or_else(|| self.boot.config.skills.clone(), |layer| layer.skills.clone())
    }

    pub(crate) fn volumes_of(&self, tenant: &Tenant) -> Arc<VolumeTable> {
        self.of(tenant).map_or_else(|| self.boot.config.volumes.clone(), |layer| layer.volumes.clone())
    }
}

impl Definitions for Layers {
    fn find(&self, tenant: &Tenant, name: &AgentName) -> Option<Arc<Definition>> {
        match self.of(tenant) {
            Some(layer) => layer.agents.get(name).cloned(),
            None => self.boot.catalog.find(tenant, name),
        }
    }

    fn list(&self, tenant: &Tenant) -> Vec<Arc<Definition>> {
        match self.of(tenant) {
            Some(layer) => layer.agents.values().cloned().collect(),
            None => self.boot.catalog.list(tenant),
        }
    }

    fn unusable(&self, tenant: &Tenant, name: &AgentName) -> Option<String> {
        let layer = self.of(tenant)?;
        match layer.agents.contains_key(name) {
            true => None,
            false => layer.state(DefinitionKind::Agent, name.as_str())?.unusable.clone(),
        }
    }
}

impl Skills for Layers {
    fn table(&self, tenant: &Tenant) -> Arc<SkillTable> {
        self.skills_of(tenant)
    }
}

impl Volumes for Layers {
    fn locate(&self, holder: Holder<'_>, volume: Option<&str>, path: &str) -> Result<Place, ToolError> {
        self.volumes_of(holder.tenant).locate(holder, volume, path)
    }
}
