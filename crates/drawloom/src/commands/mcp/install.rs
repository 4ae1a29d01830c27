//! `drawloom mcp install`: the config of MCP hosts, printed or written.

mod clients;
mod edit;
mod mask;
mod plugin;
mod uninstall;

use std::{
    collections::BTreeSet,
    io::{BufRead as _, IsTerminal as _, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use clap::{Args, ValueEnum};
use drawloom_substrate::files;
use serde_json::{Value, json};
use similar::TextDiff;

use clients::{CLIENTS, Client, Places, Server};

pub(super) use uninstall::Uninstall;

use super::Connection;
use crate::{
    cli::Look,
    commands::Session,
    config, environment,
    exit::{CommandError, Exit},
    output::{Column, Format, Style, Text},
};

/// Connect an MCP host: print or write its config
#[derive(Debug, Args)]
pub(crate) struct Install {
    /// Connect this host [default: list the hosts on this machine]
    #[arg(long, value_name = "CLIENT", value_enum)]
    client: Option<Name>,
    /// Show the change and write it to the host's config file
    #[arg(long, requires = "client")]
    write: bool,
    /// Write the config of this user, or of this project
    #[arg(long, value_name = "SCOPE", value_enum, default_value_t = Scope::User)]
    scope: Scope,
    /// Write without asking
    #[arg(long, requires = "write")]
    yes: bool,
    /// Write a Claude Code plugin instead: the MCP server, a skill and two commands [default: a folder per project in the XDG data directory]
    #[arg(long, value_name = "DIR", num_args = 0..=1, requires = "client", conflicts_with = "write")]
    plugin: Option<Option<PathBuf>>,
    /// Replace plugin files that you edited
    #[arg(long, requires = "plugin")]
    force: bool,
    /// The format of the output.
    #[command(flatten)]
    pub(super) look: Look,
}

/// Bytes of a host's config file that are read: some hosts keep whole conversations in it.
const MAX_BYTES: u64 = 256 * 1024 * 1024;

/// The most links that are followed to a config file, as the system does.
const MOST_LINKS: usize = 40;

/// A host, as it is named on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Name {
    Claude,
    Codex,
    Opencode,
    Cursor,
    Vscode,
    Gemini,
    Zed,
    Windsurf,
    Cline,
}

/// Where a host's config holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Scope {
    User,
    Project,
}

/// What a config file says of us.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Absent,
    /// The config of the other project.
    OtherProject(String),
    /// The fields of our entry that are not as they would be written.
    OtherSettings(Vec<String>),
    Same,
}

impl State {
    /// What an entry that is in the file says, when it is not ours.
    fn of_other(found: &Value, wanted: &Value) -> Self {
        match (config_of(found), config_of(wanted)) {
            (Some(theirs), ours) if ours.as_ref() != Some(&theirs) => Self::OtherProject(theirs),
            _ => {
                let differs = |(name, value): (&String, &Value)| {
                    let is_enough = found.get(name).is_some_and(|found| edit::is_enough(found, value));
                    (!is_enough).then(|| name.clone())
                };
                Self::OtherSettings(wanted.as_object().into_iter().flatten().filter_map(differs).collect())
            }
        }
    }

    fn describe(&self) -> String {
        match self {
            Self::Absent => "not configured".into(),
            Self::OtherProject(config) => format!("configured for another project: {config}"),
            Self::OtherSettings(fields) if fields.is_empty() => "configured with other settings".into(),
            Self::OtherSettings(fields) => format!("configured with other settings: {}", fields.join(", ")),
            Self::Same => "configured".into(),
        }
    }
}

/// The config that an entry of a host names.
fn config_of(entry: &Value) -> Option<String> {
    let words = |key: &str| entry[key].as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut words = words("command").chain(words("args")).skip_while(|word| *word != "--config");
    words.nth(1).map(str::to_owned)
}

/// A host whose entry names a config.
pub(crate) struct HostOf {
    pub(crate) client: String,
    pub(crate) file: PathBuf,
}

/// The hosts of this user whose entries start a server of `config`.
pub(crate) fn hosts_of(config: &Path) -> Vec<HostOf> {
    let Ok(places) = Places::of_this_machine() else { return Vec::new() };
    let named = CLIENTS.iter().filter_map(|client| {
        let file = (client.file)(&places, Scope::User)?;
        let entry = edit::find(&files::read_text(&file, MAX_BYTES).ok()?, client.format)?;
        (Path::new(&config_of(&entry)?) == config).then(|| HostOf { client: client.word(), file })
    });
    named.collect()
}

/// A client's config file, as it is and as it would be.
struct Plan {
    file: PathBuf,
    before: String,
    after: String,
    state: State,
}

