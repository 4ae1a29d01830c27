//! What a config allows but nobody can have meant, and which gates absent keys left empty.

use std::collections::BTreeMap;

use drawloom_contract::{
    definition::{Definition, matches, may_mean},
    ids::AgentName,
    tool::Mode,
};

use crate::{agents::AgentConfig, catalog::Inputs, definitions, volumes::VolumeTable};

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// Worth knowing: a default that an absent key means.
    Note,
    /// It will not do what it looks like.
    Warning,
}

/// Something about the config that its reader should know. Nothing is refused because of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How much it matters.
    pub weight: Weight,
    /// Keys from the top of the config down to what it is about.
    pub at: Vec<String>,
    /// What.
    pub message: String,
}

/// The tools that reach files.
const FILE_TOOLS: [&str; 6] = ["Read", "Write", "Edit", "Glob", "Grep", "Bash"];

/// The tools that change files.
const WRITING_TOOLS: [&str; 2] = ["Write", "Edit"];

/// The tools that reach hosts.
const NET_TOOLS: [&str; 2] = ["HTTP", "WebFetch"];

/// All findings about one agent.
pub(crate) fn agent(config: &AgentConfig, definition: &Definition, inputs: &Inputs<'_>) -> Vec<Finding> {
    let (tools, volumes) = (inputs.tools, inputs.volumes);
    let name = definition.name.as_str();
    let mut findings = Vec::new();
    let mut find = |weight, key: Option<&str>, message: String| {
        let at = ["agents", name].into_iter().chain(key).map(str::to_owned).collect();
        findings.push(Finding { weight, at, message });
    };
    let lists = |tool: &str| definition.tools.iter().any(|pattern| matches(pattern, tool));
    for (tool, switch) in inputs.off {
        if definition.tools.contains(tool) {
            find(
                Weight::Warning,
                Some("tools"),
                format!("agent {name} lists the tool {tool}, which is disabled: {switch}"),
            );
        }
    }

    // Unset tools have a warning of their own, below.
    let left_empty: Vec<&str> = [
        ("agents", config.agents.is_none()),
        ("volumes", config.volumes.is_none() && definition.volumes.is_empty()),
        ("hosts", config.hosts.is_none()),
    ]
    .into_iter()
    .filter_map(|(gate, empty)| empty.then_some(gate))
    .collect();
    if !left_empty.is_empty() {
        let gates = left_empty.join(", ");
        find(
            Weight::Note,
            None,
            format!("agent {name} does not set {gates}: [] (none) is used, which is fine if that is intended"),
        );
    }
    if config.tools.is_none() {
        find(
            Weight::Warning,
            None,
            format!("agent {name} has no `tools` and cannot call any (to silence this, set `tools: []`)"),
        );
    }
    for pattern in &definition.tools {
        let is_outside = inputs.servers.iter().any(|server| may_mean(pattern, &format!("mcp__{server}__")));
        if pattern.ends_with('*') && !is_outside && !tools.iter().any(|tool| matches(pattern, tool)) {
            find(Weight::Warning, Some("tools"), format!("no tool matches {pattern:?}"));
        }
    }
    if lists("Agent") && definition.agents.is_empty() {
        find(
            Weight::Warning,
            Some("agents"),
            format!("agent {name} lists the tool Agent but `agents` is empty, so the tool is not available"),
        );
    }
    if !definition.agents.is_empty() && !lists("Agent") {
        find(
            Weight::Warning,
            Some("agents"),
            format!("agent {name} sets `agents` but does not list the tool Agent, so it cannot spawn agents"),
        );
    }
    match (lists("Memory"), definition.memory_scopes.is_empty()) {
        (true, true) => find(
            Weight::Warning,
            Some("memory_scopes"),
            format!(
                "agent {name} lists the tool Memory but `memory_scopes` is empty, so the tool is not available \
                 (`memory_scopes: [agent]` gives the agent its own memory)"
            ),
        ),
        (false, false) => find(
            Weight::Warning,
            Some("memory_scopes"),
            format!("agent {name} sets `memory_scopes` but does not list the tool Memory, so it cannot use memory"),
        ),
        _ => {}
    }
    match (lists("AgentDef"), definition.gate(definitions::GATE).is_empty()) {
        (true, true) => find(
            Weight::Warning,
            Some("definitions"),
            format!(
                "agent {name} lists the tool AgentDef but `definitions` is empty, so the tool is not available \
                 (`definitions: [agent]` lets it define agents)"
            ),
        ),
        (false, false) => find(
            Weight::Warning,
            Some("definitions"),
            format!(
                "agent {name} sets `definitions` but does not list the tool AgentDef, so it cannot define anything"
            ),
        ),
        _ => {}
    }
    if lists("Skill") && definition.skills.is_empty() {
        find(
            Weight::Warning,
            Some("skills"),
            format!("agent {name} lists the tool Skill but `skills` is empty, so the tool is not available"),
        );
    }
    if !definition.skills.is_empty() && !lists("Skill") {
        find(
            Weight::Warning,
            Some("skills"),
            format!("agent {name} sets `skills` but does not list the tool Skill, so it cannot load skills"),
        );
    }
    for pattern in config.skills.iter().flatten().filter(|pattern| pattern.ends_with('*')) {
        if !inputs.skills.names().any(|skill| matches(pattern, skill)) {
            find(Weight::Warning, Some("skills"), format!("no skill matches {pattern:?}"));
        }
    }
    for tool in FILE_TOOLS.into_iter().filter(|tool| lists(tool)) {
        if definition.volumes.is_empty() {
            find(
                Weight::Warning,
                Some("volumes"),
                format!("agent {name} lists the tool {tool} but has no volumes, so the tool is not available"),
            );
        }
    }
    let read_only = |volume: &String| volumes.mode(volume) == Some(Mode::ReadOnly);
    for tool in WRITING_TOOLS.into_iter().filter(|tool| lists(tool)) {
        if !definition.volumes.is_empty() && definition.volumes.iter().all(read_only) {
            let message = "but all its volumes are read-only, so the tool is not available";
            find(Weight::Warning, Some("volumes"), format!("agent {name} lists the tool {tool} {message}"));
        }
    }
    match (NET_TOOLS.into_iter().find(|tool| lists(tool)), definition.hosts.is_empty()) {
        (Some(tool), true) => find(
            Weight::Warning,
            Some("hosts"),
            format!("agent {name} lists the tool {tool} but `hosts` is empty, so the tool is not available"),
        ),
        (None, false) => {
            find(Weight::Warning, Some("hosts"), format!("agent {name} sets `hosts` but lists no network tool"))
        }
        _ => {}
    }
    findings
}

