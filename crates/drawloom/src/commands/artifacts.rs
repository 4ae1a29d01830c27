//! `drawloom artifacts`: what agents wrote for their callers.

mod get;
mod list;
mod show;

use clap::Subcommand;

use crate::{
    cli::Look,
    commands::Session,
    exit::{CommandError, Exit},
};

/// List, show and download the files that agents wrote
#[derive(Debug, Subcommand)]
pub enum Artifacts {
    /// List the artifacts of a run and its child runs
    #[command(visible_alias = "ls")]
    List(list::List),
    /// Show or search an artifact
    Show(show::Show),
    /// Download an artifact
    Get(get::Get),
}

impl Artifacts {
    pub(crate) fn look(&self) -> Look {
        match self {
            Self::List(list) => list.look,
            Self::Show(show) => show.look,
            Self::Get(get) => get.look,
        }
    }

    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        match self {
            Self::List(list) => list.perform(session).await,
            Self::Show(show) => show.perform(session).await,
            Self::Get(get) => get.perform(session).await,
        }
    }
}
