//! The hosts that are known: where their config is, and how it names a server. One line of the list each.

use std::path::{Path, PathBuf};

use clap::ValueEnum as _;
use serde_json::{Value, json};

use super::{Name, Scope, common};
use crate::{environment, exit::CommandError};

/// How long hosts that have a limit of a call wait at least, in seconds. A goal that is not detached takes that long and longer.
const TIMEOUT_SECONDS: u64 = 600;

/// The same for hosts that count milliseconds.
const TIMEOUT_MS: u64 = TIMEOUT_SECONDS * 1000;

/// For Claude Code, whose limit is hard: progress does not extend it, and without one a call over stdio can take longer than a day.
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// How a host starts the proxy.
pub(super) struct Server {
    pub(super) program: String,
    pub(super) args: Vec<String>,
    /// Variables of the host's environment that it needs: the token, and the keys of models.
    pub(super) variables: Vec<String>,
    /// The address of another machine's server, which likely wants a token.
    pub(super) upstream: Option<String>,
}

/// The directories of this machine.
pub(super) struct Places {
    pub(super) home: PathBuf,
    pub(super) config: PathBuf,
    pub(super) codex: PathBuf,
    /// The file that `CLINE_MCP_SETTINGS_PATH` names.
    pub(super) cline: Option<PathBuf>,
    pub(super) project: PathBuf,
}

impl Places {
    pub(super) fn of_this_machine() -> Result<Self, CommandError> {
        let home = environment::home().ok_or_else(|| {
            CommandError::usage("no_home", "no home directory, so no config of an MCP host can be found")
                .with_hint("set HOME")
        })?;
        Ok(Self {
            config: environment::config_home().unwrap_or_else(|| home.join(".config")),
            codex: environment::variable("CODEX_HOME").map_or_else(|| home.join(".codex"), PathBuf::from),
            cline: environment::variable("CLINE_MCP_SETTINGS_PATH").map(PathBuf::from),
            project: PathBuf::from("."),
            home,
        })
    }
}

