//! The config: one struct joined from the sections of all crates, read from files, checked whole.

pub(crate) mod declared;
mod expand;
mod load;
mod pricing;
mod removed;
mod retention;
pub(crate) mod tree;
mod units;
mod variables;
pub(crate) mod yaml;

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use drawloom_clis::ClisConfig;
use drawloom_goal::GoalsConfig;
use drawloom_models::ProviderConfig;
use drawloom_server::config::{AuthConfig, DEFAULT_LISTEN, PrincipalConfig, PromptConfig};
use drawloom_substrate::{
    AgentConfig, ModelChoice, SkillsConfig, Tiers, UserTier, VolumeConfig, channels::ChannelConfig,
    definitions::DefinitionsConfig, memory::MemoryConfig,
};
use drawloom_tools::McpServerConfig;

pub(crate) use load::join_with_dotenv;
pub use load::{Loaded, Mistake, join, made_powers, made_schema, schema};
pub use pricing::{ModelPrice, Pricing};
pub use retention::Retention;

use crate::{Extra, data_dir::DataDir, environment, exit::CommandError, import::SourceConfig, resolve, trust};

/// The file that is looked for.
const FILE_NAME: &str = "drawloom.yaml";

/// The config of Drawloom: providers of models, agents and what they can use, and who can call the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("x-not-built" = [
    "interruption", "budgets", "webhooks", "schedules", "fleet", "store", "bus", "telemetry",
    "memory_backends", "document_sources", "change_subscriptions", "hooks", "context_plugins", "search_providers",
    "search_priority", "scheduled_runs", "a2a_server_cards", "a2a_agents", "storage", "cache", "local_api"
]))]
pub struct Config {
    /// Names of environment variables that can be used as `${NAME}` in values of this file. Their values come from the
    /// environment, or from a `.env` file beside this one.
    #[schemars(inner(pattern(r"^[A-Za-z_][A-Za-z0-9_]*$")))]
    #[schemars(extend("x-power" = { "words": "reads the variable {}", "as": "variable" }))]
    pub env: Vec<String>,
    /// Default model of agents.
    pub defaults: ModelChoice,
    /// Providers of models, by a name of your choice.
    pub providers: BTreeMap<String, ProviderConfig>,
    /// Aliases of models: a short name for a provider and a model.
    pub models: BTreeMap<String, ModelChoice>,
    /// Models by tier, in order of preference, for agents that set `tier` instead of a model.
    #[schemars(schema_with = "drawloom_substrate::tiers_schema")]
    #[schemars(extend("x-harmless" = "chooses among the providers, which are listed"))]
    pub tiers: Tiers,
    /// Model settings for kinds of users, by name. A request selects one with `user_tier`; the default is `default`.
    pub user_tiers: BTreeMap<String, UserTier>,
    /// For agents with a tier: use only these providers, in this order. If empty, all are used, in the order of the tier.
    #[schemars(extend("x-harmless" = "chooses among the providers, which are listed"))]
    pub provider_priority: Vec<String>,
    /// Prices of models, if not known or different.
    pub pricing: Pricing,
    /// Agents, by name.
    pub agents: BTreeMap<String, AgentConfig>,
    /// Folders of instructions that agents load when a task needs them.
    pub skills: SkillsConfig,
    /// Prompts that users can select in an MCP host, by name.
    pub prompts: BTreeMap<String, PromptConfig>,
    /// Claude Code folders from which agents, skills and prompts are read at every start.
    pub sources: Vec<SourceConfig>,
    /// Directories that agents can use, by name.
    pub volumes: BTreeMap<String, VolumeConfig>,
    /// What tools can do on this machine.
    pub tools: drawloom_tools::Config,
    /// Outside MCP servers, by a name of your choice; agents list their tools as `mcp__NAME__TOOL` or `mcp__NAME__*`.
    pub mcp_servers: BTreeMap<String, McpServerConfig>,
    /// Coding CLIs, by the name that agents with `executor: cli` use as `provider`. `claude_code`, `codex`, `opencode` and `aider` exist
    /// without an entry.
    pub clis: ClisConfig,
    /// Channels, by name: messages between agents, users and programs. Others can be made at runtime.
    pub channels: BTreeMap<String, ChannelConfig>,
    /// Limits of memory.
    pub memory: MemoryConfig,
    /// What can be defined at runtime, and what agents that are defined there can use.
    pub definitions: DefinitionsConfig,
    /// Goals: what they may change, and who works on them.
    pub goals: GoalsConfig,
    /// Concurrency limits and timeouts.
    pub concurrency: drawloom_engine::Config,
    /// How long finished runs are kept.
    pub retention: Retention,
    /// Where the server listens: `IP:PORT` or `localhost:PORT`. Without a token only a loopback address is accepted.
    /// Only `drawloom serve` uses it; the background server picks a free port of this machine.
    #[schemars(extend("x-power" = { "words": "listens on {}, which other machines may reach", "as": "text", "when": "not_loopback" }))]
    pub listen: String,
    /// Access to the server.
    pub auth: AuthConfig,
    /// Callers that have their own token, by a name of your choice.
    pub principals: BTreeMap<String, PrincipalConfig>,
    /// Secrets to mask in the journal, streams, logs and output.
    pub redaction: Redaction,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            env: Vec::new(),
            defaults: ModelChoice::default(),
            providers: BTreeMap::new(),
            models: BTreeMap::new(),
            tiers: Tiers::new(),
            user_tiers: BTreeMap::new(),
            provider_priority: Vec::new(),
            pricing: Pricing::default(),
            agents: BTreeMap::new(),
            skills: SkillsConfig::default(),
            prompts: BTreeMap::new(),
            sources: Vec::new(),
            volumes: BTreeMap::new(),
            tools: drawloom_tools::Config::default(),
            mcp_servers: BTreeMap::new(),
            clis: BTreeMap::new(),
            channels: BTreeMap::new(),
            memory: MemoryConfig::default(),
            definitions: DefinitionsConfig::default(),
            goals: GoalsConfig::default(),
            concurrency: drawloom_engine::Config::default(),
            retention: Retention::default(),
            listen: DEFAULT_LISTEN.into(),
            auth: AuthConfig::default(),
            principals: BTreeMap::new(),
            redaction: Redaction::default(),
        }
    }
}

