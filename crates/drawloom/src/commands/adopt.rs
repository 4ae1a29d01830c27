//! `drawloom adopt`: moves the data of a folder that was moved, or of an earlier version, into this project.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use clap::Args;
use drawloom_contract::time::Clock as _;
use drawloom_store::{Options, Store};
use serde_json::{Value, json};

use crate::{
    cli::Look,
    clock::SystemClock,
    commands::{
        Session, mcp,
        status::{has_data, is_used, server_of},
    },
    data_dir::DataDir,
    environment,
    exit::{CommandError, Exit},
    leftovers, local,
    output::Format,
    project::{self, Note, Project},
};

/// Move the data of a folder that was moved into this project
///
/// The data is that of a config that was moved or deleted, or of an earlier version. `drawloom status --all` lists it.
#[derive(Debug, Args)]
pub struct Adopt {
    /// Data directory to move; see `drawloom status --all`
    #[arg(value_name = "DIR", required_unless_present = "none")]
    directory: Option<PathBuf>,
    /// Move nothing: begin with new data, and leave what is in the other directory
    #[arg(long, conflicts_with = "directory")]
    none: bool,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Adopt {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let project = Project::find(&session.globals)?;
        match self.directory {
            Some(directory) => adopt(&project, &DataDir::new(directory)).await?.show(session, &project),
            None => begin_anew(session, &project).await?,
        }
        Ok(Exit::Done)
    }
}

/// Makes the empty store that says that this project needs no other.
async fn begin_anew(session: &Session, project: &Project) -> Result<(), CommandError> {
    let directory = project.data.path();
    if !has_data(directory) {
        let _lock = project.lock("adopt")?;
        let opened =
            Store::open(&Options::new(directory), SystemClock.wall()).map_err(|error| CommandError::of(&error))?;
        opened.store.close().await.map_err(|error| CommandError::of(&error))?;
    }
    match session.output.format() {
        Format::Json => session.output.json(&json!({ "from": null, "data_dir": directory, "hosts": [] })),
        Format::Human => {
            session.output.line(format!("{} has data of its own in {}", project.name(), directory.display()));
        }
    }
    Ok(())
}

/// Data that was moved.
pub(crate) struct Adopted {
    from: PathBuf,
    to: PathBuf,
    /// Hosts that still start the config at its old place.
    hosts: Vec<mcp::HostOf>,
}

impl Adopted {
    /// What happened, for people.
    pub(crate) fn told(&self, project: &Project) -> String {
        format!("{} now has the data of {}", project.name(), self.from.display())
    }

    /// Says what to do about hosts that start the config at its old place.
    pub(crate) fn note_hosts(&self, session: &Session) {
        for host in &self.hosts {
            session.output.note(format!(
                "{} still starts the old config: `drawloom mcp install --client {} --write` replaces the entry",
                host.file.display(),
                host.client
            ));
        }
    }

    fn show(&self, session: &Session, project: &Project) {
        let host = |host: &mcp::HostOf| json!({ "client": host.client, "file": host.file });
        match session.output.format() {
            Format::Json => {
                let hosts: Vec<Value> = self.hosts.iter().map(host).collect();
                session.output.json(&json!({ "from": self.from, "data_dir": self.to, "hosts": hosts }));
            }
            Format::Human => {
                session.output.line(self.told(project));
                self.note_hosts(session);
            }
        }
    }
}

/// Moves the data of a directory that no project uses into this project.
pub(crate) async fn adopt(project: &Project, from: &DataDir) -> Result<Adopted, CommandError> {
    let own = project.files.first();
    let note = project::read_note(from.path());
    if !has_data(from.path()) {
        // An adopt that was interrupted after the store was moved.
        if note.is_some() && project::is_own_directory(from.path()) && has_data(project.data.path()) {
            return forget(project, from, note);
        }
        return Err(CommandError::usage("no_data", format!("{} has no drawloom.db", from.path().display()))
            .with_hint("`drawloom status --all` lists data that can be adopted"));
    }
    let store = from.path().join(drawloom_store::FILE);
    if !fs::symlink_metadata(&store).is_ok_and(|found| found.is_file()) {
        let message = format!("{} is not a regular file", store.display());
        return Err(CommandError::usage("no_data", message).with_hint("adopt the directory that the file is in"));
    }
    if let Some(note) = note.as_ref().filter(|note| own.is_none_or(|own| note.is_in_use_beside(own))) {
        let message = format!("{} belongs to {}", from.path().display(), note.config.display());
        return Err(CommandError::usage("data_in_use", message)
            .with_hint("copy the data of an existing project with `drawloom backup` and `drawloom restore`"));
    }
    let to = project.data.path();
    if is_used(to) {
        return Err(two_stores(project, from));
    }
    // A server of a config that is gone serves no project, and one of this project has nothing to keep.
    for data in [from, &project.data] {
        let Some(server) = server_of(data) else { continue };
        let stopped = local::stop(data, &server, Some(local::WAY_TIME)).await;
        let cannot = |error| CommandError::failed("cannot_stop", format!("process {}: {error}", server.pid));
        stopped.map_err(cannot)?;
    }
    // Both directories stay locked while the files are moved.
    let _from = from.lock("adopt")?;
    let _to = project.lock("adopt")?;
    if is_used(to) {
        return Err(two_stores(project, from));
    }
    fold_log(from.path()).await?;
    move_all(from.path(), to).map_err(|error| {
        let message = format!("cannot move {} to {}: {error}", from.path().display(), to.display());
        CommandError::failed("cannot_move", message).with_hint(
            "nothing is lost: fix the cause and run the command again, or use `drawloom backup` and `restore`",
        )
    })?;
    forget(project, from, note)
}

