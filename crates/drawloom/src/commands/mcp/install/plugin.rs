//! The plugin of Claude Code: a folder with the MCP server of one project, a skill and two commands.
//!
//! A record in the folder has the digest of every file as it was written. A file that still has it is replaced when the text
//! changes; one that does not was edited, and stays without `--force`.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use drawloom_contract::ids::Digest;
use drawloom_substrate::files;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    MAX_BYTES, Name, Scope,
    clients::{self, Server},
    edit, shell_line, write,
};
use crate::{
    commands::Session,
    environment,
    exit::{CommandError, Exit},
    output::{Format, Style},
    project::{self, Project},
};

/// Where plugins of the user's projects are, below the user's data directory.
const FOLDER: &str = "plugins";
/// The plugin that a project shares, in its directory.
const SHARED: &str = "drawloom-plugin";
/// What was written into a folder.
const RECORD: &str = ".drawloom.json";

const MANIFEST: &str = include_str!("../../../../plugin/plugin.json");
const MARKETPLACE: &str = include_str!("../../../../plugin/marketplace.json");
/// The place of the name in the marketplace.
const NAME: &str = "NAME";
/// The place of the version in the manifest.
const VERSION: &str = "VERSION";
const TEXTS: [(&str, &str); 3] = [
    ("commands/fanout.md", include_str!("../../../../plugin/commands/fanout.md")),
    ("commands/review.md", include_str!("../../../../plugin/commands/review.md")),
    ("skills/delegate/SKILL.md", include_str!("../../../../plugin/skills/delegate/SKILL.md")),
];

/// What becomes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    Add,
    Update,
    Unchanged,
    /// It was edited since it was written.
    Kept,
}

impl Action {
    fn word(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Update => "update",
            Self::Unchanged => "unchanged",
            Self::Kept => "kept",
        }
    }

    fn writes(self) -> bool {
        matches!(self, Self::Add | Self::Update)
    }
}

/// A file of the plugin.
#[derive(Debug, Serialize)]
struct Item {
    file: &'static str,
    action: Action,
    #[serde(skip)]
    text: String,
}

/// The digests of the files as they were written, by their paths in the folder.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    written: BTreeMap<String, Digest>,
}

/// Whether files that were edited are replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Edited {
    Keep,
    Replace,
}

/// Writes the plugin into `given`, or into the folder that belongs to the project.
pub(super) fn install(
    session: &Session,
    server: &Server,
    given: Option<&Path>,
    scope: Scope,
    edited: Edited,
) -> Result<Exit, CommandError> {
    let folder = match given {
        Some(path) => path.to_owned(),
        None => default_folder(session, server, scope)?,
    };
    let folder = std::path::absolute(&folder)
        .map_err(|error| CommandError::usage("bad_file", format!("{}: {error}", folder.display())))?;
    let record = read_record(&folder)?;
    let items = plan(&folder, record.as_ref(), texts(server, &folder), edited)?;
    let wanted = record_after(record.as_ref(), &items);
    let is_new_record = record.as_ref() != Some(&wanted);
    for item in items.iter().filter(|item| item.action.writes()) {
        put(&folder.join(item.file), &item.text, scope)?;
    }
    if is_new_record {
        let text = serde_json::to_string_pretty(&wanted).expect("a record has only text keys");
        put(&folder.join(RECORD), &format!("{text}\n"), scope)?;
    }
    report(session, server, &folder, &items);
    Ok(Exit::Done)
}