/// More secrets to mask. API keys of providers, tokens of the server and tokens of common formats are always masked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Redaction {
    /// Names of environment variables whose values are secrets; values under 8 bytes are not masked.
    #[schemars(inner(pattern(r"^[A-Za-z_][A-Za-z0-9_]*$")))]
    #[schemars(extend("x-harmless" = "only masks more"))]
    pub values_env: Vec<String>,
}

/// The address that `listen` means, if it is one. `localhost` is the IPv4 loopback.
pub(crate) fn listen_address(listen: &str) -> Option<SocketAddr> {
    match listen.strip_prefix("localhost:") {
        Some(port) => Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port.parse().ok()?))),
        None => listen.parse().ok(),
    }
}

/// The files that make the config: those given, else the nearest `drawloom.yaml` in this directory or above it, else the one in
/// the user's config directory.
pub fn find(given: &[PathBuf]) -> Result<Vec<PathBuf>, CommandError> {
    if !given.is_empty() {
        return Ok(given.to_vec());
    }
    let found = find_project().or_else(|| user_file().filter(|path| path.exists()));
    found.map(|path| vec![path]).ok_or_else(missing)
}

/// The nearest `drawloom.yaml` in this directory or above it, if there is one.
pub(crate) fn find_project() -> Option<PathBuf> {
    let here = PathBuf::from(FILE_NAME);
    if here.exists() {
        return Some(here);
    }
    let current = std::env::current_dir().unwrap_or_default();
    let mut above = current.ancestors().skip(1).map(|above| above.join(FILE_NAME));
    above.find(|path| path.exists())
}