impl Install {
    pub(crate) fn perform(self, session: &Session, connection: &Connection) -> Result<Exit, CommandError> {
        let places = Places::of_this_machine()?;
        let server = server(session, connection, self.scope)?;
        if let Some(folder) = &self.plugin {
            return self.write_plugin(session, &server, folder.as_deref());
        }
        match self.client.map(clients::of) {
            None => self.list(session, &places, &server),
            Some(client) if self.write => self.write(session, client, &places, &server),
            Some(client) => self.show(session, client, &places, &server),
        }
    }

    fn write_plugin(&self, session: &Session, server: &Server, folder: Option<&Path>) -> Result<Exit, CommandError> {
        if let Some(client) = self.client.filter(|name| *name != Name::Claude).map(clients::of) {
            let message = format!("--plugin works only for Claude Code, not for {}", client.title);
            return Err(CommandError::usage("no_plugin", message)
                .with_hint(format!("use --client claude, or `--client {} --write`", client.word())));
        }
        let edited = if self.force { plugin::Edited::Replace } else { plugin::Edited::Keep };
        plugin::install(session, server, folder, self.scope, edited)
    }

    fn plan(&self, client: &Client, places: &Places, server: &Server) -> Result<Plan, CommandError> {
        let file = (client.file)(places, self.scope).ok_or_else(|| {
            CommandError::usage("no_scope", format!("{} has no config file for a project", client.title))
                .with_hint("use --scope user")
        })?;
        let before = match files::read_text(&file, MAX_BYTES) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(CommandError::usage("bad_file", format!("{}: {error}", file.display()))),
        };
        let wanted = (client.entry)(server);
        let edited = edit::put(&before, client.format, &wanted);
        let (after, was_there) = edited.map_err(|why| {
            CommandError::usage("bad_file", format!("{} was not changed: {why}", file.display()))
                .with_hint("fix it, or add the server by hand")
        })?;
        let state = match was_there {
            false => State::Absent,
            true if after == before => State::Same,
            true => State::of_other(&edit::find(&before, client.format).unwrap_or_default(), &wanted),
        };
        Ok(Plan { file, before, after, state })
    }

    fn list(&self, session: &Session, places: &Places, server: &Server) -> Result<Exit, CommandError> {
        let found: Vec<&Client> = CLIENTS.iter().filter(|client| clients::is_found(client, places)).collect();
        let mut rows = Vec::new();
        for client in found {
            let (file, state) = match self.plan(client, places, server) {
                Ok(plan) => (plan.file.display().to_string(), plan.state.describe()),
                Err(error) => (String::new(), error.message),
            };
            rows.push((client, file, state));
        }
        let output = &session.output;
        if output.format() == Format::Json {
            let row = |(client, file, state): &(&Client, String, String)| json!({ "client": client.word(), "file": file, "state": state });
            output.json(&json!({ "clients": rows.iter().map(row).collect::<Vec<_>>() }));
            return Ok(Exit::Done);
        }
        let known: Vec<String> = CLIENTS.iter().map(Client::word).collect();
        if rows.is_empty() {
            output.line(format!("No known MCP host found on this machine. Known hosts: {}.", known.join(", ")));
        } else {
            let columns = [Column::new("client"), Column::new("state"), Column::new("file").shrinks_to(12)];
            let row = |(client, file, state): &(&Client, String, String)| {
                [Text::new(client.word()), Text::new(state), Text::new(file)]
            };
            output.table(columns, rows.iter().map(row));
        }
        output.line("\n`drawloom mcp install --client CLIENT` prints its config, `--write` writes it to the file.");
        Ok(Exit::Done)
    }

    fn show(&self, session: &Session, client: &Client, places: &Places, server: &Server) -> Result<Exit, CommandError> {
        let plan = self.plan(client, places, server)?;
        let command = (client.command)(server, self.scope).map(|words| shell_line(&words));
        let snippet = edit::put("", client.format, &(client.entry)(server)).map(|(text, _)| text).unwrap_or_default();
        let output = &session.output;
        if output.format() == Format::Json {
            output.json(&json!({
                "client": client.word(), "file": plan.file, "state": plan.state.describe(), "command": command,
                "snippet": snippet,
            }));
            return Ok(Exit::Done);
        }
        output.line(format!("{} needs this in {}:\n", client.title, plan.file.display()));
        output.line(snippet.trim_end());
        output.line("");
        if server.upstream.is_some() {
            output.line("The token is read from DRAWLOOM_TOKEN in the environment of the client.");
        } else if server.variables.len() > 1 {
            let names = server.variables[1..].join(", ");
            output.line(format!("The server gets {names} from the environment of the client."));
        }
        match plan.state {
            State::Same => output.line("The file already has it."),
            State::Absent => output.line(format!("{} writes it there and keeps the rest.", self.write_command(client))),
            State::OtherProject(config) => {
                let replaces = format!("replaces its connection to {config}");
                output.line(format!("{} {replaces} and keeps the rest.", self.write_command(client)));
            }
            State::OtherSettings(_) => {
                output.line(format!("{} changes it there and keeps the rest.", self.write_command(client)));
            }
        }
        if let Some(command) = command {
            output.line(format!("Or run: {}", output.styled(Style::Bold, &command)));
        }
        Ok(Exit::Done)
    }

    /// The command that writes what is shown.
    fn write_command(&self, client: &Client) -> String {
        let scope = if self.scope == Scope::Project { " --scope project" } else { "" };
        format!("`drawloom mcp install --client {}{scope} --write`", client.word())
    }

    fn write(
        &self,
        session: &Session,
        client: &Client,
        places: &Places,
        server: &Server,
    ) -> Result<Exit, CommandError> {
        let mut plan = self.plan(client, places, server)?;
        // Before the file is written, which would look like a host.
        let is_found = clients::is_found(client, places);
        let output = &session.output;
        let human = output.format() == Format::Human;
        let name = plan.file.display().to_string();
        while plan.state != State::Same {
            if human {
                let (before, after) =
                    (mask::masked(&plan.before, client.format), mask::masked(&plan.after, client.format));
                let diff = TextDiff::from_lines(&before, &after);
                output.write(&diff.unified_diff().context_radius(3).header(&name, &name).to_string());
            }
            if let (State::OtherProject(config), true) = (&plan.state, human) {
                output.note(format!("this replaces the entry for {config}"));
            }
            if !self.yes && !agreed(session, &format!("Write {name}?"))? {
                output.note("nothing was written");
                return Ok(Exit::Failed);
            }
            // Hosts write their files too, and a question can stay open for long.
            let now = self.plan(client, places, server)?;
            if now.before != plan.before {
                output.note(format!("{name} changed in the meantime"));
                plan = now;
                continue;
            }
            write(&plan.file, &plan.after, self.scope).map_err(|error| {
                CommandError::failed("cannot_write", format!("{name}: {error}"))
                    .with_hint("make the file and its directory writable")
            })?;
            break;
        }
        match human {
            false => output.json(&json!({
                "client": client.word(), "file": plan.file, "written": plan.state != State::Same,
            })),
            true if plan.state == State::Same => output.line(format!("{name} already has it.")),
            true if is_found => output.line(format!("{} is configured; restart it to use drawloom.", client.title)),
            true => output.line(format!("wrote {name}; {} was not found on this machine", client.title)),
        }
        Ok(Exit::Done)
    }
}

