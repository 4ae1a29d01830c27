//! `drawloom mcp uninstall`: the reverse of `mcp install`. Only the entry that starts this program, and plugin files as they were written, are
//! removed.

use std::path::{Path, PathBuf};

use clap::Args;
use drawloom_substrate::files;
use jsonc_parser::cst::CstRootNode;
use serde_json::{Value, json};
use similar::TextDiff;
use toml_edit::DocumentMut;

use super::{
    MAX_BYTES, Name, Scope, agreed,
    clients::{self, CLIENTS, Client, Form, Places},
    edit, mask, plugin, write,
};
use crate::{
    cli::Look,
    commands::Session,
    exit::{CommandError, Exit},
    output::{Column, Format, Text},
};

/// Disconnect an MCP host: show or remove what `mcp install` wrote
#[derive(Debug, Args)]
pub(crate) struct Uninstall {
    /// Disconnect this host [default: list the hosts that are connected]
    #[arg(long, value_name = "CLIENT", value_enum)]
    client: Option<Name>,
    /// Show the change and write it to the host's config file
    #[arg(long, requires = "client")]
    write: bool,
    /// Change the config of this user, or of this project
    #[arg(long, value_name = "SCOPE", value_enum, default_value_t = Scope::User)]
    scope: Scope,
    /// Write without asking
    #[arg(long, requires = "write")]
    yes: bool,
    /// Remove a Claude Code plugin that `mcp install --plugin` wrote; files that you edited stay
    #[arg(long, value_name = "DIR", requires = "client", conflicts_with = "write")]
    plugin: Option<PathBuf>,
    /// The format of the output.
    #[command(flatten)]
    pub(in crate::commands::mcp) look: Look,
}

/// What is in a host's config file.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    Absent,
    /// It starts something else, or leads to a server elsewhere.
    Others,
    /// The text of the file without it.
    Ours(String),
}

/// A config file as it is, and the entry in it.
struct Found {
    file: PathBuf,
    before: String,
    entry: Entry,
}

impl Uninstall {
    pub(crate) fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let places = Places::of_this_machine()?;
        if let Some(folder) = &self.plugin {
            return plugin::uninstall(session, folder);
        }
        match self.client.map(clients::of) {
            None => self.list(session, &places),
            Some(client) => self.remove(session, client, &places),
        }
    }

    /// The hosts that have an entry of ours, in either scope.
    fn list(&self, session: &Session, places: &Places) -> Result<Exit, CommandError> {
        let (mut rows, mut seen) = (Vec::new(), Vec::new());
        for client in CLIENTS {
            for (scope, word) in [(Scope::User, "user"), (Scope::Project, "project")] {
                let Ok(Found { file, entry: Entry::Ours(_), .. }) = find(client, places, scope) else { continue };
                // In the home directory the file of the user and that of the project can be the same.
                let real = file.canonicalize().unwrap_or_else(|_| file.clone());
                if !seen.contains(&real) {
                    seen.push(real);
                    rows.push((client.word(), word, file.display().to_string()));
                }
            }
        }
        let output = &session.output;
        match output.format() {
            Format::Json => {
                let row = |(client, scope, file): &(String, &str, String)| json!({ "client": client, "scope": scope, "file": file });
                output.json(&json!({ "clients": rows.iter().map(row).collect::<Vec<Value>>() }));
            }
            Format::Human if rows.is_empty() => output.line("no MCP host is connected"),
            Format::Human => {
                let columns = [Column::new("client"), Column::new("scope"), Column::new("file").shrinks_to(12)];
                let row = |(client, scope, file): &(String, &str, String)| {
                    [Text::new(client), Text::new(*scope), Text::new(file)]
                };
                output.table(columns, rows.iter().map(row));
                output.line(
                    "\n`drawloom mcp uninstall --client CLIENT` shows what would be removed, `--write` removes it.",
                );
            }
        }
        Ok(Exit::Done)
    }

    fn remove(&self, session: &Session, client: &Client, places: &Places) -> Result<Exit, CommandError> {
        let output = &session.output;
        let human = output.format() == Format::Human;
        loop {
            let found = find(client, places, self.scope)?;
            let name = found.file.display().to_string();
            let after = match &found.entry {
                Entry::Ours(after) => after,
                Entry::Others => {
                    let message = format!("the entry drawloom in {name} does not start this program");
                    return Err(CommandError::usage("entry_of_others", message)
                        .with_hint("`drawloom mcp install` did not write it; remove it by hand"));
                }
                Entry::Absent => {
                    match human {
                        true => output.line(format!("{name} has no entry of drawloom.")),
                        false => output.json(&json!({ "client": client.word(), "file": found.file, "removed": false })),
                    }
                    return Ok(Exit::Done);
                }
            };
            if human {
                let (before, after) = (mask::masked(&found.before, client.format), mask::masked(after, client.format));
                let diff = TextDiff::from_lines(&before, &after);
                output.write(&diff.unified_diff().context_radius(3).header(&name, &name).to_string());
            }
            if !self.write {
                match human {
                    true => output.line(format!("\n{} removes it.", self.write_command(client))),
                    false => output.json(
                        &json!({ "client": client.word(), "file": found.file, "removed": false, "would_remove": true }),
                    ),
                }
                return Ok(Exit::Done);
            }
            if !self.yes && !agreed(session, &format!("Write {name}?"))? {
                output.note("nothing was written");
                return Ok(Exit::Failed);
            }
            // Hosts write their files too, and a question can stay open for long.
            if find(client, places, self.scope)?.before != found.before {
                output.note(format!("{name} changed in the meantime"));
                continue;
            }
            // A link belongs to the user.
            let is_last = is_empty(after, client.format) && !found.file.is_symlink();
            let written = match is_last {
                true => std::fs::remove_file(&found.file),
                false => write(&found.file, after, self.scope),
            };
            written.map_err(|error| {
                CommandError::failed("cannot_write", format!("{name}: {error}"))
                    .with_hint("make the file and its directory writable")
            })?;
            match human {
                true => output.line(format!("{} is disconnected; restart it.", client.title)),
                false => output.json(&json!({
                    "client": client.word(), "file": found.file, "removed": true, "file_removed": is_last,
                })),
            }
            if human && is_last {
                output.line(format!("Removed {name}, which held nothing else."));
            }
            return Ok(Exit::Done);
        }
    }

    fn write_command(&self, client: &Client) -> String {
        let scope = if self.scope == Scope::Project { " --scope project" } else { "" };
        format!("`drawloom mcp uninstall --client {}{scope} --write`", client.word())
    }
}

