//! `drawloom config`: about the config itself.

use clap::Subcommand;

use crate::{
    cli::Look,
    commands::Session,
    config,
    exit::{CommandError, Exit},
};

/// About the config
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print the JSON Schema of the config
    Schema {
        /// For whom the output is; a schema is for programs anyway.
        #[command(flatten)]
        _look: Look,
    },
}

impl ConfigCommand {
    pub(crate) fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        match self {
            Self::Schema { .. } => session.output.json(&config::schema()),
        }
        Ok(Exit::Done)
    }
}
