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
        /// For whom the output is; a schema is for programs anyway.
        #[command(flatten)]
        _look: Look,
    },
}

impl ConfigCommand {
    pub(crate) fn wants_json(&self) -> bool {
        match self {
            Self::Show(show) => show.look.json,
            Self::Schema { .. } => true,
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
