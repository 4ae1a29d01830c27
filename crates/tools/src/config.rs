//! The config section `tools`: what the operator allows tools to do on this machine.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
        return Some(format!("{shown:?} is not absolute; write the whole path, beginning with a slash"));
    }
    let error = path.metadata().err()?;
    Some(format!("{shown:?} cannot be reached ({error}); make it, or take it out of the list"))
}

/// The tool `Bash`: commands in a volume. Their files are confined (see `drawloom doctor`), their network is not.
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
    /// The most memory of one process, in bytes; no limit when absent.
    pub max_memory_bytes: Option<u64>,
    /// The largest file that a process may write, in bytes; no limit when absent.
    pub max_file_bytes: Option<u64>,
    /// The most processes of drawloom's user at once; no limit when absent. The kernel does not hold root to it.
    pub max_processes: Option<u64>,
}

impl Default for BashConfig {
    fn default() -> Self {
        Self {
            enabled: false,
            env: Vec::new(),
            max_timeout_seconds: 300,
            readable_paths: Vec::new(),
            writable_paths: Vec::new(),
            max_memory_bytes: None,
            max_file_bytes: None,
            max_processes: None,
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
