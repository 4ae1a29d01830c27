//! The server of the data directory: found, or started to stay.
//!
//! Whoever looks holds the directory's start lock, so of many proxies that look at the same time one starts a server and
//! the others find it.

use std::{
    ffi::OsString,
    io::{Read as _, Seek as _, SeekFrom},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use drawloom_contract::{
    failure::{Failure, FailureKind},
    time::{Clock as _, Timestamp},
};
use drawloom_process::{Detached, FirstWord};
use drawloom_wire::mcp::Upstream;
use serde_json::Value;

use super::endpoint;
use crate::{
    cli::Globals,
    clock::SystemClock,
    connect,
    data_dir::{DataDir, Error, ServerFile, UNATTENDED},
    exit::CommandError,
    logging,
    resolve::LEAVE,
};

/// After so many seconds without a client and an unfinished run a server that was started here stops.
const IDLE_EXIT: u64 = 600;

/// How long a server may take from its start until it serves, before it is asked about again.
const START_TIME: Duration = Duration::from_secs(60);

/// How long a server that somebody started by hand may be away before another one takes its place: restarting it must not
/// be a race against the proxies of its clients.
const RETURN_TIME: Duration = Duration::from_secs(10);

/// How much of the end of a log is shown.
const LOG_TAIL: u64 = 2048;

/// The server of a data directory.
pub(super) struct Local {
    directory: DataDir,
    /// What the server is told of where things are.
    globals: Vec<OsString>,
    toolsets: Vec<String>,
    /// Held by the one who looks.
    looking: tokio::sync::Mutex<Attended>,
    known: Mutex<Option<Arc<str>>>,
}

/// A server that somebody started by hand, when the last one that was found is such a one.
#[derive(Default)]
struct Attended {
    server: Option<ServerFile>,
    /// When it was first and last found to be away.
    away: Option<(Timestamp, Timestamp)>,
}

impl Attended {
    /// Whether it has still time to come back.
    fn may_return(&mut self, now: Timestamp) -> bool {
        // Nobody asks about a server that is there, so after a pause this is another outage.
        let since = self.away.filter(|(_, last)| now.since(*last) < RETURN_TIME).map_or(now, |(first, _)| first);
        self.away = Some((since, now));
        now.since(since) < RETURN_TIME
    }
}

impl Local {
    pub(super) fn new(globals: &Globals, toolsets: &[String]) -> Result<Self, CommandError> {
        let directory = connect::data_dir(globals)?;
        let mut told: Vec<OsString> = vec!["--data-dir".into(), directory.path().into()];
        for config in &globals.config {
            told.extend(["--config".into(), config.into()]);
        }
        Ok(Self {
            directory,
            globals: told,
            toolsets: toolsets.to_vec(),
            looking: tokio::sync::Mutex::default(),
            known: Mutex::default(),
        })
    }

    /// Finds the server, or starts one.
    async fn look(&self, attended: &mut Attended) -> Result<String, Failure> {
        if let Some(server) = attended.server.clone()
            && attended.may_return(SystemClock.now())
        {
            // Only looked at: who takes the lock, however briefly, may be in the way of whoever restarts it.
            match self.directory.read_server() {
                Some(found) if found == server => return Ok(server.url),
                Some(_) => {}
                None => {
                    let what = "the server that was started by hand is not there at the moment";
                    return Err(Failure::new(FailureKind::Unavailable, "upstream_away", what));
                }
            }
        }
        let directory = self.directory.clone();
        let start_lock = tokio::task::spawn_blocking(move || directory.lock_start()).await;
        let _start_lock = start_lock.expect("waiting for a lock does not panic").map_err(|error| unusable(&error))?;
        match self.directory.lock("mcp") {
            Ok(lock) => drop(lock),
            Err(Error::InUse { server: Some(server), holder, .. }) => {
                let url = server.url.clone();
                let by_hand = holder.is_none_or(|holder| holder.command != UNATTENDED);
                *attended = Attended { server: by_hand.then_some(*server), away: None };
                return Ok(url);
            }
            Err(error @ Error::InUse { server: None, .. }) => {
                let hint = "wait until it has ended; `drawloom serve` shares the directory with all others";
                return Err(Failure::new(FailureKind::Unavailable, "in_use", error.to_string()).with_hint(hint));
            }
            Err(error @ Error::Io { .. }) => return Err(unusable(&error)),
        }
        *attended = Attended::default();
        match self.start(None).await {
            // Whoever has the port has nothing to do with this directory; clients find the address in it.
            Err(NotStarted { code, .. }) if code == "cannot_listen" => {
                tracing::warn!("the configured address is taken; a server is started at a free one");
                self.start(Some("127.0.0.1:0")).await.map_err(|why| self.explain(why))
            }
            started => started.map_err(|why| self.explain(why)),
        }
    }

    async fn start(&self, listen: Option<&str>) -> Result<String, NotStarted> {
        let log = self.directory.open_log().map_err(|error| NotStarted::said("bad_data_dir", error.to_string()))?;
        let log_start = log.metadata().map_or(0, |found| found.len());
        let mut args = self.globals.clone();
        args.extend(["serve", "--json", "--own-session", "--idle-exit"].map(OsString::from));
        args.push(IDLE_EXIT.to_string().into());
        args.extend(listen.into_iter().flat_map(|listen| ["--listen", listen]).map(OsString::from));
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
                Ok(url.to_owned())
            }
            _ => Err(NotStarted::of(&said).unwrap_or_else(|| {
                NotStarted::said("server_not_started", format!("it ended at once{}", self.log_since(log_start)))
            })),
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
            Ok(_) | Err(_) => " and said nothing".into(),
        }
    }

    fn explain(&self, why: NotStarted) -> Failure {
        let NotStarted { code, message, hint, kind } = why;
        if code == "in_use" {
            // Somebody was quicker: looking again finds it.
            return Failure::new(FailureKind::Unavailable, "in_use", message);
        }
        let message = logging::masked(&format!("a server could not be started: {message}"));
        let log = format!("its log is {}", self.directory.log_path().display());
        let hint = hint.map_or_else(|| log.clone(), |hint| format!("{hint}; {log}"));
        Failure::new(kind, "server_not_started", message).with_hint(logging::masked(&hint))
    }
}

#[async_trait]
impl Upstream for Local {
    async fn find(&self, failed: Option<&str>) -> Result<Arc<str>, Failure> {
        let mut attended = self.looking.lock().await;
        if let Some(known) = self.known().filter(|known| failed != Some(&**known)) {
            return Ok(known);
        }
        let url = self.look(&mut attended).await?;
        let found: Arc<str> = endpoint(&url, &self.toolsets).map_err(|error| bad_address(&error))?.into();
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(found.clone());
        Ok(found)
    }

    fn known(&self) -> Option<Arc<str>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
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
