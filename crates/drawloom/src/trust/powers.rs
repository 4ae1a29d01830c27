//! What a config can do on this machine, as a list of lines that people read before they trust it.
//!
//! A line changes when the power changes and only then: paths are real paths, and the list is sorted. Every text of the config
//! is quoted when it holds anything unusual, so that no line can hide or imitate another one.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use drawloom_clis::EXECUTOR;
use drawloom_contract::{definition::matches, ids::Digest};
use drawloom_models::{ProviderConfig, usual_address};
use drawloom_substrate::{AgentConfig, VolumeMode, definitions::Grant};
use drawloom_tools::{BashNetwork, McpServerConfig};

use crate::{
    config::{Config, Loaded, listen_address},
    environment,
};

/// Shorter values are not replaced by their names: they would replace parts of ordinary words.
const SHORTEST_SECRET: usize = 8;

/// Everything that a config can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Powers(BTreeSet<String>);

impl Powers {
    /// The powers of a config.
    pub(crate) fn of(loaded: &Loaded) -> Self {
        let config = &loaded.config;
        let words = Words::of(loaded);
        let mut lines = BTreeSet::new();
        lines.extend(loaded.env_names.iter().map(|name| format!("reads the variable {} (env)", words.text(name))));
        lines.extend(loaded.dotenv.names().map(|name| format!("takes the variable {} from .env", words.text(name))));
        lines.extend(config.providers.iter().filter_map(|(name, provider)| words.provider(name, provider)));
        for (name, server) in &config.mcp_servers {
            lines.extend(words.program(name, server));
            lines.extend(words.outside(name, server));
        }
        lines.extend(words.volumes(config));
        lines.extend(words.definitions(config));
        lines.extend(words.prompts(config));
        lines.extend(words.folders(config));
        lines.extend(words.commands(config));
        lines.extend(words.requests(config));
        lines.extend(words.clis(config));
        if !listen_address(&config.listen).is_some_and(|address| address.ip().is_loopback()) {
            lines.insert(format!("listens on {}, which other machines may reach (listen)", words.text(&config.listen)));
        }
        Self(lines)
    }

    /// One line for each, sorted.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Names the whole list.
    pub(crate) fn digest(&self) -> Digest {
        Digest::of(self.lines().collect::<Vec<_>>().join("\n").as_bytes())
    }
}

/// Writes the lines.
struct Words {
    /// The real folder of the first config file.
    folder: PathBuf,
    /// Values that `${NAME}` put into the config and that are secrets, with their names; longest first.
    secrets: Vec<(String, String)>,
}

impl Words {
    fn of(loaded: &Loaded) -> Self {
        let folder = super::name(&loaded.files).parent().map(Path::to_owned);
        let named = loaded.env_names.iter().filter(|name| environment::sounds_secret(name));
        let value = |name: &String| Some((loaded.variable(name)?, format!("${{{name}}}")));
        let mut secrets: Vec<_> = named.filter_map(value).filter(|(value, _)| value.len() >= SHORTEST_SECRET).collect();
        secrets.sort_by(|left, right| right.0.len().cmp(&left.0.len()).then(left.cmp(right)));
        Self { folder: folder.unwrap_or_default(), secrets }
    }

    /// A text of the config: as it is when it is plain, else quoted. Secrets that `${NAME}` stands for are named, not shown.
    fn text(&self, text: &str) -> String {
        let hidden = self.secrets.iter().fold(text.to_owned(), |text, (value, name)| text.replace(value, name));
        let plain = |sign: char| sign.is_ascii_alphanumeric() || "_-./:@%+=~*?&#[]${}".contains(sign);
        match !hidden.is_empty() && hidden.chars().all(plain) {
            true => hidden,
            false => format!("{hidden:?}"),
        }
    }

    fn path(&self, path: &Path) -> String {
        self.text(&real(path).to_string_lossy())
    }

    fn provider(&self, name: &str, provider: &ProviderConfig) -> Option<String> {
        let address = self.text(provider.base_url.as_deref().or(usual_address(provider.driver))?);
        let name = self.text(name);
        Some(match &provider.api_key_env {
            Some(key) => format!("sends prompts and the key in {} to {address} (providers.{name})", self.text(key)),
            None => format!("sends prompts to {address}, without a key (providers.{name})"),
        })
    }

