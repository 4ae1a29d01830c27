//! What a command says of runs that it does not wait for any longer.

use drawloom_contract::ids::RunId;
use drawloom_wire::runs::GetRun;

use super::{Connection, Instance};
use crate::{commands::Session, exit::CommandError, project::Project};

impl Connection {
    /// The server behind this connection, as people find it.
    fn server(&self, session: &Session) -> String {
        let Some(url) = self.backend.address() else { return "the server".to_owned() };
        let known = Project::find_data(&session.globals).ok().and_then(|project| project.data.read_server());
        match known.filter(|server| server.url == *url) {
            Some(server) => format!("the server at {url} (process {})", server.pid),
            None => format!("the server at {url}"),
        }
    }

    /// Gives an engine in this process about a second to come to rest, and says whether it did. A server is not waited for.
    pub(crate) async fn rest(&self) -> bool {
        match &self.instance {
            Instance::Engine(running) => running.rest().await,
            Instance::None | Instance::Fallback(_) => false,
        }
    }

    /// The error of a command that is left while the server has not answered its request.
    pub(crate) fn left_unanswered(&self, session: &Session, key: &str) -> CommandError {
        let peer = if self.is_embedded() { "the engine".to_owned() } else { self.server(session) };
        CommandError::failed("interrupted", format!("left before {peer} answered; it may have accepted the request"))
            .with_hint(format!(
                "`drawloom runs list` shows what was accepted; the same command with --idempotency-key {key} follows it"
            ))
    }

    /// The error of a command that could not cancel its runs.
    pub(crate) fn unconfirmed(&self, session: &Session, mut error: CommandError, runs: &[RunId]) -> CommandError {
        error.details.extend(runs.iter().map(|run| self.may_continue(session, *run)));
        error
    }

    fn may_continue(&self, session: &Session, run: RunId) -> String {
        match self.is_embedded() {
            true => format!("run {run} may be interrupted: its cancel is not confirmed"),
            false => format!("run {run} may continue on {}: its cancel is not confirmed", self.server(session)),
        }
    }

    /// The error of a command that is left while it cancels these runs. `rests` says whether the journal cannot change any
    /// more.
    pub(crate) async fn left(&self, session: &Session, runs: &[RunId], rests: bool) -> CommandError {
        let mut details = Vec::new();
        for run in runs {
            details.push(match rests {
                true => self.last_state(session, *run).await,
                false => self.may_continue(session, *run),
            });
        }
        let run = runs.first().map_or_else(|| "RUN".to_owned(), RunId::to_string);
        let hint = match (self.is_embedded(), rests) {
            (true, true) => how_to_go_on(&run),
            (true, false) => format!("`drawloom runs show {run}` shows its state; {}", how_to_go_on(&run)),
            (false, _) => {
                format!("`drawloom runs show {run}` shows its state; `drawloom runs cancel {run}` cancels it")
            }
        };
        let message = "left before every run had ended";
        CommandError { details, ..CommandError::failed("interrupted", message) }.with_hint(hint)
    }

    /// What the journal says of a run.
    async fn last_state(&self, session: &Session, run: RunId) -> String {
        let ask = GetRun { run_id: Some(run), ..GetRun::default() };
        match self.backend.call(&ask).await {
            Ok(found) if found.status.is_terminal() => format!("run {run} is {}", found.status.as_str()),
            Ok(_) => format!("run {run} is interrupted"),
            Err(_) => self.may_continue(session, run),
        }
    }
}

/// How a run that is interrupted is resumed or ended.
pub(crate) fn how_to_go_on(run: &str) -> String {
    format!("`drawloom restart` resumes it; `drawloom runs cancel {run}` cancels it")
}
