//! What a config allows but nobody can have meant, and which gates absent keys left empty.

use std::collections::BTreeMap;

use drawloom_contract::{
    definition::{Definition, matches, may_mean},
    gate::{Lack, VOLUMES},
    ids::AgentName,
    tool::Gates,
};

use crate::{
    agents::AgentConfig,
    catalog::Inputs,
    channels::{self, ChannelConfig},
};

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

/// All findings about one agent, from the config or made at runtime, each with what to write. What its tools need comes from the
/// gates of the tools: a new tool needs no change here.
pub fn agent(config: &AgentConfig, definition: &Definition, inputs: &Inputs<'_>) -> Vec<Finding> {
    let tools = inputs.tools;
    let name = definition.name.as_str();
    let mut findings = Vec::new();
    let mut find = |weight, key: Option<&str>, message: String| {
        let at = ["agents", name].into_iter().chain(key).map(str::to_owned).collect();
        findings.push(Finding { weight, at, message });
    };
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
    for Finding { weight, message, .. } in channel_findings(definition, inputs.channels) {
        find(weight, Some("channels"), message);
    }
    for pattern in config.skills.iter().flatten().filter(|pattern| pattern.ends_with('*')) {
        if !inputs.skills.names().any(|skill| matches(pattern, skill)) {
            find(Weight::Warning, Some("skills"), format!("no skill matches {pattern:?}"));
        }
    }
    for (key, message) in gate_findings(definition, inputs) {
        find(Weight::Warning, Some(key), message);
    }
    findings
}

fn channel_findings(definition: &Definition, known: &BTreeMap<String, ChannelConfig>) -> Vec<Finding> {
    let found = channels::findings(definition, known).into_iter();
    let at = || ["agents", definition.name.as_str(), "channels"].map(str::to_owned).to_vec();
    found.map(|(weight, message)| Finding { weight, at: at(), message }).collect()
}

/// Patterns of agents that no agent matches.
fn unmatched(definition: &Definition, names: &[&str]) -> Vec<Finding> {
    let patterns = definition.agents.iter().filter(|pattern| pattern.ends_with('*'));
    let unmatched = patterns.filter(|pattern| !names.iter().any(|name| matches(pattern, name)));
    let finding = |pattern: &String| Finding {
        weight: Weight::Warning,
        at: ["agents", definition.name.as_str(), "agents"].map(str::to_owned).to_vec(),
        message: format!("no agent matches {pattern:?}"),
    };
    unmatched.map(finding).collect()
}

/// Those findings about an agent of the config that depend on channels and agents beside those of the config.
pub(crate) fn open(
    definition: &Definition,
    channels: &BTreeMap<String, ChannelConfig>,
    agents: &[&str],
) -> Vec<Finding> {
    let mut findings = channel_findings(definition, channels);
    findings.extend(unmatched(definition, agents));
    findings
}

/// Tools without their gate, and gates without their tools, by the key of the gate.
fn gate_findings(definition: &Definition, inputs: &Inputs<'_>) -> Vec<(&'static str, String)> {
    let name = &definition.name;
    let lists = |tool: &str| definition.tools.iter().any(|pattern| matches(pattern, tool));
    // A pattern does not ask for a tool that the operator left off.
    let asks = |tool: &String| lists(tool) && (definition.tools.contains(tool) || !inputs.off.contains_key(tool));
    let gates = Gates { definition, hosts: &definition.hosts };
    let mut lacking: BTreeMap<(&str, Lack), Vec<&str>> = BTreeMap::new();
    let mut unused: BTreeMap<&str, (&str, Vec<&str>)> = BTreeMap::new();
    for (tool, gate) in inputs.gates {
        if let Some(lack) = gate.lack(gates).filter(|_| asks(tool)) {
            lacking.entry((gate.key, lack)).or_default().push(tool);
        }
        if let Some(purpose) = gate.purpose.filter(|_| !(gate.is_empty)(gates)) {
            unused.entry(gate.key).or_insert((purpose, Vec::new())).1.push(tool);
        }
    }
    let lacking = lacking.into_iter().map(|((key, lack), tools)| {
        let (noun, verb) = if tools.len() == 1 { ("tool", "the tool is") } else { ("tools", "they are") };
        let (tools, Lack { what, fix }) = (tools.join(", "), lack);
        let message = format!(
            "agent {name} lists the {noun} {tools} but {what}, so {verb} not available (to allow it, write `{fix}`)"
        );
        (key, message)
    });
    let unused = unused.into_iter().filter(|(_, (_, tools))| !tools.iter().any(|tool| lists(tool)));
    let unused = unused.map(|(key, (purpose, tools))| {
        let tools = tools.join(" or ");
        (key, format!("agent {name} sets `{key}` but does not list the tool {tools}, so it cannot {purpose}"))
    });
    lacking.chain(unused).collect()
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
    let names: Vec<&str> = agents.keys().copied().collect();
    for (name, definition) in agents {
        findings.extend(unmatched(definition, &names));
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
pub(crate) fn volumes<'a>(agents: &BTreeMap<&'a str, &'a Definition>, inputs: &Inputs<'_>) -> Vec<Finding> {
    let volumes = inputs.volumes;
    let writing = || inputs.gates.iter().filter(|(_, gate)| gate.key == VOLUMES.key && gate.writes);
    let writes = |definition: &Definition| {
        writing().any(|(tool, _)| definition.tools.iter().any(|pattern| matches(pattern, tool)))
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
