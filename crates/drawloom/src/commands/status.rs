//! `drawloom status`: which project this is, where its data and its server are, and data that no project finds any more.

use std::path::Path;

use clap::Args;
use serde_json::{Value, json};

use crate::{
    cli::Look,
    commands::Session,
    data_dir::{DataDir, Holder, ServerFile},
    environment,
    exit::{CommandError, Exit},
    output::{Column, Format, LocalTime, Style, Text},
    project::{self, Project},
    server_config,
    start::take_note,
};

/// Show the project of this folder, its data and its server
#[derive(Debug, Args)]
pub struct Status {
    /// Show all projects of this user
    #[arg(long)]
    all: bool,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Status {
    pub(crate) fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        if self.all { show_all(session) } else { show_one(session) }
    }
}

/// The server of a data directory, when it is there.
pub(crate) fn server_of(data: &DataDir) -> Option<ServerFile> {
    data.read_server().filter(|server| data.is_open_in(server.pid))
}

/// The process that owns a data directory although no server of it can be reached.
pub(crate) fn holder_of(data: &DataDir, server: Option<&ServerFile>) -> Option<Holder> {
    data.owner().filter(|_| server.is_none())
}

fn show_one(session: &Session) -> Result<Exit, CommandError> {
    let project = Project::find_data(&session.globals)?;
    let server = server_of(&project.data);
    let holder = holder_of(&project.data, server.as_ref());
    let left = left_behind(&project)?;
    let lost = drawloom_store::lost(project.data.path());
    let output = &session.output;
    if output.format() == Format::Json {
        output.json(&json!({
            "lost": lost,
            "project": project.name(),
            "config": project.files,
            "data_dir": project.data.path(),
            "has_data": has_data(project.data.path()),
            "server": server,
            "config_changed": server.as_ref().is_some_and(server_config::is_changed),
            "held_by": holder,
            "left_behind": left.iter().map(|left| json!({ "data_dir": left.data.path(), "config": left.config }))
                .collect::<Vec<Value>>(),
        }));
        return Ok(Exit::Done);
    }
    let row =
        |name: &str, text: String| output.line(format!("{} {text}", output.styled(Style::Dim, &format!("{name:<8}"))));
    row("project", output.styled(Style::Bold, &project.name()));
    let is_changed = server.as_ref().is_some_and(server_config::is_changed);
    let note = if is_changed { "  changed since the server started: `drawloom restart`" } else { "" };
    for file in &project.files {
        row("config", format!("{}{}", file.display(), output.styled(Style::Notice, note)));
    }
    let empty = if has_data(project.data.path()) { "" } else { " (nothing in it yet)" };
    row("data", format!("{}{empty}", project.data.path().display()));
    if let Some(lost) = &lost {
        output.warning(&format!("{lost}\n{}", take_note(lost)));
    }
    let local = session.local_time();
    let running = server.as_ref().map(|server| about(server, &local));
    row("server", running.unwrap_or_else(|| output.styled(Style::Dim, "not running")));
    if let Some(holder) = &holder {
        row("held by", format!("{}, at which no server can be reached", holder.about()));
    }
    for left in &left {
        let what = match &left.config {
            Some(config) => format!("{} is gone; its data is in {}", config.display(), left.data.path().display()),
            None => format!("data of an earlier version is in {}", left.data.path().display()),
        };
        output.note(format!("{what}\n  `drawloom adopt {}` moves it into this project", left.data.path().display()));
    }
    Ok(Exit::Done)
}

fn show_all(session: &Session) -> Result<Exit, CommandError> {
    let all: Vec<_> = project::all()?.into_iter().map(|(data, note)| (server_of(&data), data, note)).collect();
    let output = &session.output;
    match output.format() {
        Format::Json => output.json(&json!({
            "projects": all.iter().map(|(server, data, note)| json!({
                "project": note.name(), "config": note.config, "data_dir": data.path(), "server": server, "is_gone": !note.config.exists(),
            })).collect::<Vec<Value>>(),
        })),
        Format::Human if all.is_empty() => output.line("no project has data yet"),
        Format::Human => output.table(
            [
                Column::new("project").shrinks_to(8),
                Column::new("config").shrinks_to(20).keeps_end(),
                Column::new("server"),
                Column::new("data").shrinks_to(20).keeps_end(),
            ],
            all.iter().map(|(server, data, note)| {
                let config = below_home(&note.config);
                let config = if note.config.exists() {
                    Text::new(config)
                } else {
                    Text::new(format!("{config} (gone)")).style(Style::Notice)
                };
                let server =
                    server.as_ref().map_or(Text::new("none").style(Style::Dim), |server| Text::new(&server.url));
                [Text::new(note.name()).style(Style::Bold), config, server, Text::new(below_home(data.path()))]
            }),
        ),
    }
    Ok(Exit::Done)
}

fn about(server: &ServerFile, local: &LocalTime) -> String {
    let started = LocalTime::parse(&server.started_at);
    let started = started.map_or_else(|| server.started_at.clone(), |time| local.whole(time));
    format!("{} (process {}, version {}, since {started})", server.url, server.pid, server.version)
}

/// A path as people write it: `~` for the home directory.
fn below_home(path: &Path) -> String {
    match environment::home().and_then(|home| path.strip_prefix(home).ok().map(Path::to_owned)) {
        Some(rest) => Path::new("~").join(rest).display().to_string(),
        None => path.display().to_string(),
    }
}

/// Data that no project finds any more.
struct Left {
    data: DataDir,
    /// The config that it belonged to; none for the data of earlier versions, which was everybody's.
    config: Option<std::path::PathBuf>,
}

/// What may be this project's from before: data of versions that had one place for all, and data of folders that are gone. Nothing
/// when the project has data of its own, or a place that was named.
fn left_behind(project: &Project) -> Result<Vec<Left>, CommandError> {
    if !project.has_own_data() || has_data(project.data.path()) {
        return Ok(Vec::new());
    }
    let gone = project::all()?.into_iter().filter(|(data, note)| !note.config.exists() && has_data(data.path()));
    let mut left: Vec<Left> = gone.map(|(data, note)| Left { data, config: Some(note.config) }).collect();
    left.extend(project::old_data().map(|data| Left { data, config: None }));
    Ok(left)
}

/// Whether a data directory has a store.
pub(crate) fn has_data(directory: &Path) -> bool {
    directory.join(drawloom_store::FILE).exists()
}