    /// A server that is a program.
    fn program(&self, name: &str, server: &McpServerConfig) -> Option<String> {
        server.command.first()?;
        let command: Vec<String> = server.command.iter().map(|word| self.text(word)).collect();
        let folder = server.cwd.as_ref().map(|cwd| format!(", in {}", self.path(cwd))).unwrap_or_default();
        let given = server.env.iter().map(|(child, variable)| match child == variable {
            true => self.text(child),
            false => format!("{} from {}", self.text(child), self.text(variable)),
        });
        let given = given.collect::<Vec<_>>().join(", ");
        let given = if given.is_empty() { given } else { format!(", with the variables {given}") };
        Some(format!("starts the program `{}`{folder}{given} (mcp_servers.{})", command.join(" "), self.text(name)))
    }

    /// A server that is elsewhere.
    fn outside(&self, name: &str, server: &McpServerConfig) -> Option<String> {
        let address = self.text(server.url.as_deref()?);
        let headers = server.headers_env.iter().map(|(header, variable)| {
            format!("the header {} from the variable {}", self.text(header), self.text(variable))
        });
        let bearer = server.bearer_env.iter().map(|variable| format!("the token in {}", self.text(variable)));
        let sent = bearer.chain(headers).collect::<Vec<_>>().join(" and ");
        let sent = if sent.is_empty() { String::new() } else { format!(" and sends it {sent}") };
        Some(format!("calls {address}{sent} (mcp_servers.{})", self.text(name)))
    }

    /// Volumes that agents may change, and those outside the config's folder: what agents read goes to the providers.
    fn volumes(&self, config: &Config) -> impl Iterator<Item = String> {
        config.volumes.iter().filter_map(|(name, volume)| {
            let path = Path::new(&volume.path);
            let what = match volume.mode {
                Some(VolumeMode::Rw) => "changes",
                Some(VolumeMode::Ro) | None if real(path).starts_with(&self.folder) => return None,
                Some(VolumeMode::Ro) | None => "reads",
            };
            Some(format!("{what} files in {} (volumes.{})", self.path(path), self.text(name)))
        })
    }

    /// What agents that are defined at runtime may use beside the server's own store.
    fn definitions(&self, config: &Config) -> Vec<String> {
        let (usual, granted) = (Grant::default(), &config.definitions.grant);
        let list = |names: &[String]| names.iter().map(|name| self.text(name)).collect::<Vec<_>>().join(", ");
        let mut lines = Vec::new();
        let tools: Vec<String> = granted.tools.iter().filter(|tool| !usual.tools.contains(tool)).cloned().collect();
        let grants =
            [("tools", &tools), ("volumes", &granted.volumes), ("hosts", &granted.hosts), ("agents", &granted.agents)];
        for (key, names) in grants.into_iter().filter(|(_, names)| !names.is_empty()) {
            lines.push(format!("lets agents that callers define use {key}: {} (definitions.grant.{key})", list(names)));
        }
        for parent in &config.definitions.volumes_under {
            let what = if parent.mode == Some(VolumeMode::Rw) { "change" } else { "read" };
            let path = self.path(Path::new(&parent.path));
            lines.push(format!(
                "lets callers define volumes in which agents {what} files of {path} (definitions.volumes_under)"
            ));
        }
        lines
    }

    /// Prompts that are read from files outside the config's folder: their text goes to the providers.
    fn prompts(&self, config: &Config) -> impl Iterator<Item = String> {
        config.agents.iter().filter_map(|(name, agent)| {
            let file =
                agent.system_prompt_file.as_deref().map(Path::new).filter(|file| !file.as_os_str().is_empty())?;
            let is_outside = !real(file).starts_with(&self.folder);
            is_outside.then(|| format!("reads {} (agents.{}.system_prompt_file)", self.path(file), self.text(name)))
        })
    }

    /// Sources and skills outside the config's folder: their text goes to the providers.
    fn folders(&self, config: &Config) -> impl Iterator<Item = String> {
        let sources = config.sources.iter().map(|source| (&source.claude, "takes agents from", "sources"));
        let skills = config.skills.directories.iter().map(|path| (path, "takes skills from", "skills.directories"));
        let outside = sources.chain(skills).filter(|(path, ..)| !real(path).starts_with(&self.folder));
        outside.map(|(path, what, key)| format!("{what} {} ({key})", self.path(path)))
    }

