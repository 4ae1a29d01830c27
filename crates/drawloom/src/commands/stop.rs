//! `drawloom stop` and `drawloom restart`: the server of the project, ended and started in the background.

use std::sync::Arc;

use clap::Args;
use drawloom_contract::time::Clock as _;
use drawloom_wire::mcp::Upstream as _;
use rustix::{
    event::{PollFd, PollFlags, poll},
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};
use serde_json::json;

use crate::{
    cli::Look,
    clock::SystemClock,
    commands::{Session, mcp::Local, status::server_of},
    data_dir::{DataDir, ServerFile},
    exit::{CommandError, Exit},
    output::Format,
    project::Project,
};

/// Stop the server of this project: steps in flight come to their next record
#[derive(Debug, Args)]
pub struct Stop {
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Stop {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let project = Project::find_data(&session.globals)?;
        let stopped = stop(session, &project.data).await?;
        match (session.output.format(), &stopped) {
            (Format::Json, _) => session.output.json(&json!({ "stopped": stopped })),
            (Format::Human, Some(server)) => {
                session.output.line(format!("the server at {} (process {}) has stopped", server.url, server.pid));
            }
            (Format::Human, None) => session.output.line(format!("{} has no server that runs", project.name())),
        }
        Ok(Exit::Done)
    }
}

/// Start the server of this project in the background, anew when it runs; it takes up what was interrupted
#[derive(Debug, Args)]
pub struct Restart {
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Restart {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let project = Project::find(&session.globals)?;
        let before = stop(session, &project.data).await?;
        let local = Arc::new(Local::new(&session.globals, &[])?);
        local.find(None).await.map_err(CommandError::from)?;
        let server = server_of(&project.data)
            .ok_or_else(|| CommandError::failed("server_not_started", "the server that was started is gone again"))?;
        match session.output.format() {
            Format::Json => session.output.json(&json!({ "server": server, "stopped": before })),
            Format::Human => {
                session.output.line(format!("{} is served at {} (process {})", project.name(), server.url, server.pid));
                session.output.note("it stops by itself after ten minutes without a client and an unfinished run");
            }
        }
        Ok(Exit::Done)
    }
}

/// Stops the server of a data directory and waits until it is gone; nothing when there is none.
async fn stop(session: &Session, data: &DataDir) -> Result<Option<ServerFile>, CommandError> {
    let Some(server) = server_of(data) else { return Ok(None) };
    let refused = |error: rustix::io::Errno| {
        CommandError::failed("cannot_stop", format!("process {} cannot be stopped: {error}", server.pid))
            .with_hint(format!("end it by hand: kill {}", server.pid))
    };
    let pid = i32::try_from(server.pid).ok().and_then(Pid::from_raw).ok_or_else(|| refused(rustix::io::Errno::SRCH))?;
    let process = pidfd_open(pid, PidfdFlags::empty()).map_err(refused)?;
    // The process that is held now is the one that owns the directory: the number was not given to another one meanwhile.
    if !data.is_open_in(server.pid) {
        return Ok(None);
    }
    pidfd_send_signal(&process, Signal::TERM).map_err(refused)?;
    let began = SystemClock.now();
    let spinner = session.output.spinner();
    spinner.set_message(format!("process {} comes to its next records", server.pid));
    let ended = tokio::task::spawn_blocking(move || poll(&mut [PollFd::new(&process, PollFlags::IN)], None)).await;
    spinner.finish_and_clear();
    tracing::debug!(took = ?SystemClock.now().since(began), "the server has ended");
    match ended {
        Ok(Ok(_)) => Ok(Some(server)),
        Ok(Err(error)) => Err(refused(error)),
        Err(error) => Err(CommandError::failed("bug", format!("waiting for the server ended badly: {error}"))),
    }
}
