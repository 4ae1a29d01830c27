//! `drawloom serve`: the agents of the config over HTTP, until somebody stops it.

use std::time::Duration;

use clap::Args;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;

use crate::{
    cli::Look,
    clock::SystemClock,
    commands::Session,
    config,
    data_dir::UNATTENDED,
    exit::{CommandError, Exit},
    output::{Format, Style},
    parts::{Parts, Surface},
    project::Project,
    start::{Running, start, stop_signal},
    trust::{self, Asking, Origin},
};

/// Serve the agents of the config over HTTP until stopped
#[derive(Debug, Args)]
pub struct Serve {
    /// Where to listen; port 0 takes a free one [default: `listen` of the config, 127.0.0.1:8787]
    #[arg(long, value_name = "IP:PORT")]
    listen: Option<String>,
    /// Stop by itself when for so many seconds nobody was connected and no run was unfinished
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    idle_exit: Option<u64>,
    /// Leave the session of whoever started it: for a server that `drawloom mcp` starts
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
            tracing::warn!(%error, "the server stays in the session of whoever started it");
        }
        let project = Project::find(&session.globals)?;
        let loaded = config::load_files(&project.shown)?;
        let given: &[_] = if self.found { &[] } else { &session.globals.config };
        trust::check(&project.shown, &loaded, Origin::of(given, &project.shown), Asking::at(&session.output))?;
        // After the question, which a signal ends.
        let stop = stop_signal();
        let command = if self.own_session { UNATTENDED } else { "serve" };
        let lock = project.lock(command)?;
        raise_open_files();
        let listen = self.listen.unwrap_or_else(|| loaded.config.listen.clone());
        let running = start(Parts::from_config(loaded, lock, Surface::Serve { listen }, &[])?).await?;
        announce(session, &running);
        let idle = async {
            match self.idle_exit {
                Some(seconds) => running.until_idle(&SystemClock, Duration::from_secs(seconds)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = stop => {}
            () = idle => tracing::info!(idle_exit = self.idle_exit, "nobody uses the server any more"),
        }
        tracing::info!("stopping: steps in flight come to their next record");
        match running.stop_or_leave().await {
            Some(report) => tracing::info!(abandoned = report.abandoned, "stopped"),
            None => tracing::warn!("stopped at once, by a second signal; nothing that was acknowledged is lost"),
        }
        Ok(Exit::Done)
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
    match output.format() {
        Format::Json => output.json_line(&json!({ "url": url, "pid": std::process::id() })),
        Format::Human => output.line(format!("drawloom serves at {}", output.styled(Style::Bold, url))),
    }
    if let Some(resumed) = &running.resumed {
        tracing::info!(%url, resumed = resumed.resumed, parked = resumed.parked, "serving");
    }
}
