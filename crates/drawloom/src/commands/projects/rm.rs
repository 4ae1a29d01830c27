//! `drawloom projects rm`: deletes the data of a project, the checkouts of its goals and their refs, after it has asked.

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::Args;
use drawloom_contract::suggest::closest;
use serde_json::json;

use crate::{
    cli::Look,
    commands::{Session, status::server_of},
    data_dir::DataDir,
    environment,
    exit::{CommandError, Exit},
    goals,
    output::{Format, bytes, count},
    project::{self, Note},
};

/// Delete the data of a project
///
/// Deletes its runs, memory, channels and artifacts, the checkouts of its goals and their refs below refs/drawloom. Config files and
/// branches with the results of goals are kept.
#[derive(Debug, Args)]
pub(super) struct Rm {
    /// Name, folder, config file or data directory of the project; see `drawloom projects list`
    #[arg(value_name = "PROJECT")]
    project: String,
    /// Delete without asking
    #[arg(long, short)]
    yes: bool,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Rm {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let output = &session.output;
        let (data, note) = find(&self.project)?;
        if let Some(server) = server_of(&data) {
            let message = format!("the server of {} runs (process {})", note.name(), server.pid);
            return Err(CommandError::usage("data_in_use", message)
                .with_hint(format!("stop it first: `drawloom stop --data-dir {}`", data.path().display())));
        }
        let checkouts = environment::checkouts(data.path());
        if !self.yes && !self.asks(session, &data, &note, &checkouts)? {
            return Ok(Exit::NeedsInput);
        }
        let lock = data.lock("projects rm")?;
        let removed = goals::forget_all(&data, &checkouts).await?;
        // Remove the store first: a directory without it does not count as data after a crash.
        let (directory, failed) = (data.path(), |path: &Path, error: std::io::Error| {
            CommandError::failed("cannot_remove", format!("cannot remove {}: {error}", path.display()))
        });
        let store = directory.join(drawloom_store::FILE);
        if store.exists() {
            fs::remove_file(&store).map_err(|error| failed(&store, error))?;
        }
        fs::remove_dir_all(directory).map_err(|error| failed(directory, error))?;
        drop(lock);
        match output.format() {
            Format::Json => output.json(&json!({
                "project": note.name(), "config": note.config, "data_dir": directory, "refs": removed.refs, "branches_kept": removed.branches,
                "problems": removed.problems,
            })),
            Format::Human => {
                output.line(format!("deleted the data of {} in {}", note.name(), directory.display()));
                if removed.refs > 0 {
                    output.line(format!("deleted {} refs of its goals", count(removed.refs)));
                }
                for (repository, branch) in &removed.branches {
                    let repository = repository.display();
                    output.note(format!("kept a branch; delete it with: git -C {repository} branch -D {branch}"));
                }
                removed.problems.iter().for_each(|problem| output.warning(problem));
            }
        }
        Ok(Exit::Done)
    }

    /// Whether the user wants it deleted.
    fn asks(&self, session: &Session, data: &DataDir, note: &Note, checkouts: &Path) -> Result<bool, CommandError> {
        let output = &session.output;
        let gone = if note.config.exists() { "" } else { " (gone)" };
        let goals = fs::read_dir(checkouts).map(|entries| entries.flatten().count()).unwrap_or(0);
        let goals = match goals {
            0 => String::new(),
            1 => ", with the checkouts and refs of 1 goal".to_owned(),
            more => format!(", with the checkouts and refs of {more} goals"),
        };
        let size = bytes(size_of(data.path()) + size_of(checkouts));
        let question = format!("would delete the data of {}{gone}: {size}{goals}", note.config.display());
        if !output.can_ask() {
            let message = format!("{question}; not deleted, because stdin is not a terminal to ask on");
            let error = CommandError::usage("no_answer", message);
            return Err(CommandError { exit: Exit::NeedsInput, ..error }.with_hint("pass --yes to delete it"));
        }
        output.note(&question);
        let agreed = output.confirm("Delete it? [y/N] ")?;
        if !agreed {
            output.note("nothing was deleted");
        }
        Ok(agreed)
    }
}

/// The project that people mean: by its name, or by the place of its folder, config or data.
fn find(given: &str) -> Result<(DataDir, Note), CommandError> {
    let all = project::all()?;
    let place = std::path::absolute(given).unwrap_or_else(|_| PathBuf::from(given));
    let place = place.canonicalize().unwrap_or(place);
    let is_at = |data: &DataDir, note: &Note| {
        let real = data.real_path().unwrap_or_else(|_| data.path().to_owned());
        [real.as_path(), data.path(), &note.config].contains(&place.as_path()) || note.config.parent() == Some(&place)
    };
    let names: Vec<String> = all.iter().map(|(_, note)| note.name()).collect();
    let (mut at, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|(data, note)| is_at(data, note));
    let mut named: Vec<_> = others.into_iter().filter(|(_, note)| note.name() == given).collect();
    let found = if at.is_empty() { &mut named } else { &mut at };
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => {
            let error = CommandError::usage("unknown_project", format!("no project {given:?} has data"));
            Err(match closest(given, names.iter().map(String::as_str)) {
                Some(name) => error.with_hint(format!("did you mean {name}? `drawloom projects list` lists all")),
                None => error.with_hint("`drawloom projects list` lists all"),
            })
        }
        _ => {
            let details =
                found.iter().map(|(data, note)| format!("{}: {}", note.config.display(), data.path().display()));
            let details = details.collect();
            let message = format!("several projects are named {given:?}");
            Err(CommandError { details, ..CommandError::usage("ambiguous_project", message) }
                .with_hint("name one by its data directory"))
        }
    }
}

/// Bytes of the files below a directory.
fn size_of(directory: &Path) -> u64 {
    let (mut total, mut open) = (0, vec![directory.to_owned()]);
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(found) if found.is_dir() => open.push(entry.path()),
                Ok(found) => total += found.len(),
                Err(_) => {}
            }
        }
    }
    total
}
