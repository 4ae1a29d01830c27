//! `drawloom man`: the manual pages, for packagers.

use std::{fs, path::PathBuf};

use clap::{Args, CommandFactory as _};

use crate::{
    cli::Cli,
    commands::Session,
    exit::{CommandError, Exit},
};

/// Write the manual pages
#[derive(Debug, Args)]
pub struct Man {
    /// The directory that they go to, one page for each command
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

impl Man {
    pub(crate) fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let explain = |error: std::io::Error| {
            CommandError::failed("cannot_write", format!("{}: {error}", self.directory.display()))
        };
        fs::create_dir_all(&self.directory).map_err(explain)?;
        let mut command = Cli::command();
        // So that commands below others know their whole names.
        command.build();
        write_page(&self.directory, &command).map_err(explain)?;
        session.output.line(self.directory.display().to_string());
        Ok(Exit::Done)
    }
}

/// The page of a command and the pages of those below it.
fn write_page(directory: &std::path::Path, command: &clap::Command) -> std::io::Result<()> {
    let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    fs::write(directory.join(format!("{name}.1")), page)?;
    let below = command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help");
    below.into_iter().try_for_each(|below| write_page(directory, below))
}
