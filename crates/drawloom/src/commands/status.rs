//! `drawloom status`: which project this is, where its data and its server are, and the data that it had in another folder.

use std::path::Path;

use clap::Args;
use serde_json::{Value, json};

use crate::{
    anchor,
    cli::{Look, Quiet},
    commands::{Session, projects},
    data_dir::{DataDir, Holder, ServerFile},
    exit::{CommandError, Exit},
    output::{Format, LocalTime, Style},
    project::Project,
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
        if self.all { projects::show(session, Quiet::default()) } else { show_one(session) }
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
    let moved = project.moved_from();
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
            "left_behind": moved.iter().map(|moved| json!({ "data_dir": moved.data.path(), "config": moved.config }))
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
    for moved in &moved {
        output.note(moved.note());
    }
    Ok(Exit::Done)
}

fn about(server: &ServerFile, local: &LocalTime) -> String {
    let started = LocalTime::parse(&server.started_at);
    let started = started.map_or_else(|| server.started_at.clone(), |time| local.whole(time));
    format!("{} (process {}, version {}, since {started})", server.url, server.pid, server.version)
}

/// Whether a data directory has a store.
pub(crate) fn has_data(directory: &Path) -> bool {
    directory.join(drawloom_store::FILE).exists()
}

/// Whether a data directory has a store with data of its user. A store that cannot be read counts.
pub(crate) fn is_used(directory: &Path) -> bool {
    has_data(directory) && drawloom_store::is_used(directory, anchor::SPACE).unwrap_or(true)
}
