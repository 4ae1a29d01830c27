//! The config section `tools`: what the operator allows tools to do on this machine.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Default limits of commands.
pub(crate) const MAX_TIMEOUT_SECONDS: u32 = 300;
pub(crate) const MAX_DISK_BYTES: u64 = 16 << 30;
pub(crate) const MAX_PROCESSES: u64 = 4096;

/// What tools can do on this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Commands.
    pub bash: BashConfig,
    /// The network.
    pub http: HttpConfig,
}

impl Config {
    /// What is wrong with it on this machine: the keys that lead there, and a sentence. A path that is not there or that
    /// depends on where drawloom was started would give commands less than it says, without a word.
    pub fn problems(&self) -> Vec<(Vec<String>, String)> {
        let lists = [("readable_paths", &self.bash.readable_paths), ("writable_paths", &self.bash.writable_paths)];
        let paths =
            lists.iter().flat_map(|(key, paths)| paths.iter().enumerate().map(move |(at, path)| (key, at, path)));
        paths
            .filter_map(|(key, at, path)| {
                let keys = vec!["bash".to_owned(), (*key).to_owned(), at.to_string()];
                Some((keys, problem(path)?))
            })
            .collect()
    }
}

fn problem(path: &Path) -> Option<String> {
    let shown = path.display();
    if !path.is_absolute() {
        return Some(format!("{shown:?} must be an absolute path"));
    }
    let error = path.metadata().err()?;
    Some(format!("{shown:?} must exist: {error}"))
}

/// The tool `Bash`: commands in a volume. `drawloom doctor` shows how this machine confines them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BashConfig {
    /// Whether agents can run commands.
    #[schemars(extend("x-power" = { "words": "lets agents run commands (Bash)", "as": "flag" }))]
    pub enabled: bool,
    /// Names of environment variables passed to commands, besides `PATH` and `LANG`. Others are not passed.
    #[schemars(extend("x-power" = { "words": "gives commands the variable {}", "as": "variable" }))]
    pub env: Vec<String>,
    /// Maximum timeout of a call, in seconds.
    #[schemars(range(min = 1, max = 3600))]
    #[schemars(extend("x-harmless" = "a limit"))]
    pub max_timeout_seconds: u32,
    /// Absolute paths of directories or files that commands can read and execute, besides the volume and the system's own.
    #[schemars(extend("x-power" = { "words": "lets commands read {}", "as": "path" }))]
    pub readable_paths: Vec<PathBuf>,
    /// Absolute paths of directories or files that commands can change, besides the volume and a temporary directory.
    #[schemars(extend("x-power" = { "words": "lets commands change {}", "as": "path" }))]
    pub writable_paths: Vec<PathBuf>,
    /// Network access of commands: `none`, or `host` for the machine's network. `host` applies only to agents whose `hosts` is
    /// `["*"]`, because names cannot be checked in a command.
    #[schemars(extend("x-power" = { "words": "lets commands of agents with hosts \"*\" reach this machine's network", "as": "flag", "when": "not_default" }))]
    pub network: BashNetwork,
    /// Maximum memory of a command and its processes, in bytes; defaults to three quarters of the machine's memory.
    #[schemars(extend("x-harmless" = "a limit"))]
    pub max_memory_bytes: Option<u64>,
    /// Maximum size of a file that a command writes, in bytes; no limit by default.
    #[schemars(extend("x-harmless" = "a limit"))]
    pub max_file_bytes: Option<u64>,
    /// Maximum bytes that a command and its processes write to disk.
    #[schemars(extend("x-harmless" = "a limit"))]
    pub max_disk_bytes: u64,
    /// Maximum concurrent processes and threads of a command.
    #[schemars(range(min = 1))]
    #[schemars(extend("x-harmless" = "a limit"))]
    pub max_processes: u64,
}

/// Network access of commands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BashNetwork {
    /// None.
    #[default]
    None,
    /// The machine's.
    Host,
}

impl Default for BashConfig {
    fn default() -> Self {
        Self {
            enabled: false,
            env: Vec::new(),
            max_timeout_seconds: MAX_TIMEOUT_SECONDS,
            readable_paths: Vec::new(),
            writable_paths: Vec::new(),
            network: BashNetwork::None,
            max_memory_bytes: None,
            max_file_bytes: None,
            max_disk_bytes: MAX_DISK_BYTES,
            max_processes: MAX_PROCESSES,
        }
    }
}

/// The tools `HTTP` and `WebFetch`: which hosts may be reached. An agent's own `hosts` narrow it further.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HttpConfig {
    /// Allowed hosts: exact names, `*.suffix`, or `*` for all. If empty, the tools are disabled.
    #[schemars(extend("x-power" = { "words": "sends requests of agents to {}" }))]
    pub hosts: Vec<String>,
    /// Hosts of `hosts` that can have private addresses, as `name` or `name:port`. All others must be public.
    #[schemars(extend("x-power" = { "words": "sends requests of agents to {} at private addresses too" }))]
    pub private_hosts: Vec<String>,
    /// Allowed ports; a host in `private_hosts` can set its own.
    #[schemars(extend("x-power" = { "words": "sends requests of agents to the port {}", "as": "text", "when": "not_default" }))]
    pub ports: Vec<u16>,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self { hosts: Vec::new(), private_hosts: Vec::new(), ports: vec![80, 443] }
    }
}