/// How a host starts the proxy.
fn server(session: &Session, connection: &Connection, scope: Scope) -> Result<Server, CommandError> {
    let mut args = vec!["mcp".to_owned()];
    let absolute = |path: &Path| -> Result<String, CommandError> {
        let path = std::path::absolute(path).map_err(|error| CommandError::usage("bad_file", error.to_string()))?;
        Ok(path.display().to_string())
    };
    let globals = &session.globals;
    let upstream = connection.upstream.as_ref().or(globals.url.as_ref());
    let mut variables = vec![environment::TOKEN.to_owned()];
    match upstream {
        Some(url) => {
            refuse_userinfo(url)?;
            // Checked now, because its errors are not seen when a host starts it.
            super::endpoint(url, &connection.toolsets)?;
            args.extend(["--upstream".to_owned(), url.clone()]);
        }
        None => {
            let found = config::find(&globals.config).unwrap_or_default();
            variables.extend(needed_variables(&found));
            // A host of the user may be started anywhere, so the config of this project is named.
            let of_project = config::find_project().filter(|_| scope == Scope::User);
            let is_named = |path: &&PathBuf| !globals.config.is_empty() || of_project.as_ref() == Some(*path);
            for config in found.iter().filter(is_named) {
                args.extend(["--config".to_owned(), absolute(config)?]);
            }
            if let Some(directory) = &globals.data_dir {
                args.extend(["--data-dir".to_owned(), absolute(directory)?]);
            }
        }
    }
    connection.check_toolsets()?;
    if !connection.toolsets.is_empty() {
        args.extend(["--toolsets".to_owned(), connection.toolsets.join(",")]);
    }
    if let Some(seconds) = connection.patience {
        args.extend(["--patience".to_owned(), seconds.to_string()]);
    }
    if !connection.headers.is_empty() {
        refuse_credentials(&connection.headers()?)?;
        args.extend(connection.headers.iter().flat_map(|header| ["--header".to_owned(), header.clone()]));
    }
    Ok(Server { program: program(), args, variables, upstream: upstream.cloned() })
}

