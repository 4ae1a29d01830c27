//! `drawloom runs`: look at runs, follow them, stop them.

mod cancel;
mod list;
mod show;
mod tail;

use std::{convert::Infallible, str::FromStr};

use clap::Subcommand;

use drawloom_contract::ids::RunId;
use drawloom_wire::runs::{GetRun, RunResult};
use serde_json::Value;

use crate::{
    cli::Look,
    commands::Session,
    connect::{Connection, Executing},
    exit::{CommandError, Exit},
};

/// Look at runs, follow them, stop them
#[derive(Debug, Subcommand)]
pub enum Runs {
    /// List runs, newest first
    List(list::List),
    /// Show one run
    Show(show::Show),
    /// Follow a run: what happened so far, then what happens
    Tail(tail::Tail),
    /// Stop a run and all that it spawned
    Cancel(cancel::Cancel),
}

impl Runs {
    pub(crate) fn look(&self) -> Look {
        match self {
            Self::List(list) => list.look,
            Self::Show(show) => show.look,
            Self::Tail(tail) => tail.look,
            Self::Cancel(cancel) => cancel.look,
        }
    }

    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        match self {
            Self::List(list) => list.perform(session).await,
            Self::Show(show) => show.perform(session).await,
            Self::Tail(tail) => tail.perform(session).await,
            Self::Cancel(cancel) => cancel.perform(session).await,
        }
    }
}

/// A run's id, or the caller's handle of a run.
#[derive(Debug, Clone)]
pub struct Handle(String);

impl FromStr for Handle {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

impl Handle {
    /// What asks for it.
    pub(crate) fn ask(&self) -> Result<GetRun, CommandError> {
        if let Ok(run) = self.0.parse::<RunId>() {
            return Ok(GetRun { run_id: Some(run), ..GetRun::default() });
        }
        match self.0.parse() {
            Ok(agent_id) => Ok(GetRun { agent_id: Some(agent_id), ..GetRun::default() }),
            Err(_) => Err(CommandError::usage("bad_id", format!("{:?} is neither a run's id nor a handle", self.0))
                .with_hint("`drawloom runs list` shows the ids")),
        }
    }

    /// The run's id.
    pub(crate) async fn resolve(&self, connection: &Connection) -> Result<RunId, CommandError> {
        let ask = self.ask()?;
        match ask.run_id {
            Some(run) => Ok(run),
            None => Ok(connection.backend.call(&ask).await?.run_id),
        }
    }
}

impl Executing {
    /// Whether a run has not ended and no process executes it.
    pub(crate) fn is_interrupted(self, run: &RunResult) -> bool {
        self == Self::Nothing && !run.status.is_terminal()
    }

    /// Marks a run for programs. Its status stays as it is journaled.
    pub(crate) fn mark(self, run: &RunResult, shown: &mut Value) {
        if self.is_interrupted(run) {
            shown["interrupted"] = true.into();
        }
    }
}
