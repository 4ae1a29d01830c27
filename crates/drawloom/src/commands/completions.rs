//! `drawloom completions`: what a shell needs to complete command lines.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use crate::{
    cli::Cli,
    commands::Session,
    exit::{CommandError, Exit},
};

/// Print completions for a shell
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell
    #[arg(value_name = "SHELL", value_enum)]
    shell: Shell,
}

impl Completions {
    pub(crate) fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "drawloom", &mut script);
        session.output.write(&String::from_utf8_lossy(&script));
        Ok(Exit::Done)
    }
}
