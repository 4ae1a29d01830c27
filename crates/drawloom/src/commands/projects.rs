//! `drawloom projects`: the projects of this user, listed and deleted.

mod rm;

use std::path::Path;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::{
    cli::{Look, Quiet},
    commands::{Session, status::server_of},
    environment,
    exit::{CommandError, Exit},
    output::{Column, Format, Style, Text},
    project,
};

/// List and delete the projects of this user
///
/// Without a command, it lists them.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Projects {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    list: List,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the projects of this user that have data
    #[command(visible_alias = "ls")]
    List(List),
    /// Delete the data of a project
    Rm(rm::Rm),
}

impl Projects {
    pub(crate) fn look(&self) -> Look {
        match &self.command {
            None => self.list.look,
            Some(Command::List(list)) => list.look,
            Some(Command::Rm(rm)) => rm.look,
        }
    }

    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        match self.command {
            None => show(session, self.list.ids),
            Some(Command::List(list)) => show(session, list.ids),
            Some(Command::Rm(rm)) => rm.perform(session).await,
        }
    }
}

/// List the projects of this user that have data
#[derive(Debug, Args)]
pub struct List {
    #[command(flatten)]
    ids: Quiet,
    /// The format of the output.
    #[command(flatten)]
    look: Look,
}

/// Shows all projects, and what is left of those whose config is gone.
pub(crate) fn show(session: &Session, ids: Quiet) -> Result<Exit, CommandError> {
    let all: Vec<_> = project::all()?.into_iter().map(|(data, note)| (server_of(&data), data, note)).collect();
    let old = project::old_data();
    let output = &session.output;
    match output.format() {
        Format::Json => output.json(&json!({
            "projects": all.iter().map(|(server, data, note)| json!({
                "project": note.name(), "config": note.config, "data_dir": data.path(), "server": server, "is_gone": !note.config.exists(),
            })).collect::<Vec<Value>>(),
            "old_data_dir": old.as_ref().map(|data| data.path()),
        })),
        Format::Human if ids.quiet => {
            output.ids(all.iter().map(|(_, data, _)| data.path().display()));
            return Ok(Exit::Done);
        }
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
    if output.format() == Format::Human {
        if let Some((_, data, _)) = all.iter().find(|(_, _, note)| !note.config.exists()) {
            let data = data.path().display();
            output.note(format!(
                "projects whose config is gone: `drawloom adopt {data}` moves such data into the project of this folder, \
                 `drawloom projects rm {data}` deletes it"
            ));
        }
        if let Some(old) = old {
            let old = old.path().display();
            output.note(format!(
                "data of an earlier version is in {old}: `drawloom adopt {old}` moves it into the project of this folder"
            ));
        }
    }
    Ok(Exit::Done)
}

/// A path as people write it: `~` for the home directory.
fn below_home(path: &Path) -> String {
    match environment::home().and_then(|home| path.strip_prefix(home).ok().map(Path::to_owned)) {
        Some(rest) => Path::new("~").join(rest).display().to_string(),
        None => path.display().to_string(),
    }
}
