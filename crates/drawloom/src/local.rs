//! The server of the data directory: found, or started in the background.
//!
//! The process that looks holds the directory's start lock, so of many commands that look at the same time one starts a server
//! and the others find it.

mod stop;
mod version;

use std::{
    ffi::OsString,
    io::{Read as _, Seek as _, SeekFrom},
    os::fd::OwnedFd,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use drawloom_contract::{
    failure::{Failure, FailureKind},
    time::{Clock as _, Instant},
};
use drawloom_process::{Detached, FirstWord};
use drawloom_wire::upstream::{Address, Upstream};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, pidfd_open},
};
use serde_json::Value;

use crate::{
    cli::Globals,
    clock::SystemClock,
    commands::mcp::endpoint,
    config::{self, Loaded},
    data_dir::{self, DataDir, Error, LOCK_GONE, ServerFile, UNATTENDED},
    environment,
    exit::CommandError,
    logging,
    project::Project,
    resolve::{self, LEAVE},
    server_config,
    told::Note,
    trust::{self, Asking, Origin},
};

/// After so many seconds without a client and an unfinished run a server that was started here stops.
const IDLE_EXIT: u64 = 600;

/// Where a server that was started here listens.
const FREE_ADDRESS: &str = "127.0.0.1:0";

/// How long a server may take from its start until it serves, before it is asked about again.
const START_TIME: Duration = Duration::from_secs(60);

/// How long a server that was started by hand may be away before another one takes its place: restarting it must not
/// be a race against the proxies of its clients.
const RETURN_TIME: Duration = Duration::from_secs(10);

/// How much of the end of a log is shown.
const LOG_TAIL: u64 = 2048;

pub(crate) use stop::{WAY_TIME, stop};

/// What a client wants of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Surface {
    Rest,
    Mcp { toolsets: Vec<String> },
}

impl Surface {
    fn url(&self, server: &ServerFile) -> Result<String, CommandError> {
        match self {
            Self::Rest => Ok(server.url.clone()),
            Self::Mcp { toolsets } => endpoint(&server.url, toolsets),
        }
    }
}

/// The server of a data directory.
#[derive(Clone)]
pub(crate) struct Local(Arc<Search>);

/// Looks for the server.
struct Search {
    directory: DataDir,
    /// What the server is told of where things are.
    globals: Vec<OsString>,
    /// The config that a server would be started with.
    config: Vec<PathBuf>,
    /// Its files as the user knows them.
    shown: Vec<PathBuf>,
    /// Whether that config was found, not named.
    is_found: bool,
    surface: Surface,
    /// Held by the task that looks.
    looking: tokio::sync::Mutex<Attended>,
    known: Mutex<Option<Arc<Found>>>,
    /// What the user should know of the servers that were found or started.
    notes: Mutex<Vec<Note>>,
    /// What the server that was started last said before it ended.
    refusal: Mutex<Option<CommandError>>,
}

/// A server that owned the directory when it was found. Its process is watched: once that is gone, its address
/// belongs to another process, which must not get the token.
struct Found {
    server: ServerFile,
    /// Nothing, when this machine does not show it: it runs in another container, or may not be looked at.
    process: Option<OwnedFd>,
    address: Address,
}

impl Found {
    fn lives(&self) -> bool {
        let Some(process) = &self.process else { return true };
        let mut ended = [PollFd::new(process, PollFlags::IN)];
        poll(&mut ended, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(0)
    }

    fn is_there(&self, directory: &DataDir) -> bool {
        self.lives() && directory.read_server().as_ref() == Some(&self.server)
    }
}

/// A server that was started by hand, when the last one that was found is such a one.
#[derive(Default)]
struct Attended {
    server: Option<Arc<Found>>,
    /// When it was first and last found to be away.
    away: Option<(Instant, Instant)>,
}

impl Attended {
    /// Whether it has still time to come back.
    fn may_return(&mut self, now: Instant) -> bool {
        // A server that is there is not asked about, so after a pause this is another outage.
        let since = self.away.filter(|(_, last)| now.since(*last) < RETURN_TIME).map_or(now, |(first, _)| first);
        self.away = Some((since, now));
        now.since(since) < RETURN_TIME
    }
}

impl Local {
    pub(crate) fn new(globals: &Globals, surface: Surface) -> Result<Self, CommandError> {
        // Without a config no server can be started, which says so itself.
        let project = Project::find(globals).or_else(|missing| Project::find_data(globals).map_err(|_| missing))?;
        let mut told: Vec<OsString> = vec!["--data-dir".into(), project.data.path().into()];
        for config in &project.files {
            told.extend(["--config".into(), config.into()]);
        }
        Ok(Self(Arc::new(Search {
            directory: project.data,
            globals: told,
            config: project.files,
            shown: project.shown,
            is_found: globals.config.is_empty(),
            surface,
            looking: tokio::sync::Mutex::default(),
            known: Mutex::default(),
            notes: Mutex::default(),
            refusal: Mutex::default(),
        })))
    }

