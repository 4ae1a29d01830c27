//! What built-in tools are made of, and which of them the operator's config leaves off. The list is in `lib.rs`.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use drawloom_contract::{
    gate::Gate,
    time::Clock,
    tool::{Outlives, Tool},
};
use drawloom_net::{
    Guarded,
    guarded::{Dial, Resolve, Rules},
};
use drawloom_process::Launcher;

use crate::{BUILT_IN, config::Config, fetch::Outbound, hosts::AllowedHosts, replace::Notes};

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
    /// The folders of skills, by name: commands of agents that may load one can read it.
    pub skills: BTreeMap<String, PathBuf>,
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
pub struct BuiltIn {
    pub name: &'static str,
    /// `None` when it is always on.
    pub switch: Option<Switch>,
    /// What an agent must be given before the tool is of any use to it.
    pub gate: Option<Gate>,
    pub(crate) make: fn(&Shared<'_>) -> Arc<dyn Tool>,
    /// For calls that may outlive the process, also when the tool is off by now.
    pub(crate) outlives: Option<MakeOutlives>,
}

type MakeOutlives = fn(&Parts) -> Arc<dyn Outlives>;

/// What turns a tool on.
#[derive(Clone, Copy)]
pub struct Switch {
    /// What to write into the config.
    pub turn_on: &'static str,
    pub is_on: fn(&Config) -> bool,
}

/// What tools share.
pub(crate) struct Shared<'a> {
    pub(crate) parts: &'a Parts,
    pub(crate) outbound: Arc<Outbound>,
    pub(crate) notes: Notes,
}

impl BuiltIn {
    /// A tool that is always on.
    pub(crate) const fn always(name: &'static str, make: fn(&Shared<'_>) -> Arc<dyn Tool>) -> Self {
        Self { name, switch: None, gate: None, make, outlives: None }
    }

    /// A tool that the config turns on.
    pub(crate) const fn switched(name: &'static str, switch: Switch, make: fn(&Shared<'_>) -> Arc<dyn Tool>) -> Self {
        Self { name, switch: Some(switch), gate: None, make, outlives: None }
    }

    pub(crate) const fn gated(self, gate: Gate) -> Self {
        Self { gate: Some(gate), ..self }
    }

    fn is_on(&self, config: &Config) -> bool {
        self.switch.is_none_or(|switch| (switch.is_on)(config))
    }
}

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
        write!(formatter, "{} is disabled: {}", self.name, self.switch)
    }
}

/// The built-in tools that this config leaves off, each with what turns it on.
pub fn off(config: &Config) -> Vec<Off> {
    let off = BUILT_IN.iter().filter(|tool| !tool.is_on(config));
    off.filter_map(|tool| tool.switch.map(|switch| Off { name: tool.name, switch: switch.turn_on })).collect()
}

/// Names of the environment variables that tools need, for the binary, which reads the environment.
pub fn variables(config: &Config) -> impl Iterator<Item = &str> {
    ["PATH", "LANG"].into_iter().chain(config.bash.env.iter().map(String::as_str))
}

/// Every built-in tool that the config does not leave off.
pub fn builtin(parts: &Parts) -> Vec<Arc<dyn Tool>> {
    let http = &parts.config.http;
    let rules = Rules { private_hosts: http.private_hosts.clone(), ports: http.ports.clone() };
    let outbound = Arc::new(Outbound {
        client: Guarded::new(rules, parts.resolve.clone(), parts.dial.clone()),
        gate: AllowedHosts { hosts: http.hosts.clone() },
        clock: parts.clock.clone(),
    });
    let shared = Shared { parts, outbound, notes: Notes { directory: parts.staged.clone() } };
    BUILT_IN.iter().filter(|tool| tool.is_on(&parts.config)).map(|tool| (tool.make)(&shared)).collect()
}

/// The built-in tools that the config leaves off and whose calls may have outlived an earlier process, by name.
pub fn turned_off(parts: &Parts) -> BTreeMap<String, Arc<dyn Outlives>> {
    let off = BUILT_IN.iter().filter(|tool| !tool.is_on(&parts.config));
    off.filter_map(|tool| Some((tool.name.to_owned(), (tool.outlives?)(parts)))).collect()
}