/// Removes the files of a plugin that are as they were written, and the directories that are empty then.
pub(super) fn uninstall(session: &Session, folder: &Path) -> Result<Exit, CommandError> {
    let output = &session.output;
    let record = read_record(folder)?.unwrap_or_default();
    let (mut removed, mut kept) = (Vec::new(), Vec::new());
    for (file, digest) in &record.written {
        let path = folder.join(file);
        match read(&path)? {
            None => {}
            Some(found) if Digest::of(&found) == *digest => {
                fs::remove_file(&path).map_err(|error| unremovable(&path, &error))?;
                removed.push(file.clone());
            }
            Some(_) => kept.push(file.clone()),
        }
    }
    if kept.is_empty() && !record.written.is_empty() {
        let path = folder.join(RECORD);
        fs::remove_file(&path).map_err(|error| unremovable(&path, &error))?;
    }
    // What is not empty stays.
    for file in record.written.keys() {
        for directory in Path::new(file).ancestors().skip(1) {
            let _ = fs::remove_dir(folder.join(directory));
        }
    }
    match output.format() {
        Format::Json => output.json(&json!({ "client": "claude", "plugin": folder, "removed": removed, "kept": kept })),
        Format::Human if removed.is_empty() && kept.is_empty() => {
            output.line(format!("{} has no plugin of drawloom.", folder.display()));
        }
        Format::Human => {
            removed.iter().for_each(|file| output.line(format!("  removed    {file}")));
            kept.iter().for_each(|file| output.line(format!("  kept       {file}, which was edited")));
        }
    }
    Ok(Exit::Done)
}

fn unremovable(path: &Path, error: &io::Error) -> CommandError {
    CommandError::failed("cannot_remove", format!("cannot remove {}: {error}", path.display()))
}

/// One folder for each project and each server elsewhere, outside of what agents can write; or one in the project that is shared.
fn default_folder(session: &Session, server: &Server, scope: Scope) -> Result<PathBuf, CommandError> {
    if scope == Scope::Project {
        return Ok(SHARED.into());
    }
    let name = match &server.upstream {
        Some(url) => {
            let host = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
            project::folder_name(host.split('/').next().unwrap_or_default(), url.as_bytes())
        }
        None => Project::find(&session.globals)?.folder_name(),
    };
    let data = environment::default_data_dir().ok_or_else(|| {
        CommandError::usage("no_home", "HOME is not set, so the plugin has no default folder")
            .with_hint("name a folder with --plugin DIR, or set HOME")
    })?;
    Ok(data.join(FOLDER).join(name))
}

/// The name of the folder as a marketplace. Claude Code knows a marketplace by its name, so that of each project is another one.
fn marketplace(folder: &Path) -> String {
    let name = folder.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let plain = |sign: char| if sign.is_ascii_alphanumeric() { sign } else { '-' };
    let name: String = name.trim_start_matches("drawloom").chars().map(plain).collect();
    match name.trim_matches('-') {
        "" => "drawloom".to_owned(),
        name => format!("drawloom-{name}"),
    }
}

/// The files of the plugin that starts `server`. The folder is a marketplace with this one plugin too.
fn texts(server: &Server, folder: &Path) -> Vec<(&'static str, String)> {
    let claude = clients::of(Name::Claude);
    let (servers, _) = edit::put("", claude.format, &(claude.entry)(server)).expect("an empty file takes a server");
    let mut all = vec![
        (".claude-plugin/marketplace.json", MARKETPLACE.replace(NAME, &marketplace(folder))),
        (".claude-plugin/plugin.json", MANIFEST.replace(VERSION, env!("CARGO_PKG_VERSION"))),
        (".mcp.json", servers),
    ];
    all.extend(TEXTS.map(|(file, text)| (file, text.to_owned())));
    all
}