/// The config file of a host, and our entry in it.
fn find(client: &Client, places: &Places, scope: Scope) -> Result<Found, CommandError> {
    let file = (client.file)(places, scope).ok_or_else(|| {
        CommandError::usage("no_scope", format!("{} has no config file for a project", client.title))
            .with_hint("use --scope user")
    })?;
    let before = match files::read_text(&file, MAX_BYTES) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(CommandError::usage("bad_file", format!("{}: {error}", file.display()))),
    };
    let entry = match edit::find(&before, client.format) {
        None => Entry::Absent,
        Some(entry) if !is_ours(&entry) => Entry::Others,
        Some(_) => Entry::Ours(without(&before, client.format).map_err(|why| {
            CommandError::usage("bad_file", format!("{} was not changed: {why}", file.display()))
                .with_hint("fix it, or remove the entry by hand")
        })?),
    };
    Ok(Found { file, before, entry })
}

/// Whether an entry starts the proxy of this program.
fn is_ours(entry: &Value) -> bool {
    let words = |key: &str| match &entry[key] {
        Value::String(word) => vec![word.clone()],
        Value::Array(words) => words.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    let all = [words("command"), words("args")].concat();
    let own = std::env::current_exe().ok().and_then(|path| path.file_name().map(std::ffi::OsStr::to_owned));
    all.windows(2).any(|pair| {
        let program = Path::new(&pair[0]).file_name();
        pair[1] == "mcp" && (program == Some("drawloom".as_ref()) || program == own.as_deref())
    })
}

/// Whether a config file holds nothing, also no comment.
fn is_empty(text: &str, form: Form) -> bool {
    let (_, text) = edit::split_mark(text);
    let plain: String = text.split_whitespace().collect();
    plain.is_empty() || (matches!(form, Form::Json(_)) && plain == "{}")
}

/// The text without our entry, and without the object that held only that.
fn without(text: &str, form: Form) -> Result<String, String> {
    let (mark, text) = edit::split_mark(text);
    let after = match form {
        Form::Json(key) => {
            let root =
                CstRootNode::parse(text, &edit::json_options()).map_err(|error| format!("it is not JSON: {error}"))?;
            let servers = root.object_value().and_then(|whole| whole.get(key)).ok_or("it has no entry")?;
            let object = servers.object_value().ok_or("it has no entry")?;
            object.get(edit::NAME).ok_or("it has no entry")?.remove();
            if object.children().iter().all(|child| child.is_token() || child.is_whitespace() || child.is_newline()) {
                servers.remove();
            }
            root.to_string()
        }
        Form::Toml(key) => {
            let mut document: DocumentMut = text.parse().map_err(|error| format!("it is not TOML: {error}"))?;
            let servers =
                document.get_mut(key).and_then(|servers| servers.as_table_like_mut()).ok_or("it has no entry")?;
            servers.remove(edit::NAME).ok_or("it has no entry")?;
            if servers.is_empty() {
                document.remove(key);
            }
            document.to_string()
        }
    };
    Ok(format!("{mark}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_install_put_in_is_taken_out_again_and_nothing_else() {
        let entry = json!({ "command": "drawloom", "args": ["mcp"] });
        let json = "{\n  // mine\n  \"mcpServers\": {\n    \"other\": { \"command\": \"x\" } // which\n  },\n  \"theme\": 1\n}\n";
        let toml = "# mine\nmodel = \"m\"\n\n[mcp_servers.other]\ncommand = 'x' # which\n\n[tail]\nx = 1\n";
        for (text, form) in [
            (json, Form::Json("mcpServers")),
            ("{\n  \"theme\": 1\n}\n", Form::Json("mcpServers")),
            (toml, Form::Toml("mcp_servers")),
            ("model = \"m\"\n", Form::Toml("mcp_servers")),
        ] {
            let (with, _) = edit::put(text, form, &entry).expect("a config");
            assert_ne!(with, text);
            assert_eq!(without(&with, form).expect("an entry"), text);
        }
        let bare = edit::put("", Form::Json("mcp"), &entry).expect("a config").0;
        assert!(is_empty(&without(&bare, Form::Json("mcp")).expect("an entry"), Form::Json("mcp")));
        assert!(!is_empty("{ // mine\n}", Form::Json("mcp")) && !is_empty("# mine", Form::Toml("mcp")));
    }

    #[test]
    fn an_entry_that_starts_something_else_is_not_ours() {
        assert!(is_ours(&json!({ "command": "/opt/bin/drawloom", "args": ["mcp", "--config", "x"] })));
        assert!(is_ours(&json!({ "command": ["drawloom", "mcp"] })));
        for other in [json!({ "command": "npx", "args": ["drawloom"] }), json!({ "url": "http://x" }), json!(7)] {
            assert!(!is_ours(&other), "{other}");
        }
    }
}