/// How a config file is written, and where in it servers are.
#[derive(Debug, Clone, Copy)]
pub(super) enum Form {
    /// JSON, perhaps with comments, and the key of the object that holds the servers.
    Json(&'static str),
    /// TOML, and the table that holds the servers.
    Toml(&'static str),
}

/// A host.
pub(super) struct Client {
    pub(super) name: Name,
    pub(super) title: &'static str,
    /// Its programs: one of them in the path means that it is here.
    programs: &'static [&'static str],
    /// Its config file; nothing, when there is none of that scope.
    pub(super) file: fn(&Places, Scope) -> Option<PathBuf>,
    pub(super) format: Form,
    pub(super) entry: fn(&Server) -> Value,
    /// Its own command that does the same, as words.
    pub(super) command: fn(&Server, Scope) -> Option<Vec<String>>,
}

impl Client {
    /// Its name on the command line.
    pub(super) fn word(&self) -> String {
        self.name.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// All of them.
pub(super) static CLIENTS: &[Client] = &[
    Client {
        name: Name::Claude,
        title: "Claude Code",
        programs: &["claude"],
        file: |places, scope| by_scope(scope, places.home.join(".claude.json"), places.project.join(".mcp.json")),
        format: Form::Json("mcpServers"),
        entry: |server| json!({ "type": "stdio", "command": server.program, "args": server.args, "env": {}, "timeout": DAY_MS }),
        command: |server, scope| {
            let scope = if scope == Scope::User { "user" } else { "project" };
            Some(words(&["claude", "mcp", "add", "--scope", scope, "drawloom", "--"], server))
        },
    },
    Client {
        name: Name::Codex,
        title: "Codex",
        programs: &["codex"],
        file: |places, scope| {
            by_scope(scope, places.codex.join("config.toml"), places.project.join(".codex/config.toml"))
        },
        format: Form::Toml("mcp_servers"),
        // It hands on only a few variables of its own environment, and those that it is told to.
        entry: |server| {
            json!({
                "command": server.program, "args": server.args, "env_vars": server.variables,
                "tool_timeout_sec": TIMEOUT_SECONDS,
            })
        },
        command: |_, _| None,
    },
    Client {
        name: Name::Opencode,
        title: "opencode",
        programs: &["opencode"],
        file: |places, scope| {
            let either = |directory: &Path| {
                let commented = directory.join("opencode.jsonc");
                if commented.exists() { commented } else { directory.join("opencode.json") }
            };
            by_scope(scope, either(&places.config.join("opencode")), either(&places.project))
        },
        format: Form::Json("mcp"),
        entry: |server| {
            let command: Vec<&String> = [&server.program].into_iter().chain(&server.args).collect();
            json!({ "type": "local", "enabled": true, "command": command, "timeout": TIMEOUT_MS })
        },
        command: |_, _| None,
    },
    Client {
        name: Name::Cursor,
        title: "Cursor",
        programs: &["cursor", "cursor-agent"],
        file: |places, scope| {
            by_scope(scope, places.home.join(".cursor/mcp.json"), places.project.join(".cursor/mcp.json"))
        },
        format: Form::Json("mcpServers"),
        entry: common,
        command: |_, _| None,
    },
    Client {
        name: Name::Vscode,
        title: "VS Code",
        programs: &["code"],
        file: |places, scope| {
            by_scope(scope, places.config.join("Code/User/mcp.json"), places.project.join(".vscode/mcp.json"))
        },
        format: Form::Json("servers"),
        entry: |server| json!({ "type": "stdio", "command": server.program, "args": server.args }),
        command: |server, scope| {
            let whole = json!({ "name": "drawloom", "command": server.program, "args": server.args });
            (scope == Scope::User).then(|| vec!["code".into(), "--add-mcp".into(), whole.to_string()])
        },
    },
    Client {
        name: Name::Gemini,
        title: "Gemini CLI",
        programs: &["gemini"],
        file: |places, scope| {
            by_scope(scope, places.home.join(".gemini/settings.json"), places.project.join(".gemini/settings.json"))
        },
        format: Form::Json("mcpServers"),
        entry: |server| json!({ "command": server.program, "args": server.args, "timeout": TIMEOUT_MS }),
        command: |server, scope| {
            let scope = if scope == Scope::User { "user" } else { "project" };
            // Its command would take our options for its own.
            let plain = server.args.iter().all(|arg| !arg.starts_with('-'));
            plain.then(|| words(&["gemini", "mcp", "add", "--scope", scope, "drawloom"], server))
        },
    },
    Client {
        name: Name::Zed,
        title: "Zed",
        programs: &["zed", "zeditor"],
        file: |places, scope| (scope == Scope::User).then(|| places.config.join("zed/settings.json")),
        format: Form::Json("context_servers"),
        entry: |server| json!({ "command": server.program, "args": server.args, "env": {}, "timeout": TIMEOUT_SECONDS }),
        command: |_, _| None,
    },
    Client {
        name: Name::Windsurf,
        title: "Windsurf",
        programs: &["windsurf"],
        file: |places, scope| (scope == Scope::User).then(|| places.home.join(".codeium/windsurf/mcp_config.json")),
        format: Form::Json("mcpServers"),
        entry: common,
        command: |_, _| None,
    },
    Client {
        name: Name::Cline,
        title: "Cline",
        programs: &["cline"],
        file: |places, scope| (scope == Scope::User).then(|| cline_file(places)),
        format: Form::Json("mcpServers"),
        entry: |server| json!({ "command": server.program, "args": server.args, "timeout": TIMEOUT_SECONDS }),
        command: |_, _| None,
    },
];

/// The settings of Cline: the file that its variable names, else that of the extension of VS Code, unless only the command line's is there.
fn cline_file(places: &Places) -> PathBuf {
    let name = "cline_mcp_settings.json";
    let extension = places.config.join("Code/User/globalStorage/saoudrizwan.claude-dev/settings").join(name);
    let command_line = places.home.join(".cline/data/settings").join(name);
    let usual = if command_line.exists() && !extension.exists() { command_line } else { extension };
    places.cline.clone().unwrap_or(usual)
}

/// The host of this name.
pub(super) fn of(name: Name) -> &'static Client {
    CLIENTS.iter().find(|client| client.name == name).expect("a test looks for every name")
}

/// Whether a host is on this machine: its program is in the path, or its config file is there.
pub(super) fn is_found(client: &Client, places: &Places) -> bool {
    let installed = client.programs.iter().any(|program| environment::find_program(program).is_some());
    installed || (client.file)(places, Scope::User).is_some_and(|file| file.exists())
}

fn by_scope(scope: Scope, user: PathBuf, project: PathBuf) -> Option<PathBuf> {
    Some(match scope {
        Scope::User => user,
        Scope::Project => project,
    })
}

fn words(first: &[&str], server: &Server) -> Vec<String> {
    let first = first.iter().map(|word| (*word).to_owned());
    first.chain([server.program.clone()]).chain(server.args.iter().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_its_client() {
        for name in Name::value_variants() {
            assert_eq!(of(*name).name, *name);
        }
    }
}
