//! `drawloom completions`: what a shell needs to complete command lines.

use clap::Args;
use clap_complete::Shell;
use serde_json::json;

use crate::{
    cli::{Cli, Look},
    commands::Session,
    exit::{CommandError, Exit},
    output::Format,
};

/// Print a completion script for a shell
#[derive(Debug, Args)]
pub struct Completions {
    /// Shell
    #[arg(value_name = "SHELL", value_enum)]
    shell: Shell,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Completions {
    pub(crate) fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::described_in_full(), "drawloom", &mut script);
        let script = String::from_utf8_lossy(&script);
        match session.output.format() {
            Format::Json => session.output.json(&json!({ "shell": self.shell.to_string(), "script": script })),
            Format::Human => session.output.write(&script),
        }
        Ok(Exit::Done)
    }
}
