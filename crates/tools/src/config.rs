//! The config section `tools`: what the operator allows tools to do on this machine.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Default limits of commands.
pub(crate) const MAX_TIMEOUT_SECONDS: u32 = 300;
pub(crate) const MAX_DISK_BYTES: u64 = 16 << 30;
pub(crate) const MAX_PROCESSES: u64 = 4096;

/// What tools may do on this machine.
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
    /// Whether agents may run commands at all.
    pub enabled: bool,
    /// Names of environment variables that commands get, besides `PATH` and `LANG`. All others are kept from them.
    pub env: Vec<String>,
    /// The longest time that a call may ask for, in seconds.
    #[schemars(range(min = 1, max = 3600))]
    pub max_timeout_seconds: u32,
    /// Directories or files that commands may read and execute, besides the volume and the system's own. Absolute.
    pub readable_paths: Vec<PathBuf>,
    /// Directories or files that commands may change, besides the volume and a temporary directory. Absolute.
    pub writable_paths: Vec<PathBuf>,
    /// Which network commands reach: `none`, or `host` for the machine's own. `host` holds only for agents whose `hosts` is
    /// `["*"]`, because names cannot be checked in a command.
    pub network: BashNetwork,
    /// The most memory of a command with all its processes, in bytes; three quarters of the machine's when absent.
    pub max_memory_bytes: Option<u64>,
    /// The largest file that a command may write, in bytes; no limit when absent.
    pub max_file_bytes: Option<u64>,
    /// The most bytes that a command with all its processes may write to disks.
    pub max_disk_bytes: u64,
    /// The most processes and threads of a command at once.
    #[schemars(range(min = 1))]
    pub max_processes: u64,
}

/// Which network commands reach.
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
    /// Hosts: exact names, `*.suffix`, or `*` for all. None when empty, and then the tools are off.
    pub hosts: Vec<String>,
    /// Hosts of `hosts` that may be at private addresses, as `name` or `name:port`. All others must be public.
    pub private_hosts: Vec<String>,
    /// Ports that may be reached; a host of `private_hosts` has its own.
    pub ports: Vec<u16>,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self { hosts: Vec::new(), private_hosts: Vec::new(), ports: vec![80, 443] }
    }
}
