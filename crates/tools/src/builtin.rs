//! The list of built-in tools, and which of them the operator's config leaves off.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use drawloom_contract::{
    time::Clock,
    tool::{Outlives, Tool},
};
use drawloom_net::{
    Guarded,
    guarded::{Dial, Resolve, Rules},
};
use drawloom_process::Launcher;

use crate::{
    agent::Agent, bash::Bash, config::Config, edit::Edit, fetch::Outbound, gate::Gate, glob::Glob, grep::Grep,
    http::Http, read::Read, replace::Notes, web_fetch::WebFetch, write::Write,
};

/// What the tools are made of.
#[derive(Clone)]
pub struct Parts {
    /// The config section `tools`.
    pub config: Config,
    /// The program that stands between drawloom and a command.
    pub launcher: Launcher,
    /// An existing directory for commands' temporary directories, best inside the data directory.
    pub temporary: PathBuf,
    /// The directory for notes about staged files, inside the data directory; see [`crate::leftovers`].
    pub staged: PathBuf,
    /// The values of the environment variables that [`variables`] names, as far as they are set.
    pub environment: BTreeMap<String, String>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// From names to addresses, for `HTTP` and `WebFetch`.
    pub resolve: Arc<dyn Resolve>,
    /// From addresses to streams, for `HTTP` and `WebFetch`.
    pub dial: Arc<dyn Dial>,
}

/// A built-in tool, whether it is on or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuiltIn {
    /// Its name.
    pub name: &'static str,
    /// What turns it on; nothing when it is always on.
    pub switch: Option<&'static str>,
}

/// Every built-in tool.
pub const BUILT_IN: &[BuiltIn] = &[
    BuiltIn { name: "Agent", switch: None },
    BuiltIn { name: "Bash", switch: Some("set tools.bash.enabled: true") },
    BuiltIn { name: "Edit", switch: None },
    BuiltIn { name: "Glob", switch: None },
    BuiltIn { name: "Grep", switch: None },
    BuiltIn { name: "HTTP", switch: Some("list hosts under tools.http.hosts") },
    BuiltIn { name: "Read", switch: None },
    BuiltIn { name: "WebFetch", switch: Some("list hosts under tools.http.hosts") },
    BuiltIn { name: "Write", switch: None },
];

/// A built-in tool that the config leaves off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Off {
    /// Its name.
    pub name: &'static str,
    /// What turns it on.
    pub switch: &'static str,
}

impl std::fmt::Display for Off {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} is off: {}", self.name, self.switch)
    }
}

/// The built-in tools that this config leaves off, each with what turns it on.
pub fn off(config: &Config) -> Vec<Off> {
    let is_on = |name: &str| match name {
        "Bash" => config.bash.enabled,
        "HTTP" | "WebFetch" => !config.http.hosts.is_empty(),
        _ => true,
    };
    let off = BUILT_IN.iter().filter(|tool| !is_on(tool.name));
    off.filter_map(|tool| tool.switch.map(|switch| Off { name: tool.name, switch })).collect()
}

/// Names of the environment variables that tools need, for whoever may read the environment.
pub fn variables(config: &Config) -> impl Iterator<Item = &str> {
    ["PATH", "LANG"].into_iter().chain(config.bash.env.iter().map(String::as_str))
}

/// Every built-in tool that the config does not leave off, one line each.
pub fn builtin(parts: &Parts) -> Vec<Arc<dyn Tool>> {
    let http = &parts.config.http;
    let rules = Rules { private_hosts: http.private_hosts.clone(), ports: http.ports.clone() };
    let outbound = Arc::new(Outbound {
        client: Guarded::new(rules, parts.resolve.clone(), parts.dial.clone()),
        gate: Gate { hosts: http.hosts.clone() },
        clock: parts.clock.clone(),
    });
    let notes = Notes { directory: parts.staged.clone() };
    let mut tools: Vec<Arc<dyn Tool>> = vec![
        Arc::new(Agent),
        Arc::new(Edit { notes: notes.clone() }),
        Arc::new(Glob),
        Arc::new(Grep),
        Arc::new(Http(outbound.clone())),
        Arc::new(Read),
        Arc::new(WebFetch(outbound)),
        Arc::new(Write { notes }),
    ];
    // Its card says what this machine can enforce, which is tried only where commands may run.
    if parts.config.bash.enabled {
        tools.insert(1, Arc::new(Bash::new(parts)));
    }
    let off = off(&parts.config);
    tools.retain(|tool| !off.iter().any(|off| off.name == tool.card().name));
    tools
}

/// The built-in tools that the config leaves off and whose calls may have outlived an earlier process, by name.
pub fn turned_off(parts: &Parts) -> BTreeMap<String, Arc<dyn Outlives>> {
    let mut tools: BTreeMap<String, Arc<dyn Outlives>> = BTreeMap::new();
    if !parts.config.bash.enabled {
        tools.insert("Bash".into(), Arc::new(Bash::new(parts)));
    }
    tools
}
