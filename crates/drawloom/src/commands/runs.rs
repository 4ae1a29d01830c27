//! `drawloom runs`: list, show, follow, wait for, retry, cancel and delete runs.

mod cancel;
pub(crate) mod handle;
mod list;
mod remove;
mod retry;
mod show;
mod tail;
mod wait;

use clap::Subcommand;

use drawloom_wire::runs::RunResult;
use serde_json::Value;

use crate::{
    cli::Look,
    commands::Session,
    connect::Executing,
    exit::{CommandError, Exit},
};

pub(crate) use handle::{Handle, Named};

/// List, show, follow, retry, cancel and delete runs
#[derive(Debug, Subcommand)]
pub enum Runs {
    /// List runs, newest first
    #[command(visible_alias = "ls", after_help = list::HELP)]
    List(list::List),
    /// Show a run or a batch
    #[command(after_help = show::HELP)]
    Show(show::Show),
    /// Follow the events of runs, like a log
    #[command(after_help = tail::HELP)]
    Tail(tail::Tail),
    /// Wait for the end of runs or batches
    Wait(wait::Wait),
    /// Run a run that has ended once more
    Retry(retry::Retry),
    /// Cancel a run or a batch, with all child runs
    Cancel(cancel::Cancel),
    /// Delete runs or batches that have ended, with all child runs
    #[command(name = "rm")]
    Remove(remove::Remove),
}

impl Runs {
    pub(crate) fn look(&self) -> Look {
        match self {
            Self::List(list) => list.look,
            Self::Show(show) => show.look,
            Self::Tail(tail) => tail.look,
            Self::Wait(wait) => wait.look,
            Self::Retry(retry) => retry.look,
            Self::Cancel(cancel) => cancel.look,
            Self::Remove(remove) => remove.look,
        }
    }

    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        match self {
            Self::List(list) => list.perform(session).await,
            Self::Show(show) => show.perform(session).await,
            Self::Tail(tail) => tail.perform(session).await,
            Self::Wait(wait) => wait.perform(session).await,
            Self::Retry(retry) => retry.perform(session).await,
            Self::Cancel(cancel) => cancel.perform(session).await,
            Self::Remove(remove) => remove.perform(session).await,
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
