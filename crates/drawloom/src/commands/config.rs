//! `drawloom config`: about the config itself.

use clap::Subcommand;

use crate::{
    cli::Look,
    commands::Session,
    config,
    exit::{CommandError, Exit},
};

/// Print the config schema
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
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
            Self::Schema { look } => Look { json: look.output.is_none(), ..*look },
        }
    }

    pub(crate) fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        match self {
            Self::Schema { .. } => session.output.json(&config::schema()),
        }
        Ok(Exit::Done)
    }
}
