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

/// List, read and download what agents wrote
#[derive(Debug, Subcommand)]
pub enum Artifacts {
    /// List the artifacts of a run's tree
    #[command(name = "ls", alias = "list")]
    List(list::List),
    /// Show part of an artifact, or search it
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