/// Removes what is left of a directory whose store was moved.
fn forget(project: &Project, from: &DataDir, note: Option<Note>) -> Result<Adopted, CommandError> {
    remove_rest(from.path());
    // Last, because it says that there is something to remove.
    project::remove_note(from.path()).map_err(|error| {
        let message = format!("the runs were moved; cannot remove {}: {error}", from.path().display());
        CommandError::failed("cannot_remove", message)
    })?;
    if project::is_own_directory(from.path()) {
        let _ = fs::remove_dir(from.path());
    }
    let old = note.map(|note| note.config).filter(|old| Some(old) != project.files.first());
    let hosts = old.map(|old| mcp::hosts_of(&old)).unwrap_or_default();
    Ok(Adopted { from: from.path().to_owned(), to: project.data.path().to_owned(), hosts })
}

/// Why data is not moved into a project that has used its own, with the commands for each choice.
fn two_stores(project: &Project, from: &DataDir) -> CommandError {
    let (to, from) = (project.data.path().display(), from.path().display());
    let details = vec![
        format!("to read the other data here: drawloom runs list --data-dir {from}"),
        format!(
            "to use it instead: drawloom stop; drawloom backup own.db; drawloom projects rm {to}; drawloom adopt {from}"
        ),
        format!("to delete it: drawloom projects rm {from}"),
    ];
    let message = format!(
        "{} has runs or other data of its own in {to}, and the data of two projects cannot be merged",
        project.name()
    );
    CommandError { details, ..CommandError::usage("has_data", message) }
}

/// Files that a project's data directory has beside its store.
const REST: [&str; 6] = ["token", "serve.log", "serve.log.old", "written.json", "start.lock", "drawloom.lock"];

/// Removes what is left in a project's own directory. Whatever else is in it stays.
fn remove_rest(directory: &Path) {
    if !project::is_own_directory(directory) {
        return;
    }
    for name in REST {
        let _ = fs::remove_file(directory.join(name));
    }
    let _ = fs::remove_dir_all(directory.join("tmp"));
}

/// Brings a store, whose directory is locked, into one file, so that moving that file moves all of it.
async fn fold_log(directory: &Path) -> Result<(), CommandError> {
    let opened = Store::open(&Options::new(directory), SystemClock.wall()).map_err(|error| CommandError::of(&error))?;
    opened.store.close().await.map_err(|error| CommandError::of(&error))?;
    let log = store_file(directory, "-wal");
    match fs::metadata(&log).map_or(0, |found| found.len()) {
        0 => Ok(()),
        _ => Err(CommandError::failed("cannot_move", format!("another program uses {}", log.display()))
            .with_hint("end it and run the command again; nothing was moved")),
    }
}

/// Moves what belongs to a data directory to another one, both locked. The store comes last and at once: until then the data is where it
/// was, and a command that was interrupted can be run again.
fn move_all(from: &Path, to: &Path) -> io::Result<()> {
    let staged = |directory: &Path| leftovers::directory(&DataDir::new(directory));
    for (from, to) in [(environment::checkouts(from), environment::checkouts(to)), (staged(from), staged(to))] {
        // An empty directory gives way.
        match fs::rename(&from, &to) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                let message = format!("{} cannot become {}: {error}", from.display(), to.display());
                return Err(io::Error::new(error.kind(), message));
            }
            Ok(()) | Err(_) => {}
        }
    }
    // The unused store that gives way goes first: a log without its database is ignored.
    for file in [store_file(to, ""), store_file(to, "-wal"), store_file(to, "-shm"), to.join("written.json")] {
        remove(&file)?;
    }
    File::open(to)?.sync_all()?;
    fs::rename(store_file(from, ""), store_file(to, ""))?;
    File::open(to)?.sync_all()?;
    for ending in ["-wal", "-shm"] {
        remove(&store_file(from, ending))?;
    }
    File::open(from)?.sync_all()
}

fn store_file(directory: &Path, ending: &str) -> PathBuf {
    directory.join(format!("{}{ending}", drawloom_store::FILE))
}

/// Removes a file, if there is one.
fn remove(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
