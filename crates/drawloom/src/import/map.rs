//! A folder of Claude Code turned into what a config can hold. No file is written, and no gate is opened.

use std::collections::{BTreeMap, BTreeSet};

use drawloom_models::Driver;
use drawloom_substrate::{Candidate, Tier, VolumeMode};
use drawloom_tools::McpServerConfig;
use serde_json::{Value, json};

use super::{
    Item, Note, Proposal,
    agents::{self, Agent},
    document, names,
    prompts::{self, Prompt},
    servers::{self, Server},
    settings,
    skills::{self, Skill},
    tree::{Servers, Tree},
};
use crate::{config::Config, resolve};

/// What the config has already, as far as it matters.
#[derive(Debug, Default)]
pub(crate) struct Target {
    /// Providers and their drivers.
    pub(crate) drivers: BTreeMap<String, Driver>,
    pub(crate) aliases: BTreeSet<String>,
    pub(crate) tiers: BTreeSet<&'static str>,
    /// Whether tiers that the config lacks can be added to it.
    pub(crate) may_add_tiers: bool,
    pub(crate) has_defaults: bool,
    /// `defaults`, as a candidate of a tier.
    pub(crate) defaults: Option<Value>,
    pub(crate) servers: BTreeSet<String>,
    pub(crate) skills: BTreeSet<String>,
    /// The names of all tools, on or off, but those of MCP servers.
    pub(crate) tools: Vec<String>,
    /// Whether commands and requests of agents are on at all.
    pub(crate) has_bash: bool,
    pub(crate) has_http: bool,
    pub(crate) default_volume: Option<VolumeMode>,
}

impl Target {
    pub(crate) fn of(config: &Config) -> Self {
        let tier = |(tier, listed): (&Tier, &Vec<Candidate>)| {
            let name = match tier {
                Tier::Low => "low",
                Tier::Middle => "middle",
                Tier::High => "high",
            };
            (!listed.is_empty()).then_some(name)
        };
        let defaults = &config.defaults;
        let named = defaults.model.as_ref().map(|model| match &defaults.provider {
            Some(provider) => json!({ "provider": provider, "model": model }),
            None => json!(model),
        });
        let volume = config.volumes.values().find(|volume| volume.default);
        Self {
            drivers: config.providers.iter().map(|(name, provider)| (name.clone(), provider.driver)).collect(),
            aliases: config.models.keys().cloned().collect(),
            tiers: config.tiers.iter().filter_map(tier).collect(),
            may_add_tiers: false,
            has_defaults: named.is_some(),
            defaults: named,
            servers: config.mcp_servers.keys().cloned().collect(),
            skills: crate::skills::read(&config.skills, &[]).table.names().map(str::to_owned).collect(),
            tools: resolve::tool_names().map(str::to_owned).collect(),
            has_bash: config.tools.bash.enabled,
            has_http: !config.tools.http.hosts.is_empty(),
            default_volume: volume.map(|volume| volume.mode.unwrap_or(VolumeMode::Ro)),
        }
    }
}

/// What came of a folder.
#[derive(Debug, Default)]
pub(crate) struct Mapped {
    pub(crate) agents: Vec<Agent>,
    pub(crate) skills: Vec<Skill>,
    pub(crate) prompts: Vec<Prompt>,
    pub(crate) servers: Vec<Server>,
    /// One for each thing that was found, in the order of the lists above, then what was left out.
    pub(crate) items: Vec<Item>,
    pub(crate) proposals: Vec<Proposal>,
    /// Tiers that agents name and the config does not have.
    pub(crate) tiers: BTreeSet<&'static str>,
}

/// A mapping on its way.
pub(super) struct Mapping<'a> {
    pub(super) target: &'a Target,
    pub(super) taken_agents: BTreeSet<String>,
    pub(super) agents: Vec<Agent>,
    pub(super) skills: Vec<Skill>,
    pub(super) servers: Vec<Server>,
    pub(super) items: Vec<Item>,
    pub(super) tiers: BTreeSet<&'static str>,
}

impl Mapping<'_> {
    /// The name in the config of the MCP server that a file calls `name`.
    pub(super) fn find_server(&self, name: &str) -> Option<String> {
        let wanted = names::in_tools(name);
        // Servers of plugins are called `plugin_NAME_SERVER` in the names of tools.
        let is_meant = |server: &Server| {
            let original = names::in_tools(&server.original);
            let of_plugin =
                server.plugin.as_ref().map(|plugin| format!("plugin_{}_{original}", names::in_tools(plugin)));
            original == wanted || server.name == wanted || of_plugin.as_deref() == Some(&*wanted)
        };
        let found = self.servers.iter().find(|server| is_meant(server)).map(|server| server.name.clone());
        found.or_else(|| self.target.servers.get(&wanted).cloned())
    }

    /// The names of all MCP servers that the config will have.
    pub(super) fn server_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.servers.iter().map(|server| server.name.clone()).collect();
        names.extend(self.target.servers.iter().cloned());
        names.sort();
        names.dedup();
        names
    }

    /// The name in the config of the skill that a file calls `name`.
    pub(super) fn find_skill(&self, name: &str) -> Option<String> {
        let found = self.skills.iter().find(|skill| skill.name == name || skill.original == name);
        let found = found.or_else(|| self.skills.iter().find(|skill| skill.name.eq_ignore_ascii_case(name)));
        found.map(|skill| skill.name.clone()).or_else(|| self.target.skills.get(name).cloned())
    }
}

