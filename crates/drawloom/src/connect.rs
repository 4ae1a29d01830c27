//! How a command comes to its backend: the server that is named, the server of the project (found or started), or an instance
//! in this process.

mod exclusive;
mod fallback;
mod leave;

use std::sync::Arc;

use drawloom_contract::record::Status;
use drawloom_wire::client::Client;

use crate::{
    backend::{Backend, Remote},
    clock::SystemClock,
    commands::{Session, status::server_of},
    config,
    data_dir::{Access, DataDir, EMBEDDED},
    embedded::Embedded,
    environment,
    exit::{CommandError, Exit},
    local::{self, Local},
    output::Format,
    parts::{Parts, Surface},
    project::{self, Project},
    server_config,
    start::{Running, start},
    told,
    trust::{self, Asking, Origin},
};

use fallback::Fallback;
pub(crate) use fallback::NO_SERVER;
pub(crate) use leave::how_to_go_on;

/// A backend, and the instance behind it when that is in this process.
pub(crate) struct Connection {
    /// What commands talk to.
    pub backend: Arc<dyn Backend>,
    instance: Instance,
}

/// The code of a server that does not know the token.
const UNKNOWN_TOKEN: &str = "unknown_token";

/// What of a connection is in this process.
enum Instance {
    /// Nothing: the backend is a server.
    None,
    /// An engine that executes runs until this process ends.
    Engine(Box<Running>),
    /// Only what is needed while no server runs.
    Fallback(Arc<Fallback>),
}

/// Which process executes the runs that a command looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Executing {
    /// A server.
    Server,
    /// The engine in this process.
    Here,
    /// Another command, in its own process.
    Process(u32),
    /// None.
    Nothing,
}

impl Connection {
    /// A connection to an instance in this process.
    pub(crate) fn embedded(running: Running) -> Self {
        Self { backend: Arc::new(Embedded::new(running.app.clone())), instance: Instance::Engine(Box::new(running)) }
    }

    fn remote(client: Client) -> Self {
        Self { backend: Arc::new(Remote::new(client)), instance: Instance::None }
    }

    /// Whether runs end with this process.
    pub(crate) fn is_embedded(&self) -> bool {
        matches!(self.instance, Instance::Engine(_))
    }

    /// Which process executes runs behind this connection, as of the last answer.
    pub(crate) fn executing(&self) -> Executing {
        match &self.instance {
            Instance::None => Executing::Server,
            Instance::Engine(_) => Executing::Here,
            Instance::Fallback(fallback) => fallback.executing(),
        }
    }

    /// Lets go. An instance in this process is stopped in order; a second Ctrl-C does not wait for that.
    pub(crate) async fn close(self) {
        match self.instance {
            Instance::None => {}
            Instance::Engine(running) => drop(running.stop_or_leave().await),
            Instance::Fallback(fallback) => fallback.close().await,
        }
    }
}

/// Checks that `url` can be the URL of a server, and returns it without a slash at its end.
pub(crate) fn server_url(url: &str) -> Result<&str, CommandError> {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    match rest {
        Some(rest) if has_host(rest) && !rest.contains(['?', '#', ' ']) => Ok(url.trim_end_matches('/')),
        Some(_) | None => Err(CommandError::usage("bad_address", format!("{url:?} is not the URL of a server"))
            .with_hint("write it like http://127.0.0.1:8787")),
    }
}

/// Whether the part after the scheme begins with a host and, if it has one, a valid port.
fn has_host(rest: &str) -> bool {
    let authority = rest.split('/').next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let (name, port) = match host.rsplit_once(':') {
        // Colons in brackets are part of an IPv6 address.
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        _ => (host, None),
    };
    !name.is_empty() && port.is_none_or(|port| port.parse::<u16>().is_ok())
}

/// A client of the server that was named, which may be the project's own.
fn named(session: &Session, url: &str) -> Result<Client, CommandError> {
    let own = Project::find_data(&session.globals)
        .ok()
        .filter(|project| server_of(&project.data).is_some_and(|server| server.url == url.trim_end_matches('/')));
    match own {
        Some(project) => client_of(&project.data, url),
        None => client(url),
    }
}

/// A client of the server at `url`, with the token of the environment.
pub(crate) fn client(url: &str) -> Result<Client, CommandError> {
    let token = environment::variable(environment::TOKEN);
    Ok(Client::new(server_url(url)?, token.as_deref(), Arc::new(SystemClock))?)
}

/// A client of the server of a data directory, with the token of the environment or else the directory's own.
pub(crate) fn client_of(data: &DataDir, url: &str) -> Result<Client, CommandError> {
    let token = environment::variable(environment::TOKEN).or_else(|| data.read_token());
    Ok(Client::new(url, token.as_deref(), Arc::new(SystemClock))?)
}

/// What a command needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Agents and their providers, to run and call them. The config must be trusted.
    Engine(Execution),
    /// To change what is journaled. Without a server this process does it, and resumes nothing.
    Change,
    /// What the config says. Nothing of it is started or called.
    Config,
    /// The journal. Without a config it can be read all the same.
    Journal,
}

