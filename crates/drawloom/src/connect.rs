//! How a command comes to its backend: a server that was named, the server of the data directory, or this process.

use std::sync::Arc;

use drawloom_contract::{
    ids::{BatchId, RunId},
    record::Status,
};
use drawloom_wire::client::Client;

use crate::{
    backend::{Backend, Remote},
    cli::Globals,
    clock::SystemClock,
    commands::Session,
    config,
    data_dir::{self, DataDir},
    embedded::Embedded,
    environment,
    exit::{CommandError, Exit},
    output::Format,
    parts::{Parts, Surface},
    server_config,
    start::{Running, start},
};

/// A backend, and the instance behind it when that is in this process.
pub(crate) struct Connection {
    /// What commands talk to.
    pub backend: Arc<dyn Backend>,
    embedded: Option<Running>,
}

impl Connection {
    /// A connection to an instance in this process.
    pub(crate) fn embedded(running: Running) -> Self {
        Self { backend: Arc::new(Embedded::new(running.app.clone())), embedded: Some(running) }
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

    /// What becomes of a run that this command does not wait for any longer.
    pub(crate) fn how_it_goes_on(&self, run: RunId) -> String {
        match self.embedded {
            None => format!("it goes on in the server: drawloom runs tail {run}, or drawloom runs cancel {run}"),
            Some(_) => format!("`drawloom serve` takes it up again; `drawloom runs cancel {run}` ends it"),
        }
    }

    /// What becomes of a batch that this command does not wait for any longer.
    pub(crate) fn how_a_batch_goes_on(&self, batch: BatchId) -> String {
        let look = format!("`drawloom runs list --batch {batch}` shows its runs");
        match self.embedded {
            None => format!("it goes on in the server; {look}"),
            Some(_) => format!("`drawloom serve` takes it up again; {look}"),
        }
    }

    /// Lets go. An instance in this process is stopped in order; a second Ctrl-C does not wait for that.
    pub(crate) async fn close(self) {
        if let Some(running) = self.embedded {
            running.stop_or_leave().await;
        }
    }
}

/// The data directory that the command line, the environment or the default says.
pub(crate) fn data_dir(globals: &Globals) -> Result<DataDir, CommandError> {
    let path = globals.data_dir.clone().or_else(environment::default_data_dir).ok_or_else(|| {
        CommandError::usage("no_data_dir", "there is no home directory to keep data in")
            .with_hint("pass --data-dir DIR, or set DRAWLOOM_DATA_DIR")
    })?;
    Ok(DataDir::new(path))
}

/// A client of the server at `url`, with the token of the environment.
pub(crate) fn client(url: &str) -> Result<Client, CommandError> {
    let token = environment::variable(environment::TOKEN);
    Ok(Client::new(url, token.as_deref(), Arc::new(SystemClock))?)
}

/// What a command without a server needs of the config.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// The agents: there must be a config.
    Agents,
    /// Only the journal: without a config it can be read all the same.
    Journal,
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
    let remote = |url: &str| Ok(Connection { backend: Arc::new(Remote::new(client(url)?)), embedded: None });
    if let Some(url) = &session.globals.url {
        return remote(url);
    }
    let lock = match data_dir(&session.globals)?.lock(command) {
        Ok(lock) => lock,
        Err(data_dir::Error::InUse { server: Some(server), .. }) => {
            if need == Need::Agents {
                let files = config::absolute(&config::find(&session.globals.config).unwrap_or_default());
                server_config::check(&server, &files)?;
                if let Some(note) = server_config::age(&server).filter(|_| session.output.format() == Format::Human) {
                    session.output.note(note);
                }
            }
            return remote(&server.url);
        }
        Err(error) => return Err(error.into()),
    };
    let files = match config::find(&session.globals.config) {
        Err(_) if need == Need::Journal => Vec::new(),
        found => found?,
    };
    let loaded = config::load_files(&files)?;
    let running = start(Parts::from_config(loaded, lock, Surface::Embedded, &[])?).await?;
    if running.left_unfinished > 0 && session.output.format() == Format::Human {
        let count = running.left_unfinished;
        let runs = if count == 1 { "1 other run is".to_owned() } else { format!("{count} other runs are") };
        session.output.note(format!("{runs} unfinished; `drawloom serve` takes them up"));
    }
    Ok(Connection::embedded(running))
}

/// The exit code that a run's status means.
pub(crate) fn exit_of_status(status: Status) -> Exit {
    match status {
        Status::Completed => Exit::Done,
        Status::Failed | Status::Cancelled | Status::TimedOut => Exit::Failed,
        Status::Queued | Status::Running | Status::Waiting => Exit::Done,
    }
}