/// Maps a folder for a config. `lookup` says which environment variables are set.
pub(crate) fn map(tree: &Tree, target: &Target, lookup: &dyn Fn(&str) -> Option<String>) -> Mapped {
    let mut mapping = Mapping {
        target,
        taken_agents: BTreeSet::new(),
        agents: Vec::new(),
        skills: Vec::new(),
        servers: Vec::new(),
        items: Vec::new(),
        tiers: BTreeSet::new(),
    };
    let documents: Vec<_> = tree.agents.iter().map(|entry| (entry, document::read(&entry.path))).collect();
    // Agents may bring servers of their own.
    let own = documents.iter().filter_map(|(entry, read)| {
        let fields = &read.as_ref().ok()?.document.fields;
        let key = ["mcpServers", "mcp-servers", "mcp_servers"].into_iter().find(|key| fields.contains_key(*key))?;
        Some(Servers { entry: (*entry).clone(), value: inline(&fields[key].value)? })
    });
    let places: Vec<Servers> = tree.servers.iter().cloned().chain(own).collect();
    let settings = settings::read(&tree.settings, &tree.hooks);
    servers::map(&places, &settings, lookup, &mut mapping);
    skills::map(&tree.skills, &mut mapping);
    for (entry, read) in documents {
        agents::map(entry, read, &mut mapping);
    }
    let prompts = prompts::map(&tree.commands, &mut mapping.items);
    let mut proposals: Vec<Proposal> =
        mapping.agents.iter().flat_map(|agent| agent.proposals.iter().cloned()).collect();
    proposals.extend(machine(&mapping.agents, target));
    let mut items = mapping.items;
    items.extend(settings.items);
    items.extend(tree.left.iter().cloned());
    items.sort_by(|left, right| (left.kind, &left.name, &left.source).cmp(&(right.kind, &right.name, &right.source)));
    Mapped {
        agents: mapping.agents,
        skills: mapping.skills,
        prompts,
        servers: mapping.servers,
        items,
        proposals,
        tiers: mapping.tiers,
    }
}

/// Servers that an agent's file defines, as a file of servers has them.
fn inline(value: &Value) -> Option<Value> {
    let mut servers = serde_json::Map::new();
    let maps: Vec<&Value> = match value {
        Value::Array(items) => items.iter().collect(),
        other => vec![other],
    };
    for (name, server) in
        maps.into_iter().filter_map(Value::as_object).flatten().filter(|(_, server)| server.is_object())
    {
        servers.insert(name.clone(), server.clone());
    }
    (!servers.is_empty()).then(|| json!({ "mcpServers": servers }))
}

/// Lines outside the agents that their tools need.
fn machine(agents: &[Agent], target: &Target) -> Vec<Proposal> {
    let lists = |wanted: &[&str]| {
        let lists = |agent: &&Agent| {
            let tools = agent.get("tools").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
            tools.into_iter().any(|tool| wanted.contains(&tool))
        };
        agents.iter().find(lists)
    };
    let propose = |at: &str, line: &str, reason: &str| Proposal {
        at: vec![at.to_owned()],
        line: line.to_owned(),
        reason: reason.to_owned(),
    };
    let mut proposals = Vec::new();
    match target.default_volume {
        None if lists(&["Read", "Grep", "Glob", "Edit", "Write", "Bash"]).is_some() => proposals.push(propose(
            "volumes",
            "here: { path: ., mode: ro, default: true }",
            "file tools reach only volumes; `mode: rw` lets agents write",
        )),
        Some(VolumeMode::Ro) if lists(&["Edit", "Write"]).is_some() => proposals.push(propose(
            "volumes",
            "mode: rw",
            "Edit and Write need a volume that agents may change; the default volume is read only",
        )),
        _ => {}
    }
    if !target.has_bash && lists(&["Bash"]).is_some() {
        proposals.push(propose("tools", "bash: { enabled: true }", "Bash is off until the operator turns it on"));
    }
    if !target.has_http && lists(&["WebFetch"]).is_some() {
        proposals.push(propose("tools", "http: { hosts: [\"*\"] }", "WebFetch is off until the operator lists hosts"));
    }
    proposals
}

/// Names in a list, or in a text with commas or blanks between them.
pub(super) fn split_names(value: &Value) -> Vec<String> {
    super::tools::entries(value).unwrap_or_default()
}

/// Whether a server of this form would be refused, and why.
pub(super) fn refusal(name: &str, server: &McpServerConfig) -> Option<String> {
    let problems = drawloom_tools::mcp_problems(&BTreeMap::from([(name.to_owned(), server.clone())]));
    problems.into_iter().next().map(|(keys, message, _)| format!("{}: {message}", keys.join(".")))
}

/// A note for a field that is kept as it is.
pub(super) fn kept(field: &str) -> Note {
    Note::mapped(field, field)
}
