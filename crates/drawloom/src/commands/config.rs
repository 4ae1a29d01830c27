//! `drawloom config`: about the config itself.

mod show;

use clap::Subcommand;

use crate::{
    cli::Look,
    commands::Session,
    config,
    exit::{CommandError, Exit},
};

/// Show the config and its schema
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print the merged config with the origin of each value
    Show(show::Show),
    /// Print the JSON Schema of the config
    Schema {
        /// The format of the output.
        #[command(flatten)]
        look: Look,
    },
}

impl ConfigCommand {
    /// A schema is for programs, whatever was asked for.
    pub(crate) fn look(&self) -> Look {
        match self {
            Self::Show(show) => show.look,
            Self::Schema { look } => Look { json: look.output.is_none(), ..*look },
        }
    }

    pub(crate) fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        match self {
            Self::Show(show) => return show.perform(session),
            Self::Schema { .. } => session.output.json(&config::schema()),
        }
        Ok(Exit::Done)
    }
}