    /// The server that was found last.
    pub(crate) fn server(&self) -> Option<ServerFile> {
        self.0.last().map(|found| found.server.clone())
    }

    /// Why the server that was started last ended at once, in its own words.
    pub(crate) fn take_refusal(&self) -> Option<CommandError> {
        self.0.refusal.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// What the user should know of the servers that were found or started since the last call.
    pub(crate) fn take_notes(&self) -> Vec<Note> {
        std::mem::take(&mut *self.0.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Search {
    /// Finds the server, or starts one.
    async fn look(&self, attended: &mut Attended) -> Result<Arc<Found>, Failure> {
        if let Some(server) = attended.server.clone()
            && attended.may_return(SystemClock.now())
        {
            // Only looked at: who takes the lock, however briefly, may be in the way of the process that restarts it.
            match self.directory.read_server() {
                Some(found) if found == server.server && server.lives() => return Ok(server),
                // A server that is restarted says so by another file.
                Some(found) if found != server.server => {}
                Some(_) | None => return Err(away("the server that was started by hand is not there at the moment")),
            }
        }
        let _start_lock = lock_start(&self.directory).await?;
        match self.directory.lock("mcp") {
            Ok(lock) => drop(lock),
            Err(Error::InUse { server: Some(server), holder, .. }) => {
                if holder.as_ref().is_some_and(|holder| holder.pid != server.pid) {
                    return Err(away("a server is just being started"));
                }
                let by_hand = holder.is_none_or(|holder| holder.command != UNATTENDED);
                let found = Arc::new(self.found(*server)?);
                if by_hand || !self.replaces(&found).await {
                    *attended = Attended { server: by_hand.then(|| found.clone()), away: None };
                    return Ok(found);
                }
            }
            Err(error) if error.may_pass() => {
                return Err(away(&error.to_string()));
            }
            Err(Error::InUse { path, holder: Some(holder), server: None }) if holder.command == LOCK_GONE => {
                let gone = data_dir::gone(&path, holder.pid);
                let failure = Failure::new(FailureKind::Broken, "store_gone", gone.message);
                return Err(gone.hint.into_iter().fold(failure, Failure::with_hint));
            }
            Err(error @ Error::InUse { server: None, .. }) => {
                let hint = "wait until it has ended, or pass another --data-dir";
                return Err(Failure::new(FailureKind::Unavailable, "in_use", error.to_string()).with_hint(hint));
            }
            Err(error @ Error::Io { .. }) => return Err(unusable(&error)),
        }
        *attended = Attended::default();
        self.start().await.map_err(|why| self.explain(why))?;
        let server = self.directory.read_server().ok_or_else(|| away("the server that was started is gone again"))?;
        self.found(server).map(Arc::new)
    }

    /// Ends a server that is idle and older than this program, or than the config; says whether it did.
    async fn replaces(&self, found: &Found) -> bool {
        let server = &found.server;
        let is_older = version::is_older(server);
        // The server of another config is refused later, and not ended.
        let is_changed = server.config == self.config && server_config::is_changed(server);
        // A server is not stopped for a config that cannot be served.
        let is_wanted = is_older || (is_changed && usable(&self.shown, self.is_found, Asking::Never).is_ok());
        if !is_wanted {
            return false;
        }
        let address = Address { url: server.url.as_str().into(), ..found.address.clone() };
        if !version::is_idle(&address).await {
            if is_older {
                self.note(Note::of_state(version::note(server), format!("older {:?}", server.instance)));
            }
            return false;
        }
        match stop(&self.directory, server, Some(WAY_TIME)).await {
            Ok(false) => false,
            Ok(true) => {
                self.note(Note::of_event(match is_older {
                    true => format!("the server of drawloom {} (process {}) was replaced", server.version, server.pid),
                    false => server_config::restarted(server),
                }));
                true
            }
            Err(error) => {
                let text = format!("the server (process {}) cannot be replaced: {error}", server.pid);
                self.note(Note::of_event(text));
                false
            }
        }
    }

    fn note(&self, note: Note) {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).push(note);
    }
}

/// The config in `files`, when a server could be started with it and the user agreed to what it can do.
pub(crate) fn usable(files: &[PathBuf], is_found: bool, asking: Asking<'_>) -> Result<Loaded, CommandError> {
    let loaded = config::load_files(files)?;
    let given = if is_found { &[] } else { files };
    trust::check(files, &loaded, Origin::of(given, files), asking)?;
    resolve::resolve(&loaded, &crate::Extra::default()).map_err(config::refuse)?;
    Ok(loaded)
}

/// Waits until no other process starts a server here, which must not take longer than a start does.
pub(crate) async fn lock_start(directory: &DataDir) -> Result<std::fs::File, Failure> {
    let directory = directory.clone();
    let deadline = SystemClock.now().after(START_TIME);
    // A caller that gives up leaves a blocked thread; that thread releases the lock right after it gets it.
    let waiting = tokio::task::spawn_blocking(move || directory.lock_start());
    tokio::select! {
        locked = waiting => locked.expect("waiting for a lock does not panic").map_err(|error| unusable(&error)),
        () = SystemClock.sleep_until(deadline) => {
            let hint = "end the process that holds start.lock in the data directory";
            Err(away("another process has been starting a server for a minute").with_hint(hint))
        }
    }
}

impl Search {
    /// A server that owns the directory.
    fn found(&self, server: ServerFile) -> Result<Found, Failure> {
        let pid = i32::try_from(server.pid).ok().and_then(Pid::from_raw);
        let process = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        let url = self.surface.url(&server).map_err(|error| bad_address(&error))?.into();
        // The user's own token says on whose behalf a command calls; without one it is the operator's.
        // A server that this machine does not show may have another network: then another program has its address here.
        let own = || self.directory.read_token().filter(|_| self.directory.is_open_in(server.pid));
        let token = environment::variable(environment::TOKEN).or_else(own);
        let instance = server.instance.as_deref().map(Into::into);
        let address = Address { url, instance, token: token.map(Into::into) };
        Ok(Found { server, process, address })
    }

    async fn find(&self, failed: Option<Address>) -> Result<Address, Failure> {
        let mut attended = self.looking.lock().await;
        let known = self.last().filter(|known| failed.as_ref() != Some(&known.address));
        if let Some(known) = known.filter(|known| known.is_there(&self.directory)) {
            return Ok(known.address.clone());
        }
        let found = self.look(&mut attended).await?;
        server_config::check(&found.server, &self.config).map_err(|error| {
            let failure = Failure::new(FailureKind::Invalid, "other_config", error.message);
            error.hint.into_iter().fold(failure, Failure::with_hint)
        })?;
        let before = self.known.lock().unwrap_or_else(PoisonError::into_inner).replace(found.clone());
        if before.is_none_or(|before| before.server != found.server) && server_config::is_changed(&found.server) {
            self.note(server_config::note(&found.server));
        }
        Ok(found.address.clone())
    }

    fn last(&self) -> Option<Arc<Found>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn start(&self) -> Result<(), NotStarted> {
        let log = self.directory.open_log().map_err(|error| NotStarted::said("bad_data_dir", error.to_string()))?;
        let log_start = log.metadata().map_or(0, |found| found.len());
        let mut args = self.globals.clone();
        args.extend(["serve", "--json", "--own-session", "--idle-exit"].map(OsString::from));
        args.push(IDLE_EXIT.to_string().into());
        args.extend(self.is_found.then(|| "--found".into()));
        // Clients read the address from server.json. `listen` of the config applies to `drawloom serve` only.
        args.extend(["--listen", FREE_ADDRESS].map(OsString::from));
        let broken = |error: std::io::Error| NotStarted::said("server_not_started", error.to_string());
        let mut server = Detached::start(LEAVE, args, log).map_err(broken)?;
        let deadline = SystemClock.now().after(START_TIME);
        let word = tokio::select! {
            word = server.first_word() => word.map_err(broken)?,
            () = SystemClock.sleep_until(deadline) => return Err(NotStarted::slow()),
        };
        let text = match &word {
            FirstWord::Line(text) | FirstWord::Ended(text) => text,
        };
        let said: Value = serde_json::from_str(text).unwrap_or_default();
        match (word, said["url"].as_str()) {
            (FirstWord::Line(_), Some(url)) => {
                tracing::info!(%url, "a server was started");
                match said["resumed"].as_u64() {
                    None | Some(0) => {}
                    Some(count) => {
                        let runs = if count == 1 { "run" } else { "runs" };
                        let text = format!("the server that was started resumed {count} interrupted {runs}");
                        self.note(Note::of_event(text));
                    }
                }
                Ok(())
            }
            _ => {
                *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = CommandError::from_json(&said);
                Err(NotStarted::of(&said).unwrap_or_else(|| {
                    NotStarted::said("server_not_started", format!("it ended at once{}", self.log_since(log_start)))
                }))
            }
        }
    }

    /// What the log says since `start`, when it says something.
    fn log_since(&self, start: u64) -> String {
        let read = || -> std::io::Result<String> {
            let mut file = std::fs::File::open(self.directory.log_path())?;
            let end = file.metadata()?.len();
            file.seek(SeekFrom::Start(start.max(end.saturating_sub(LOG_TAIL))))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
        };
        match read() {
            Ok(text) if !text.is_empty() => format!(": {text}"),
            Ok(_) | Err(_) => " without output".into(),
        }
    }

    fn explain(&self, why: NotStarted) -> Failure {
        let NotStarted { code, message, hint, kind } = why;
        if code == "in_use" {
            // Another process was quicker: looking again finds it.
            return away(&message);
        }
        let message = logging::masked(&format!("a server could not be started: {message}"));
        let log = format!("its log is {}", self.directory.log_path().display());
        let hint = hint.map_or_else(|| log.clone(), |hint| format!("{hint}; {log}"));
        Failure::new(kind, "server_not_started", message).with_hint(logging::masked(&hint))
    }
}

#[async_trait]
impl Upstream for Local {
    async fn find(&self, failed: Option<&Address>) -> Result<Address, Failure> {
        let (search, failed) = (self.0.clone(), failed.cloned());
        // A caller that stops waiting does not break off the start of a server.
        let found = tokio::spawn(async move { search.find(failed).await }).await;
        found.unwrap_or_else(|_| Err(away("the search for the server was given up")))
    }

    fn known(&self) -> Option<Address> {
        let (search, last) = (&self.0, self.0.last()?);
        if last.is_there(&search.directory) {
            return Some(last.address.clone());
        }
        // Another one may have taken its place.
        let server = search.directory.read_server().filter(|server| search.directory.is_open_in(server.pid))?;
        search.found(server).ok().map(|found| found.address)
    }
}

fn away(what: &str) -> Failure {
    Failure::new(FailureKind::Unavailable, "upstream_away", what)
}

/// Why a server did not start, as it said itself.
struct NotStarted {
    code: String,
    message: String,
    hint: Option<String>,
    kind: FailureKind,
}

impl NotStarted {
    fn said(code: &str, message: String) -> Self {
        Self { code: code.into(), message, hint: None, kind: FailureKind::Invalid }
    }

    fn slow() -> Self {
        let message = format!("it does not serve after {} s", START_TIME.as_secs());
        Self { kind: FailureKind::Unavailable, ..Self::said("server_not_started", message) }
    }

    /// The error that a command prints as JSON.
    fn of(said: &Value) -> Option<Self> {
        let error = said.get("error")?;
        let mut message = error["message"].as_str()?.to_owned();
        for detail in error["details"].as_array().into_iter().flatten().filter_map(Value::as_str).take(5) {
            message.push_str("; ");
            message.push_str(detail);
        }
        let hint = error["hint"].as_str().map(str::to_owned);
        Some(Self { hint, ..Self::said(error["code"].as_str()?, message) })
    }
}

fn unusable(error: &Error) -> Failure {
    Failure::new(FailureKind::Invalid, "bad_data_dir", error.to_string())
        .with_hint("make it writable for this user, or pass --data-dir")
}

fn bad_address(error: &CommandError) -> Failure {
    Failure::new(FailureKind::Invalid, "bad_address", error.message.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(instance: &str, pid: u32) -> ServerFile {
        ServerFile {
            url: "http://127.0.0.1:1".into(),
            pid,
            version: "0".into(),
            started_at: "then".into(),
            instance: Some(instance.into()),
            config: Vec::new(),
            config_digest: None,
        }
    }

    #[tokio::test]
    async fn a_server_is_known_once_it_was_found_and_for_as_long_as_its_process_lives() {
        let temporary = tempfile::tempdir().expect("a temporary directory");
        let directory = DataDir::new(temporary.path());
        let lock = directory.lock("serve").expect("the lock is free");
        let local = Local(Arc::new(Search {
            directory,
            globals: Vec::new(),
            config: Vec::new(),
            shown: Vec::new(),
            is_found: false,
            surface: Surface::Mcp { toolsets: Vec::new() },
            looking: tokio::sync::Mutex::default(),
            known: Mutex::default(),
            notes: Mutex::default(),
            refusal: Mutex::default(),
        }));
        let address = |instance: &str| Address {
            url: "http://127.0.0.1:1/mcp".into(),
            instance: Some(instance.into()),
            token: None,
        };
        lock.announce(&server("one", std::process::id())).expect("a writable directory");
        assert_eq!(local.known(), None);
        assert_eq!(local.find(None).await.ok(), Some(address("one")));
        assert_eq!(local.known(), Some(address("one")));
        lock.announce(&server("two", std::process::id())).expect("a writable directory");
        assert_eq!(local.known(), Some(address("two")), "it has taken the place of the other");
        assert_eq!(local.find(None).await.ok(), Some(address("two")));
        let mut ended = std::process::Command::new("true").spawn().expect("a program");
        ended.wait().expect("it ends");
        lock.announce(&server("three", ended.id())).expect("a writable directory");
        assert_eq!(local.known(), None);
        assert_eq!(local.find(None).await.map_err(|failure| failure.code), Err("upstream_away"));
    }
}
