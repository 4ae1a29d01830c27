//! `drawloom stop` and `drawloom restart`: the server of the project, ended and started in the background.

use std::time::Duration;

use clap::Args;
use drawloom_contract::record::Status;
use drawloom_wire::runs::{ListRuns, RunResult};
use serde_json::json;

use crate::{
    cli::Look,
    commands::{
        Session,
        status::{holder_of, server_of},
    },
    connect,
    data_dir::{DataDir, ServerFile},
    exit::{CommandError, Exit},
    local::{self, Local, Surface},
    output::Format,
    project::{self, Project},
    server_config,
    trust::Asking,
};

/// A server that does not list its runs within this time is stopped all the same.
const SOON: Duration = Duration::from_secs(2);
/// How many runs are named.
const NAMED: usize = 3;

/// Stop the server of this project
///
/// Current steps finish first. Active runs continue when the server starts again.
#[derive(Debug, Args)]
pub struct Stop {
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Stop {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let project = Project::find_data(&session.globals)?;
        let (stopped, active) = stop(session, &project.data).await?.unzip();
        let holder = holder_of(&project.data, stopped.as_ref());
        let active = active.unwrap_or_default();
        match (session.output.format(), &stopped) {
            (Format::Json, _) => {
                let active: Vec<_> = active.iter().map(|run| run.run_id).collect();
                session.output.json(&json!({ "stopped": stopped, "held_by": holder, "active_runs": active }));
            }
            (Format::Human, Some(server)) => {
                session.output.line(format!("stopped the server at {} (process {})", server.url, server.pid));
                if let Some(runs) = named(&active) {
                    let when =
                        "when the server starts again: with `drawloom restart`, or the next command that needs it";
                    session.output.note(format!("{runs} on {when}"));
                }
            }
            (Format::Human, None) => {
                session.output.line(format!("{} has no running server", project.name()));
                if let Some(holder) = holder {
                    let held = format!("{} is using the data directory: wait until it ends", holder.about());
                    session.output.note(format!("{held}, or end it with `kill {}`", holder.pid));
                }
            }
        }
        Ok(Exit::Done)
    }
}

/// Start or restart the server of this project in the background
///
/// It resumes interrupted runs, and stops after ten minutes without clients or active runs.
#[derive(Debug, Args)]
pub struct Restart {
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Restart {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        project::settle_moved(session).await?;
        let project = Project::find(&session.globals)?;
        // A server is not stopped for a config that cannot be served.
        let loaded = local::usable(&project.shown, session.globals.config.is_empty(), Asking::at(&session.output))?;
        if let Some(server) = server_of(&project.data) {
            server_config::check(&server, &project.files[..1])?;
        }
        let before = stop(session, &project.data).await?.map(|(server, _)| server);
        let local = Local::new(&session.globals, Surface::Rest)?;
        connect::reach(&local).await?;
        let server = local.server().expect("a server that was found is known");
        match session.output.format() {
            Format::Json => session.output.json(&json!({ "server": server, "stopped": before })),
            Format::Human => {
                session.output.line(format!("serving {} at {} (process {})", project.name(), server.url, server.pid));
                local.take_notes().into_iter().for_each(|note| session.output.note(note.text));
                session.output.note("it stops after ten minutes without clients or active runs");
                if loaded.root().get("listen").is_some() {
                    session.output.note("`listen` of the config is not used: only `drawloom serve` listens there");
                }
            }
        }
        Ok(Exit::Done)
    }
}

/// The runs of a server that have not ended and that no other run spawned; none when it does not say so soon.
pub(crate) async fn active(data: &DataDir, server: &ServerFile) -> Vec<RunResult> {
    let Ok(client) = connect::client_of(data, &server.url) else { return Vec::new() };
    let status = Some(vec![Status::Queued, Status::Running, Status::Waiting]);
    let list = ListRuns { status, roots: true, limit: Some(200), ..ListRuns::default() };
    let listed = tokio::time::timeout(SOON, client.call(&list)).await;
    listed.ok().and_then(Result::ok).map(|page| page.runs).unwrap_or_default()
}

/// Names runs for a sentence that ends with "on".
pub(crate) fn named(runs: &[RunResult]) -> Option<String> {
    let names: Vec<String> = runs.iter().take(NAMED).map(|run| format!("{} ({})", run.run_id, run.agent)).collect();
    let more = match runs.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    match runs.len() {
        0 => None,
        1 => Some(format!("1 active run, {}, goes", names.join(", "))),
        count => Some(format!("{count} active runs, {}{more}, go", names.join(", "))),
    }
}

/// Stops the server of a data directory and waits until it is gone; nothing when there is none. The runs that were active then.
async fn stop(session: &Session, data: &DataDir) -> Result<Option<(ServerFile, Vec<RunResult>)>, CommandError> {
    let Some(server) = server_of(data) else { return Ok(None) };
    let active = active(data, &server).await;
    let spinner = session.output.spinner();
    spinner.set_message(&format!("process {} is finishing its current steps", server.pid));
    let stopped = local::stop(data, &server, None).await;
    spinner.clear();
    match stopped {
        Ok(true) => Ok(Some((server, active))),
        Ok(false) => Ok(None),
        Err(error) => {
            let message = format!("cannot stop process {}: {error}", server.pid);
            let hint = format!("run: kill {}", server.pid);
            Err(CommandError::failed("cannot_stop", message).with_hint(hint))
        }
    }
}
