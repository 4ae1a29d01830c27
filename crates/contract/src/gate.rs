//! The gate of a tool: what an agent must be given before the tool is of any use to it.
//!
//! It is data beside the tool, known before the store is open. Lint, the refusal of a call and the proposals of an import take
//! their text from it, so a new tool with a gate needs no change anywhere else.

use std::{collections::BTreeMap, fmt};

use crate::tool::{Gates, Mode};

#[derive(Debug, Clone, Copy)]
pub struct Gate {
    /// The key in the agent's config.
    pub key: &'static str,
    /// What to write there, such as `memory_scopes: [agent]`.
    pub fix: &'static str,
    /// What its tools let an agent do, such as "use memory": an agent that has the gate but none of the tools cannot do it, and
    /// lint says so. Absent where an agent has the gate without asking for it.
    pub purpose: Option<&'static str>,
    /// Whether the tool changes what the gate gives.
    pub writes: bool,
    pub is_empty: fn(Gates<'_>) -> bool,
    /// What else may be missing when the gate is not empty.
    pub also: fn(Gates<'_>) -> Option<Lack>,
}

/// Why a tool is of no use to an agent.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lack {
    /// What is wrong, such as "`memory_scopes` is empty".
    pub what: String,
    /// What to write to change that.
    pub fix: &'static str,
}

impl Gate {
    pub const fn new(
        key: &'static str,
        fix: &'static str,
        purpose: &'static str,
        is_empty: fn(Gates<'_>) -> bool,
    ) -> Self {
        Self { key, fix, purpose: Some(purpose), writes: false, is_empty, also: |_| None }
    }

    /// What these gates lack for the tool; nothing when it can be used.
    pub fn lack(&self, gates: Gates<'_>) -> Option<Lack> {
        match (self.is_empty)(gates) {
            true => Some(Lack { what: format!("`{}` is empty", self.key), fix: self.fix }),
            false => (self.also)(gates),
        }
    }

    /// Refuses a tool that an agent with these gates cannot use, with what to write.
    pub fn check(&self, tool: &str, gates: Gates<'_>) -> Result<(), String> {
        match self.lack(gates) {
            None => Ok(()),
            Some(lack) => Err(format!("the tool {tool} is not available to agent {}: {lack}", gates.definition.name)),
        }
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} (to allow it, write `{}`)", self.what, self.fix)
    }
}

/// The gate of tools that spawn agents.
pub const AGENTS: Gate = Gate::new("agents", "agents: [NAME]", "spawn agents", |gates| match &gates.definition.team {
    // An agent that defines agents may spawn those that do not exist yet.
    Some(team) => {
        team.is_empty() && (gates.definition.agents.is_empty() || gates.definition.gate("definitions").is_empty())
    }
    None => gates.definition.agents.is_empty(),
});

/// The gate of tools that reach hosts.
pub const HOSTS: Gate = Gate {
    also: |gates| {
        let lack = || Lack { what: "the request allows none of its hosts".into(), fix: "allowed_hosts: [NAME]" };
        gates.hosts.is_empty().then(lack)
    },
    ..Gate::new("hosts", "hosts: [NAME]", "reach hosts", |gates| gates.definition.hosts.is_empty())
};

/// The gate of tools that read files. The default volume is there without being listed.
pub const VOLUMES: Gate =
    Gate { purpose: None, ..Gate::new("volumes", "volumes: [NAME]", "", |gates| gates.definition.volumes.is_empty()) };

/// The gate of tools that read files and may also change them: commands.
pub const COMMAND_VOLUMES: Gate = Gate { writes: true, ..VOLUMES };

/// The gate of tools that change files.
pub const WRITABLE_VOLUMES: Gate = Gate {
    writes: true,
    also: |gates| {
        let read_only = |modes: &BTreeMap<String, Mode>| modes.values().all(|mode| *mode == Mode::ReadOnly);
        let lack = || Lack { what: "all its volumes are read-only".into(), fix: "mode: rw" };
        gates.definition.volume_modes.as_ref().is_some_and(read_only).then(lack)
    },
    ..VOLUMES
};
