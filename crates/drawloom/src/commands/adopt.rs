//! `drawloom adopt`: moves the data of a folder that was moved, or of an earlier version, into this project.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use clap::Args;
use serde_json::{Value, json};

use crate::{
    cli::Look,
    commands::{
        Session, mcp,
        status::{has_data, server_of},
    },
    data_dir::DataDir,
    exit::{CommandError, Exit},
    leftovers, local,
    output::Format,
    project::{self, Project},
};

/// Move the data of a folder that was moved into this project
///
/// The data is that of a config that was moved or deleted, or of an earlier version. `drawloom status --all` lists it.
#[derive(Debug, Args)]
pub struct Adopt {
    /// Data directory to move; see `drawloom status --all`
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Adopt {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let project = Project::find(&session.globals)?;
        let from = DataDir::new(&self.directory);
        if !has_data(from.path()) {
            return Err(CommandError::usage("no_data", format!("{} has no drawloom.db", from.path().display()))
                .with_hint("`drawloom status --all` lists data that can be adopted"));
        }
        let own = project.files.first();
        let old = project::read_note(from.path()).map(|note| note.config);
        let others = project::read_note(from.path()).filter(|note| note.config.exists() && Some(&note.config) != own);
        if let Some(note) = others {
            let message = format!("{} belongs to {}", from.path().display(), note.config.display());
            return Err(CommandError::usage("data_in_use", message)
                .with_hint("copy the data of an existing project with `drawloom backup` and `drawloom restore`"));
        }
        // A server of a config that is gone serves no project.
        if let Some(server) = server_of(&from) {
            let stopped = local::stop(&from, &server, Some(local::WAY_TIME)).await;
            let cannot = |error| CommandError::failed("cannot_stop", format!("process {}: {error}", server.pid));
            stopped.map_err(cannot)?;
        }
        // Both directories stay locked while the files are moved.
        let _from = from.lock("adopt")?;
        let _to = project.lock("adopt")?;
        let to = project.data.path();
        if has_data(to) {
            return Err(CommandError::usage("has_data", format!("{} already has data", to.display())).with_hint(
                format!(
                    "the data of two projects cannot be merged; `drawloom projects rm {}` deletes what this one has, \
                     --data-dir DIR keeps them apart",
                    to.display()
                ),
            ));
        }
        move_store(from.path(), to).map_err(|error| {
            let message = format!("cannot move {} to {}: {error}", from.path().display(), to.display());
            CommandError::failed("cannot_move", message).with_hint(
                "nothing is lost: fix the cause and run the command again, or use `drawloom backup` and `restore`",
            )
        })?;
        project::remove_note(from.path()).map_err(|error| {
            CommandError::failed(
                "cannot_remove",
                format!("the runs were moved; cannot remove {}: {error}", from.path().display()),
            )
        })?;
        remove_rest(from.path());
        let hosts = old.filter(|old| Some(old) != own).map(|old| mcp::hosts_of(&old)).unwrap_or_default();
        match session.output.format() {
            Format::Json => {
                let host = |host: &mcp::HostOf| json!({ "client": host.client, "file": host.file });
                let hosts: Vec<Value> = hosts.iter().map(host).collect();
                session.output.json(&json!({ "from": from.path(), "data_dir": to, "hosts": hosts }));
            }
            Format::Human => {
                session.output.line(format!("{} now has the data of {}", project.name(), from.path().display()));
                for host in &hosts {
                    session.output.note(format!(
                        "{} still starts the old config: `drawloom mcp install --client {} --write` replaces the entry",
                        host.file.display(),
                        host.client
                    ));
                }
            }
        }
        Ok(Exit::Done)
    }
}

/// Files that a project's data directory has beside its store.
const REST: [&str; 6] = ["token", "serve.log", "serve.log.old", "written.json", "start.lock", "drawloom.lock"];

/// Removes what is left of a project's own directory. Whatever else is in it stays, and the directory with it.
fn remove_rest(directory: &Path) {
    if directory.parent().and_then(Path::file_name).is_none_or(|name| name != "projects") {
        return;
    }
    for name in REST {
        let _ = fs::remove_file(directory.join(name));
    }
    let _ = fs::remove_dir_all(directory.join("tmp"));
    let _ = fs::remove_dir(directory);
}

/// Moves the store from one locked directory to another. A crash at any point leaves a complete store in one of the two: the
/// database is linked after its write-ahead log, and its old name is removed before the log's old name.
fn move_store(from: &Path, to: &Path) -> io::Result<()> {
    let staged = |directory: &Path| leftovers::directory(&DataDir::new(directory));
    match fs::rename(staged(from), staged(to)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let file = |directory: &Path, ending: &str| directory.join(format!("{}{ending}", drawloom_store::FILE));
    for ending in ["-wal", ""] {
        // What an attempt before this one left behind is the same file or an older one.
        match fs::remove_file(file(to, ending)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        match fs::hard_link(file(from, ending), file(to, ending)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && !ending.is_empty() => {}
            linked => linked?,
        }
    }
    File::open(to)?.sync_all()?;
    fs::remove_file(file(from, ""))?;
    for ending in ["-wal", "-shm"] {
        match fs::remove_file(file(from, ending)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    File::open(from)?.sync_all()
}