    /// The tool Bash: whose commands are run, and what they get besides the volumes.
    fn commands(&self, config: &Config) -> Vec<String> {
        let bash = &config.tools.bash;
        if !bash.enabled {
            return Vec::new();
        }
        let has_bash = |agent: &AgentConfig| agent.tools.iter().flatten().any(|pattern| matches(pattern, "Bash"));
        let reaches_all = |agent: &AgentConfig| agent.hosts.iter().flatten().any(|host| host == "*");
        let agents = config.agents.iter().filter(|(_, agent)| has_bash(agent)).map(|(name, agent)| {
            let network = match bash.network == BashNetwork::Host && reaches_all(agent) {
                true => "with this machine's network",
                false => "without network",
            };
            format!("runs the commands of agent {} (Bash), {network}", self.text(name))
        });
        let readable = bash.readable_paths.iter().map(|path| (path, "read", "readable_paths"));
        let writable = bash.writable_paths.iter().map(|path| (path, "change", "writable_paths"));
        let paths = readable
            .chain(writable)
            .map(|(path, what, key)| format!("lets commands {what} {} (tools.bash.{key})", self.path(path)));
        let variables =
            bash.env.iter().map(|name| format!("gives commands the variable {} (tools.bash.env)", self.text(name)));
        agents.chain(paths).chain(variables).collect()
    }

    /// Coding CLIs, which run with their own login and reach the network.
    fn clis(&self, config: &Config) -> Vec<String> {
        let agents = config.agents.iter().filter(|(_, agent)| agent.executor.as_deref() == Some(EXECUTOR));
        let mut lines: Vec<String> = agents
            .map(|(name, agent)| {
                let cli = self.text(agent.provider.as_deref().unwrap_or_default());
                format!("runs the coding CLI {cli} with its login, for agent {}", self.text(name))
            })
            .collect();
        for (name, cli) in &config.clis {
            let key = format!("clis.{}", self.text(name));
            let mut more = |what: String, below: &str| lines.push(format!("{what} ({key}.{below})"));
            if let Some(command) = &cli.command {
                let command: Vec<String> = command.iter().map(|word| self.text(word)).collect();
                more(format!("starts the program `{}` as a coding CLI", command.join(" ")), "command");
            }
            if let Some(program) = &cli.program {
                more(format!("starts the program {} as a coding CLI", self.text(program)), "program");
            }
            let arguments = [
                ("args", Some(&cli.args)),
                ("read_only_args", cli.read_only_args.as_ref()),
                ("edit_args", cli.edit_args.as_ref()),
                ("skip_permissions_args", cli.skip_permissions_args.as_ref()),
            ];
            for (below, args) in arguments.into_iter().filter_map(|(below, args)| Some((below, args?))) {
                let args: Vec<String> = args.iter().map(|word| self.text(word)).collect();
                if !args.is_empty() {
                    more(format!("gives the coding CLI the arguments {}", args.join(" ")), below);
                }
            }
            cli.env
                .iter()
                .for_each(|name| more(format!("gives the coding CLI the variable {}", self.text(name)), "env"));
            cli.readable_paths
                .iter()
                .for_each(|path| more(format!("lets the coding CLI read {}", self.path(path)), "readable_paths"));
            cli.writable_paths
                .iter()
                .for_each(|path| more(format!("lets the coding CLI change {}", self.path(path)), "writable_paths"));
            if cli.unconfined {
                more("runs the coding CLI without confinement".to_owned(), "unconfined");
            }
        }
        lines
    }

    /// The tools HTTP and WebFetch.
    fn requests(&self, config: &Config) -> Vec<String> {
        let http = &config.tools.http;
        if http.hosts.is_empty() {
            return Vec::new();
        }
        let hosts =
            http.hosts.iter().map(|host| format!("sends requests of agents to {} (tools.http.hosts)", self.text(host)));
        let private = http.private_hosts.iter().map(|host| {
            format!(
                "sends requests of agents to {} at private addresses too (tools.http.private_hosts)",
                self.text(host)
            )
        });
        hosts.chain(private).collect()
    }
}

/// The path without links, as far as it exists.
fn real(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let found = path.ancestors().find_map(|above| {
        let missing = path.strip_prefix(above).unwrap_or(Path::new(""));
        Some(above.canonicalize().ok()?.join(missing))
    });
    // `join` with nothing leaves a slash at the end.
    found.map_or(path, |found| found.components().collect())
}

#[cfg(test)]
mod tests;
