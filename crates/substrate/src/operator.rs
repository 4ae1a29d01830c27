//! What the operator's config says, resolved and owned. Agents of the config are resolved against it at the start, agents that
//! are defined at runtime whenever they are made or read again.

use std::{collections::BTreeMap, sync::Arc};

use drawloom_contract::gate::Gate;

use crate::{
    agents::{AgentConfig, ModelChoice},
    catalog::Inputs,
    channels::ChannelConfig,
    skills::SkillTable,
    tiers::{Tiers, UserTier},
    volumes::VolumeTable,
};

/// Everything that agents are resolved against: see [`Inputs`] for the fields.
#[derive(Debug, Default)]
pub struct OperatorConfig {
    pub agents: BTreeMap<String, AgentConfig>,
    pub defaults: ModelChoice,
    pub models: BTreeMap<String, ModelChoice>,
    pub tiers: Tiers,
    pub user_tiers: BTreeMap<String, UserTier>,
    pub provider_priority: Vec<String>,
    pub providers: Vec<String>,
    pub unusable: Vec<String>,
    pub executors: Vec<String>,
    /// What `provider` names for agents of some of them.
    pub backends: BTreeMap<String, Vec<String>>,
    pub tools: Vec<String>,
    pub gates: BTreeMap<String, Gate>,
    pub off: BTreeMap<String, String>,
    pub servers: Vec<String>,
    pub volumes: Arc<VolumeTable>,
    pub skills: Arc<SkillTable>,
    pub channels: BTreeMap<String, ChannelConfig>,
}

impl OperatorConfig {
    pub fn inputs(&self) -> Inputs<'_> {
        self.inputs_with(&self.volumes, &self.skills)
    }

    /// The same with the volumes and skills of a tenant.
    pub(crate) fn inputs_with<'a>(&'a self, volumes: &'a VolumeTable, skills: &'a SkillTable) -> Inputs<'a> {
        Inputs {
            agents: &self.agents,
            defaults: &self.defaults,
            models: &self.models,
            tiers: &self.tiers,
            user_tiers: &self.user_tiers,
            provider_priority: &self.provider_priority,
            providers: &self.providers,
            unusable: &self.unusable,
            executors: &self.executors,
            backends: &self.backends,
            tools: &self.tools,
            gates: &self.gates,
            off: &self.off,
            servers: &self.servers,
            volumes,
            skills,
            channels: &self.channels,
        }
    }
}