/// What becomes of each file. A folder with other things in it that this command did not write is refused.
fn plan(
    folder: &Path,
    record: Option<&Record>,
    texts: Vec<(&'static str, String)>,
    edited: Edited,
) -> Result<Vec<Item>, CommandError> {
    let mut items = Vec::new();
    for (file, text) in texts {
        let found = read(&folder.join(file))?;
        let written = record.and_then(|record| record.written.get(file));
        let action = match found {
            None => Action::Add,
            Some(found) if found == text.as_bytes() => Action::Unchanged,
            Some(_) if edited == Edited::Replace => Action::Update,
            Some(found) if written == Some(&Digest::of(&found)) => Action::Update,
            Some(_) => Action::Kept,
        };
        items.push(Item { file, action, text });
    }
    let has_others = || -> io::Result<bool> {
        let ours = |name: &std::ffi::OsStr| items.iter().any(|item| Path::new(item.file).starts_with(name));
        for entry in fs::read_dir(folder)? {
            if !ours(&entry?.file_name()) {
                return Ok(true);
            }
        }
        Ok(items.iter().any(|item| item.action == Action::Kept))
    };
    if record.is_none()
        && edited == Edited::Keep
        && folder.exists()
        && has_others().map_err(|error| bad(folder, &error))?
    {
        let message = format!("{} has files that this command did not write; nothing was changed", folder.display());
        return Err(CommandError::usage("exists", message).with_hint(
            "name another folder with --plugin DIR; --force replaces the files of the plugin and leaves the rest",
        ));
    }
    Ok(items)
}

fn record_after(before: Option<&Record>, items: &[Item]) -> Record {
    let digest = |item: &Item| match item.action {
        Action::Kept => before.and_then(|before| before.written.get(item.file).copied()),
        Action::Add | Action::Update | Action::Unchanged => Some(Digest::of(item.text.as_bytes())),
    };
    Record { written: items.iter().filter_map(|item| Some((item.file.to_owned(), digest(item)?))).collect() }
}

/// The record of a folder; none, when there is none that can be read as one.
fn read_record(folder: &Path) -> Result<Option<Record>, CommandError> {
    Ok(read(&folder.join(RECORD))?.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}

fn read(file: &Path) -> Result<Option<Vec<u8>>, CommandError> {
    match files::read_file(file, MAX_BYTES) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(bad(file, &error)),
    }
}

fn bad(path: &Path, error: &io::Error) -> CommandError {
    CommandError::usage("bad_file", format!("cannot read {}: {error}", path.display()))
        .with_hint("name another folder with --plugin DIR")
}

fn put(file: &Path, text: &str, scope: Scope) -> Result<(), CommandError> {
    write(file, text, scope).map_err(|error| {
        CommandError::failed("cannot_write", format!("cannot write {}: {error}", file.display()))
            .with_hint("make the folder writable, or name another one with --plugin DIR")
    })
}

/// Whether Claude Code loads the folder in every session: those among the user's skills.
fn is_always_loaded(folder: &Path) -> bool {
    environment::home().is_some_and(|home| folder.parent() == Some(&home.join(".claude/skills")))
}

fn report(session: &Session, server: &Server, folder: &Path, items: &[Item]) {
    let output = &session.output;
    let next = match is_always_loaded(folder) {
        true => "claude".to_owned(),
        false => shell_line(&["claude".into(), "--plugin-dir".into(), folder.display().to_string()]),
    };
    let is_written = items.iter().any(|item| item.action.writes());
    if output.format() == Format::Json {
        output.json(&json!({
            "client": "claude", "plugin": folder, "files": items, "written": is_written, "next": next,
        }));
        return;
    }
    let shown = folder.display();
    match is_written {
        true => output.line(format!("Wrote the plugin drawloom to {shown}:\n")),
        false => output.line(format!("Nothing was changed in {shown}:\n")),
    }
    for item in items {
        output.line(format!("  {:<9}  {}", item.action.word(), item.file));
    }
    output.line("");
    if items.iter().any(|item| item.action == Action::Kept) {
        output.line("A kept file was edited since it was written; --force replaces it.");
    }
    if server.upstream.is_some() {
        output.line("The token is read from DRAWLOOM_TOKEN in the environment of Claude Code.");
    }
    output.line(
        "It has the tools of drawloom, the skill delegate, and the commands /drawloom:review and /drawloom:fanout.",
    );
    output.line(format!("Next: {}", output.styled(Style::Bold, &next)));
}
