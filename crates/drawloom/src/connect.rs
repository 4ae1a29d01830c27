//! How a command comes to its backend: a server that was named, the server of the data directory, or this process.

mod leave;

use std::sync::Arc;

use drawloom_contract::record::Status;
use drawloom_wire::client::Client;
use tempfile::TempDir;

use crate::{
    backend::{Backend, Remote},
    clock::SystemClock,
    commands::{
        Session,
        demo::no_room,
        status::{has_data, server_of},
    },
    config,
    data_dir::{self, DataDir},
    embedded::Embedded,
    environment,
    exit::{CommandError, Exit},
    output::Format,
    parts::{Parts, Surface},
    project::Project,
    server_config,
    start::{Running, start},
    trust::{self, Asking, Origin},
};

pub(crate) use leave::how_to_go_on;

/// A backend, and the instance behind it when that is in this process.
pub(crate) struct Connection {
    /// What commands talk to.
    pub backend: Arc<dyn Backend>,
    embedded: Option<Running>,
    /// The empty data directory of a command that only reads, in a project without a store; removed at the end.
    _empty: Option<TempDir>,
}

impl Connection {
    /// A connection to an instance in this process.
    pub(crate) fn embedded(running: Running) -> Self {
        Self { backend: Arc::new(Embedded::new(running.app.clone())), embedded: Some(running), _empty: None }
    }

    /// Whether the instance ends with this process.
    pub(crate) fn is_embedded(&self) -> bool {
        self.embedded.is_some()
    }

    /// Refuses what makes sense only when somebody else goes on with the work.
    pub(crate) fn refuse_embedded(&self, what: &str) -> Result<(), CommandError> {
        match self.embedded {
            None => Ok(()),
            Some(_) => Err(CommandError::usage("needs_server", format!("{what} needs a server, and none is running"))
                .with_hint("start one with `drawloom serve`; this command then finds it")),
        }
    }

    /// Lets go. An instance in this process is stopped in order; a second Ctrl-C does not wait for that.
    pub(crate) async fn close(self) {
        if let Some(running) = self.embedded {
            running.stop_or_leave().await;
        }
    }
}

/// A client of the server at `url`, with the token of the environment.
pub(crate) fn client(url: &str) -> Result<Client, CommandError> {
    let token = environment::variable(environment::TOKEN);
    Ok(Client::new(url, token.as_deref(), Arc::new(SystemClock))?)
}

/// What a command without a server needs of the config.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// The agents and their providers, to run and call them: there must be a config, and it must be trusted.
    Agents,
    /// What the config says: there must be one, and nothing of it is started or called.
    Config,
    /// Only the journal: without a config it can be read all the same.
    Journal,
}

/// Asks the user about a config that is not trusted yet. Commands that catch SIGINT call this before they do, so that Ctrl-C
/// ends the question. Without a terminal it does nothing, and `connect` refuses the config.
pub(crate) fn ask_first(session: &Session) -> Result<(), CommandError> {
    let asking = Asking::at(&session.output);
    if session.globals.url.is_some() || matches!(asking, Asking::Never) {
        return Ok(());
    }
    let project = Project::find(&session.globals)?;
    // A server that runs was trusted when it started.
    if server_of(&project.data).is_some() {
        return Ok(());
    }
    let loaded = config::load_files(&project.shown)?;
    trust::check(&project.shown, &loaded, Origin::of(&session.globals.config, &project.shown), asking)
}

/// Connects `command`, does `work` and lets go again, however the work ended.
pub(crate) async fn with<T>(
    session: &Session,
    command: &str,
    need: Need,
    work: impl AsyncFnOnce(&Connection) -> Result<T, CommandError>,
) -> Result<T, CommandError> {
    let connection = connect(session, command, need).await?;
    let done = work(&connection).await;
    connection.close().await;
    done
}

/// Connects `command`: to the server that is named, else to the one of the data directory, else inside this process.
async fn connect(session: &Session, command: &str, need: Need) -> Result<Connection, CommandError> {
    let remote =
        |url: &str| Ok(Connection { backend: Arc::new(Remote::new(client(url)?)), embedded: None, _empty: None });
    if let Some(url) = &session.globals.url {
        return remote(url);
    }
    let project = match need {
        Need::Agents | Need::Config => Project::find(&session.globals)?,
        Need::Journal => Project::find_data(&session.globals)?,
    };
    // A command that only reads makes no store, so that the project can still adopt one.
    let is_empty = need != Need::Agents && project.has_own_data() && !has_data(project.data.path());
    let empty = is_empty.then(tempfile::tempdir).transpose().map_err(|error| no_room(&error))?;
    let data = empty.as_ref().map_or_else(|| project.data.clone(), |empty| DataDir::new(empty.path()));
    let lock = match data.lock(command) {
        Ok(lock) => lock,
        Err(data_dir::Error::InUse { server: Some(server), .. }) => {
            if need != Need::Journal {
                server_config::check(&server, &project.files)?;
                if let Some(note) = server_config::age(&server).filter(|_| session.output.format() == Format::Human) {
                    session.output.note(note);
                }
            }
            return remote(&server.url);
        }
        Err(error) => return Err(error.into()),
    };
    project.note(&lock)?;
    let loaded = config::load_files(&project.shown)?;
    if need == Need::Agents {
        let origin = Origin::of(&session.globals.config, &project.shown);
        trust::check(&project.shown, &loaded, origin, Asking::at(&session.output))?;
    }
    let running = start(Parts::from_config(loaded, lock, Surface::Embedded, &[])?).await?;
    if running.left_unfinished > 0 && need == Need::Agents && session.output.format() == Format::Human {
        let count = running.left_unfinished;
        let runs = if count == 1 { "1 other run is".to_owned() } else { format!("{count} other runs are") };
        session.output.note(format!("{runs} unfinished; `drawloom restart` takes them up"));
    }
    Ok(Connection { _empty: empty, ..Connection::embedded(running) })
}

/// The exit code that a run's status means.
pub(crate) fn exit_of_status(status: Status) -> Exit {
    match status {
        Status::Completed => Exit::Done,
        Status::Failed | Status::Cancelled | Status::TimedOut => Exit::Failed,
        Status::Queued | Status::Running | Status::Waiting => Exit::Done,
    }
}