/// Where runs are executed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::Args)]
pub(crate) struct Execution {
    /// Run inside this process, without a server; for scripts and CI
    #[arg(long)]
    embedded: bool,
}

/// Asks the user about a folder that was moved, and a config that is not trusted yet. Commands that catch SIGINT call this before
/// they do, so that Ctrl-C ends the question. Without a terminal it does nothing, and `connect` refuses.
pub(crate) async fn ask_first(session: &Session) -> Result<(), CommandError> {
    let asking = Asking::at(&session.output);
    if session.globals.url.is_some() || matches!(asking, Asking::Never) {
        return Ok(());
    }
    project::settle_moved(session).await?;
    let project = Project::find(&session.globals)?;
    // A server that runs was trusted when it started.
    if server_of(&project.data).is_some_and(|server| !server_config::is_changed(&server)) {
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
    let connection = connect(session, command, need).await.map_err(|error| with_token_hint(session, error))?;
    let done = work(&connection).await;
    connection.close().await;
    done.map_err(|error| with_token_hint(session, error))
}

/// The error with what to do about a token of the environment that the project's own server refuses: that server has its own.
fn with_token_hint(session: &Session, error: CommandError) -> CommandError {
    let Some(token) = environment::variable(environment::TOKEN).filter(|_| error.code == UNKNOWN_TOKEN) else {
        return error;
    };
    let own = Project::find_data(&session.globals).ok().and_then(|project| project.data.read_token());
    let is_own_server = session.globals.url.is_none();
    match (is_own_server, own) {
        (true, own) if own.as_ref() != Some(&token) => {
            let has = if own.is_some() { "another token, which commands find" } else { "no token" };
            error.with_hint(format!(
                "unset {}: it is set in this shell, and the server of this project has {has} without it",
                environment::TOKEN
            ))
        }
        _ => error,
    }
}

async fn connect(session: &Session, command: &str, need: Need) -> Result<Connection, CommandError> {
    if let Some(url) = &session.globals.url {
        return match need {
            Need::Engine(Execution { embedded: true }) => {
                Err(CommandError::usage("conflicting_options", "--embedded runs without a server, and --url names one")
                    .with_hint("remove one of them; DRAWLOOM_URL counts as --url"))
            }
            _ => Ok(Connection::remote(named(session, url)?)),
        };
    }
    match need {
        Need::Engine(Execution { embedded: true }) => here(session, command).await,
        Need::Engine(Execution { embedded: false }) => find_or_start(session).await,
        Need::Change | Need::Config | Need::Journal => {
            let fallback = Arc::new(Fallback::new(session, command, need)?);
            Ok(Connection { backend: fallback.clone(), instance: Instance::Fallback(fallback) })
        }
    }
}

/// The project's server.
async fn find_or_start(session: &Session) -> Result<Connection, CommandError> {
    project::settle_moved(session).await?;
    if let Ok(project) = Project::find(&session.globals)
        && server_of(&project.data)
            .is_none_or(|server| server.config == project.files && server_config::is_changed(&server))
    {
        // The server checks this too; here the refusal has the user's own words and paths. A config that has changed and cannot be used
        // is refused although a server has the old one: its answers would be those of another team.
        local::usable(&project.shown, session.globals.config.is_empty(), Asking::at(&session.output))?;
    }
    let local = Local::new(&session.globals, local::Surface::Rest)?;
    let client = reach(&local).await?;
    if session.output.format() == Format::Human {
        let project = Project::find(&session.globals).ok();
        let is_new = |note: &told::Note| project.as_ref().is_none_or(|project| told::is_new(project, note));
        local.take_notes().into_iter().filter(is_new).for_each(|note| session.output.note(note.text));
    }
    Ok(Connection::remote(client))
}

/// A client of the server that `local` finds or starts.
pub(crate) async fn reach(local: &Local) -> Result<Client, CommandError> {
    let client = Client::of(Arc::new(local.clone()), Arc::new(SystemClock));
    match client.reach().await {
        Ok(()) => Ok(client),
        Err(error) => Err(match (error.wire_code(), local.take_refusal()) {
            ("in_use", _) => CommandError { exit: Exit::Usage, ..CommandError::from(error) },
            ("server_not_started", Some(refusal)) => refusal,
            _ => error.into(),
        }),
    }
}

/// An engine in this process. It fails when another process owns the data.
async fn here(session: &Session, command: &str) -> Result<Connection, CommandError> {
    project::settle_moved(session).await?;
    let project = Project::find(&session.globals)?;
    let lock = project.lock(&format!("{command} {EMBEDDED}"))?;
    let loaded = config::load_files(&project.shown)?;
    let origin = Origin::of(&session.globals.config, &project.shown);
    trust::check(&project.shown, &loaded, origin, Asking::at(&session.output))?;
    let running =
        start(Parts::from_config(loaded, Access::Owner(lock), Surface::Embedded, &crate::Extra::default())?).await?;
    if running.left_unfinished > 0 && session.output.format() == Format::Human {
        let count = running.left_unfinished;
        let runs = if count == 1 { "1 other run is".to_owned() } else { format!("{count} other runs are") };
        session.output.note(format!("{runs} interrupted; `drawloom restart` resumes them"));
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