/// The error of a command that found no config file.
pub(crate) fn missing() -> CommandError {
    if Path::new("drawloom.yml").exists() {
        let message = format!("no {FILE_NAME} found in this directory or its parents; drawloom.yml is not read");
        return CommandError::usage("no_config", message)
            .with_hint(format!("rename it: mv drawloom.yml {FILE_NAME}; or pass --config drawloom.yml"));
    }
    let there = user_file().map(|path| format!(", and {} does not exist", path.display())).unwrap_or_default();
    CommandError::usage("no_config", format!("no {FILE_NAME} found in this directory or its parents{there}"))
        .with_hint("`drawloom init` writes one; or pass --config FILE")
}

pub(crate) fn user_file() -> Option<PathBuf> {
    environment::default_config_dir().map(|directory| directory.join(FILE_NAME))
}

/// The files that agents may not change: the config's own, and the list of configs that this user trusts.
pub(crate) fn guarded(files: &[PathBuf]) -> Vec<PathBuf> {
    files.iter().cloned().chain(trust::file()).collect()
}

/// The config that a command would find here before any other. It need not exist, and agents may not make it.
pub(crate) fn found_before() -> [PathBuf; 1] {
    [PathBuf::from(FILE_NAME)]
}

/// Where files are, from wherever it is looked.
pub(crate) fn absolute(files: &[PathBuf]) -> Vec<PathBuf> {
    files.iter().map(|file| place(file)).collect()
}

/// Where a config file is: its real folder, and its name there. A link to a config is a config of its own, because paths in it
/// mean the folder of the link.
pub(crate) fn place(file: &Path) -> PathBuf {
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    match (file.parent().and_then(|parent| parent.canonicalize().ok()), file.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => file,
    }
}

/// Loads files, with the environment of the process.
pub fn load_files(paths: &[PathBuf]) -> Result<Loaded, CommandError> {
    load_beside(paths, None)
}

/// Loads files as far as they are without mistakes, and no `.env`: for names of what is in them.
pub(crate) fn load_names(paths: &[PathBuf]) -> Option<Loaded> {
    load::load_without_dotenv(paths, &environment::exact_variable).loaded
}

/// The same as `load_files`; when there are mistakes, those about the data directory are reported with them.
pub(crate) fn load_beside(paths: &[PathBuf], data: Option<&DataDir>) -> Result<Loaded, CommandError> {
    let load::Examined { loaded, mut mistakes } = load::load(paths, &environment::exact_variable);
    match loaded {
        Some(loaded) if mistakes.is_empty() => Ok(loaded),
        Some(loaded) => {
            // Mistakes of form must not hide mistakes of meaning.
            mistakes.extend(resolve::resolve_beside(data, &loaded, &Extra::default()).err().unwrap_or_default());
            load::sort(&mut mistakes);
            Err(refuse(mistakes))
        }
        None => Err(refuse(mistakes)),
    }
}

/// The error that a command ends with when the config has mistakes.
pub fn refuse(mistakes: Vec<Mistake>) -> CommandError {
    let count = match mistakes.len() {
        1 => "1 mistake".to_owned(),
        count => format!("{count} mistakes"),
    };
    CommandError {
        details: mistakes.iter().map(ToString::to_string).collect(),
        ..CommandError::usage("bad_config", format!("the config has {count}"))
    }
}

/// A JSON or YAML file as a value; `-` reads stdin.
pub fn read_value(path: &Path) -> Result<Value, CommandError> {
    load::read_value(path).map_err(|mistake| CommandError::usage("bad_file", mistake.to_string()))
}

/// The value that a text is as YAML or JSON; none when it is neither.
pub(crate) fn parse_value(text: &str) -> Option<Value> {
    load::parse_value(text.as_bytes())
}

#[cfg(test)]
mod tests;
