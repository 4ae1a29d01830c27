//! `drawloom man`: the manual pages, for packagers.

use std::{fs, path::PathBuf};

use clap::Args;
use serde_json::json;

use crate::{
    cli::{Cli, Look},
    commands::Session,
    exit::{CommandError, Exit},
    output::Format,
};

/// Write manual pages
#[derive(Debug, Args)]
pub struct Man {
    /// Folder for the pages, one per command
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Man {
    pub(crate) fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let explain = |error: std::io::Error| {
            CommandError::failed("cannot_write", format!("{}: {error}", self.directory.display()))
        };
        fs::create_dir_all(&self.directory).map_err(explain)?;
        let mut command = Cli::described_in_full();
        // So that commands below others know their whole names.
        command.build();
        write_page(&self.directory, &command).map_err(explain)?;
        match session.output.format() {
            Format::Json => session.output.json(&json!({ "directory": self.directory })),
            Format::Human => session.output.line(self.directory.display().to_string()),
        }
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
