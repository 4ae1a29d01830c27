//! `drawloom artifacts get`: an artifact as a file.

use std::{
    fs::OpenOptions,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use clap::Args;
use drawloom_wire::artifacts::GetArtifact;

use crate::{
    cli::Look,
    commands::{Session, runs::Handle},
    connect::{self, Need},
    exit::{CommandError, Exit},
    output::{Format, bytes},
};

/// Download an artifact
#[derive(Debug, Args)]
pub struct Get {
    /// Run: an id, the start of one, `last`, or a handle
    #[arg(value_name = "RUN")]
    run: Handle,
    /// Artifact name
    #[arg(value_name = "NAME")]
    name: String,
    /// Write to this new file [default: stdout]
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long, requires = "to")]
    force: bool,
    /// The format of the output.
    #[command(flatten)]
    pub(super) look: Look,
}

impl Get {
    pub(super) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let Self { run, name, to: file, force, .. } = self;
        let whole = connect::with(session, "artifacts get", Need::Journal, async |connection| {
            let run_id = run.resolve(connection).await?;
            connection.backend.call(&GetArtifact { run_id, name: name.clone() }).await
        })
        .await?;
        let output = &session.output;
        match (&file, output.format()) {
            (Some(file), format) => {
                save(file, &whole.text, force).map_err(|error| cannot_write(file, &error))?;
                match format {
                    Format::Json => output.json(&whole.artifact),
                    Format::Human => {
                        output.note(format!("wrote {} to {}", bytes(whole.text.len() as u64), file.display()))
                    }
                }
            }
            (None, Format::Json) => output.json(&whole),
            // A terminal would obey what an agent wrote.
            (None, Format::Human) => output.content(&whole.text),
        }
        Ok(Exit::Done)
    }
}

fn save(file: &Path, text: &str, force: bool) -> io::Result<()> {
    let mut options = OpenOptions::new();
    match force {
        true => options.write(true).create(true).truncate(true),
        false => options.write(true).create_new(true),
    };
    options.open(file)?.write_all(text.as_bytes())
}

fn cannot_write(file: &Path, error: &io::Error) -> CommandError {
    let failed = CommandError::failed("cannot_write", format!("cannot write {}: {error}", file.display()));
    match error.kind() {
        io::ErrorKind::AlreadyExists => failed.with_hint("choose another file, or pass --force to replace it"),
        _ => failed,
    }
}