/// Refuses an address with a name or a password in it. It is not shown.
fn refuse_userinfo(url: &str) -> Result<(), CommandError> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    match rest.split(['/', '?', '#']).next().is_some_and(|authority| authority.contains('@')) {
        true => Err(would_write_a_secret("the URL of --upstream contains a user name or password")),
        false => Ok(()),
    }
}

/// Refuses headers that are credentials by their names. Their values are not shown.
fn refuse_credentials(headers: &[(String, String)]) -> Result<(), CommandError> {
    let is_credential = |name: &str| environment::sounds_secret(name) || name.contains("cookie");
    match headers.iter().find(|(name, _)| is_credential(name)) {
        Some((name, _)) => Err(would_write_a_secret(&format!("the header {name} is a credential"))),
        None => Ok(()),
    }
}

fn would_write_a_secret(what: &str) -> CommandError {
    CommandError::usage("secret_in_file", format!("{what}, and would be written to the host's config as plain text"))
        .with_hint("remove it, and set DRAWLOOM_TOKEN in the environment of the client: it is sent as the bearer token")
}

/// The variables that a server of this config needs beside the usual token: names under `env`, keys of providers, tokens,
/// and what tools and outside servers are given. None, when it cannot be read.
fn needed_variables(files: &[PathBuf]) -> Vec<String> {
    let Ok(loaded) = config::load_files(files) else { return Vec::new() };
    let config = &loaded.config;
    let mut names: BTreeSet<String> = loaded.env_names.clone();
    names.extend(config.providers.values().filter_map(|provider| provider.api_key_env.clone()));
    names.extend(config.mcp_servers.values().flat_map(|server| server.variables().map(str::to_owned)));
    names.extend(config.tools.bash.env.iter().cloned());
    names.extend(config.principals.values().map(|principal| principal.token_env.clone()));
    names.insert(config.auth.token_env.clone());
    names.remove(environment::TOKEN);
    names.into_iter().collect()
}

/// This program, by its name when that finds it, else by its path.
fn program() -> String {
    let Ok(here) = std::env::current_exe() else { return "drawloom".into() };
    let named = environment::find_program("drawloom").and_then(|path| path.canonicalize().ok());
    match (named, here.canonicalize()) {
        (Some(named), Ok(here)) if named == here => "drawloom".into(),
        _ => here.display().to_string(),
    }
}

fn agreed(session: &Session, question: &str) -> Result<bool, CommandError> {
    let no_answer = || {
        let message = format!("{question} Nothing was written, because stdin is not a terminal to answer on");
        CommandError { exit: Exit::NeedsInput, ..CommandError::usage("no_answer", message) }
            .with_hint("pass --yes to write without asking")
    };
    if !std::io::stdin().is_terminal() {
        return Err(no_answer());
    }
    session.output.write(&format!("{question} [Y/n] "));
    let mut line = String::new();
    match std::io::stdin().lock().read_line(&mut line) {
        Ok(0) | Err(_) => Err(no_answer()),
        Ok(_) => Ok(matches!(line.trim().to_lowercase().as_str(), "" | "y" | "yes")),
    }
}

/// Writes a file whole or not at all, with the rights that it had. Through a link, what it leads to is written. A new file
/// of a project is as others of it are; one of a user is only for that user.
fn write(file: &Path, text: &str, scope: Scope) -> std::io::Result<()> {
    let file = behind_links(file)?;
    let directory = file.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(directory)?;
    let mode = if scope == Scope::Project { 0o666 } else { 0o600 };
    // The user's umask takes from these rights what it takes from those of all files.
    let rights = std::fs::Permissions::from_mode(mode);
    let mut temporary = tempfile::Builder::new().permissions(rights).tempfile_in(directory)?;
    temporary.write_all(text.as_bytes())?;
    if let Ok(found) = std::fs::metadata(&file) {
        temporary.as_file().set_permissions(found.permissions())?;
    }
    temporary.as_file().sync_all()?;
    temporary.persist(&file).map_err(|error| error.error)?;
    Ok(())
}

/// Where a path leads, also when nothing is there yet.
fn behind_links(file: &Path) -> std::io::Result<PathBuf> {
    let mut file = file.to_owned();
    for _ in 0..MOST_LINKS {
        let Ok(next) = std::fs::read_link(&file) else { return Ok(file) };
        file = file.parent().unwrap_or(Path::new(".")).join(next);
    }
    Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "it is a symbolic link to itself"))
}

/// Words as a shell reads them.
fn shell_line(words: &[String]) -> String {
    let quoted = |word: &String| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=,@%+".contains(&byte);
        match !word.is_empty() && word.bytes().all(plain) {
            true => word.clone(),
            false => format!("'{}'", word.replace('\'', r"'\''")),
        }
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// The entry of a host's config that starts `server`, in the form that most share.
fn common(server: &Server) -> Value {
    json!({ "command": server.program, "args": server.args })
}