/// An agent that may spawn more agents than a model is told.
pub(crate) fn large_team(name: &AgentName, count: usize, most: usize) -> Finding {
    Finding {
        weight: Weight::Note,
        at: ["agents", name.as_str(), "agents"].map(str::to_owned).to_vec(),
        message: format!(
            "agent {name} can spawn {count} agents; with more than {most}, the model does not see their names; \
             narrow `agents`"
        ),
    }
}

/// Findings about agents together: whom nobody can choose well.
pub(crate) fn together<'a>(agents: &BTreeMap<&'a str, &'a Definition>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, definition) in agents {
        for pattern in &definition.agents {
            if pattern.ends_with('*') && !agents.keys().any(|other| matches(pattern, other)) {
                findings.push(Finding {
                    weight: Weight::Warning,
                    at: ["agents", name, "agents"].map(str::to_owned).to_vec(),
                    message: format!("no agent matches {pattern:?}"),
                });
            }
        }
        let spawner = agents.values().find(|other| other.may_spawn(&definition.name));
        if let Some(spawner) = spawner
            && definition.description.is_empty()
        {
            findings.push(Finding {
                weight: Weight::Note,
                at: ["agents", name].map(str::to_owned).to_vec(),
                message: format!("agent {name} has no `description`, so {} cannot tell what it is for", spawner.name),
            });
        }
    }
    findings
}

/// Volumes without a mode are read-only, which versions before 0.2 did not assume: names the agents that lost writing by it.
pub(crate) fn volumes<'a>(agents: &BTreeMap<&'a str, &'a Definition>, volumes: &VolumeTable) -> Vec<Finding> {
    let writes = |definition: &Definition| {
        let tools = WRITING_TOOLS.into_iter().chain(["Bash"]);
        tools.into_iter().any(|tool| definition.tools.iter().any(|pattern| matches(pattern, tool)))
    };
    let losers = |volume: &str| -> Vec<&str> {
        let has = |definition: &Definition| definition.volumes.iter().any(|name| name == volume);
        agents.iter().filter(|(_, agent)| has(agent) && writes(agent)).map(|(name, _)| *name).collect()
    };
    let found = volumes.without_mode().map(|volume| (volume, losers(volume))).filter(|(_, losers)| !losers.is_empty());
    found
        .map(|(volume, losers)| Finding {
            weight: Weight::Warning,
            at: ["volumes", volume].map(str::to_owned).to_vec(),
            message: format!(
                "volume {volume} has no `mode`, so it is read-only and {} cannot write to it (`mode: rw` allows it)",
                losers.join(", ")
            ),
        })
        .collect()
}
