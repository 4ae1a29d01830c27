//! `drawloom serve`: the agents of the config over HTTP, until it is stopped.

use std::{pin::pin, time::Duration};

use clap::Args;
use drawloom_contract::time::Clock as _;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;

use crate::{
    cli::Look,
    clock::{SystemClock, SystemEntropy},
    commands::{
        Session,
        status::server_of,
        stop::{active, named},
    },
    config,
    data_dir::{self, Lock, UNATTENDED},
    exit::{CommandError, Exit},
    local, logging,
    output::{Format, Style},
    parts::{Parts, Surface, has_token},
    project::{self, Project},
    server_config,
    start::{Running, bind, listen_address, start, stop_signal},
    trust::{self, Asking, Origin},
};

/// The pause between two looks at a process that owns the data for a moment.
const PAUSE: Duration = Duration::from_millis(20);

/// Serve the agents of the config over HTTP
#[derive(Debug, Args)]
pub struct Serve {
    /// Listen on this address; port 0 picks a free port [default: `listen` of the config, or 127.0.0.1:8787]
    #[arg(long, value_name = "IP:PORT")]
    listen: Option<String>,
    /// Stop after this many seconds without connections and active runs
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    idle_exit: Option<u64>,
    /// Leave the session of the process that started it: for a server that `drawloom mcp` starts
    #[arg(long, hide = true)]
    own_session: bool,
    /// The config was found by the command that starts this server: it is trusted only if its user agreed to it
    #[arg(long, hide = true)]
    found: bool,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Serve {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        if self.own_session
            && let Err(error) = drawloom_process::own_session()
        {
            tracing::warn!(%error, "cannot leave the session of the parent process");
        }
        project::settle_moved(session).await?;
        let project = Project::find(&session.globals)?;
        let loaded = config::load_files(&project.shown)?;
        let given: &[_] = if self.found { &[] } else { &session.globals.config };
        trust::check(&project.shown, &loaded, Origin::of(given, &project.shown), Asking::at(&session.output))?;
        let listen = self.listen.unwrap_or_else(|| loaded.config.listen.clone());
        // Before a server that runs is stopped for this one.
        let listener = match bind(&listen).await {
            Ok(listener) => Some(listener),
            Err(error) if self.own_session || !gives_way(&project, &listen)? => return Err(error),
            Err(_) => None,
        };
        // After the question, which a signal ends.
        let mut stop = pin!(stop_signal());
        let command = if self.own_session { UNATTENDED } else { "serve" };
        let lock = match self.own_session {
            // The command that starts it holds the start lock.
            true => project.lock(command)?,
            false => tokio::select! {
                lock = take_over(session, &project, command) => lock?,
                () = &mut stop => return Ok(Exit::Done),
            },
        };
        raise_open_files();
        logging::write_in_background();
        // A server that was started by hand without any token is open to this machine, as its operator chose.
        let wants_token = self.own_session || has_token(&loaded);
        let own_token = wants_token.then(|| lock.token(&SystemEntropy::default())).transpose()?;
        let mut parts = Parts::from_config(loaded, lock, Surface::Serve { listen }, &crate::Extra::default())?;
        parts.own_token = own_token;
        parts.listener = listener;
        let running = start(parts).await?;
        announce(session, &running);
        let idle = async {
            match self.idle_exit {
                Some(seconds) => running.until_idle(&SystemClock, Duration::from_secs(seconds)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = &mut stop => {}
            () = idle => tracing::info!(idle_exit = self.idle_exit, "the server is idle"),
        }
        tracing::info!("shutting down, finishing current steps");
        match running.stop_or_leave().await {
            Some(report) => tracing::info!(abandoned = report.abandoned, "stopped"),
            None => tracing::warn!("stopped at once, by a second signal; nothing that was acknowledged is lost"),
        }
        Ok(Exit::Done)
    }
}

/// Whether the project's own server has the address; it gives way to this one.
fn gives_way(project: &Project, listen: &str) -> Result<bool, CommandError> {
    let port = |url: &str| url.rsplit(':').next().and_then(|port| port.parse::<u16>().ok());
    let address = listen_address(listen)?;
    Ok(server_of(&project.data).is_some_and(|server| port(&server.url) == Some(address.port())))
}

/// Owns the project's data. A server in the background, which some command started, gives way to this one; its unfinished runs
/// go on here.
async fn take_over(session: &Session, project: &Project, command: &str) -> Result<Lock, CommandError> {
    let until = SystemClock.now().after(local::WAY_TIME * 2);
    loop {
        let start = local::lock_start(&project.data).await.map_err(CommandError::from)?;
        let server = match project.data.lock(command) {
            Ok(lock) => {
                project.note(&lock)?;
                return Ok(lock);
            }
            Err(data_dir::Error::InUse { server: Some(server), holder: Some(holder), .. })
                if holder.command == UNATTENDED =>
            {
                server
            }
            // A server that starts or stops, or a short command.
            Err(error) if error.may_pass() && SystemClock.now() < until => {
                drop(start);
                SystemClock.sleep_until(SystemClock.now().after(PAUSE)).await;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        server_config::check(&server, &project.files)?;
        let active = active(&project.data, &server).await;
        let stopped = local::stop(&project.data, &server, Some(local::WAY_TIME)).await;
        let cannot = |error| CommandError::failed("cannot_stop", format!("process {}: {error}", server.pid));
        if !stopped.map_err(cannot)? {
            return Err(cannot(rustix::io::Errno::SRCH));
        }
        if session.output.format() == Format::Human {
            session.output.note(format!("this server replaces the one in the background (process {})", server.pid));
            if let Some(runs) = named(&active) {
                session.output.note(format!("{runs} on here"));
            }
        }
    }
}

/// Lets the process open as many files as it may: every connection is one, and the usual soft limit of 1,024 is fewer
/// than the connections that the server takes.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, limit = limit.current, "the limit of open files could not be raised");
    }
}

/// Says where the server is.
pub(crate) fn announce(session: &Session, running: &Running) {
    let url = running.url.as_deref().unwrap_or_default();
    let output = &session.output;
    let resumed = running.resumed.as_ref().map_or(0, |resumed| resumed.resumed as u64 + resumed.parked);
    match (output.format(), resumed) {
        (Format::Json, _) => {
            output.json_line(&json!({ "url": url, "pid": std::process::id(), "resumed": resumed }));
        }
        (Format::Human, resumed) => {
            output.line(format!("drawloom serves at {}", output.styled(Style::Bold, url)));
            match resumed {
                0 => {}
                1 => output.line("1 interrupted run was resumed"),
                count => output.line(format!("{count} interrupted runs were resumed")),
            }
        }
    }
    if let Some(resumed) = &running.resumed {
        tracing::info!(%url, resumed = resumed.resumed, parked = resumed.parked, "serving");
    }
}
