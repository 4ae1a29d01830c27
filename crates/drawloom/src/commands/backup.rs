//! `drawloom backup`: a copy of the store, also while a server runs.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use rustix::fs::{Access, access};
use serde_json::json;

use crate::{
    cli::Look,
    commands::Session,
    exit::{CommandError, Exit},
    output::{Format, bytes, count},
    project::Project,
};

/// How often the bar looks at how much there is.
const LOOK: Duration = Duration::from_millis(100);

/// Back up the store to a file
///
/// The server may keep running.
#[derive(Debug, Args)]
pub struct Backup {
    /// New file; an existing one is not replaced
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Backup {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        if session.globals.url.is_some() {
            return Err(CommandError::usage("no_remote_backup", "cannot back up a server over the network")
                .with_hint("run `drawloom backup` on the server's machine, with its --data-dir"));
        }
        let directory = Project::find_data(&session.globals)?.data;
        let file = std::path::absolute(&self.file)
            .map_err(|error| CommandError::usage("bad_file", format!("{}: {error}", self.file.display())))?;
        if file.symlink_metadata().is_ok() {
            return Err(CommandError::usage("exists", format!("{} exists", file.display()))
                .with_hint("choose another name, or delete the file first"));
        }
        let folder = file.parent().unwrap_or(Path::new("/"));
        access(folder, Access::WRITE_OK | Access::EXEC_OK).map_err(|error| {
            let message = format!("{}: {}", file.display(), std::io::Error::from(error));
            CommandError::usage("cannot_write", message)
                .with_hint("name a file in a folder that exists and can be written")
        })?;
        let (source, target) = (directory.path().to_owned(), file.clone());
        // The log may hold what the file does not have yet.
        let size = |name: &str| directory.path().join(name).metadata().map_or(0, |found| found.len());
        let bar = session.output.bytes_bar(size("drawloom.db").max(size("drawloom.db-wal")), "backup");
        let mut copying = tokio::task::spawn_blocking(move || drawloom_store::backup(&source, &target));
        let partial = drawloom_store::partial(&file);
        let made = loop {
            tokio::select! {
                made = &mut copying => break made,
                () = tokio::time::sleep(LOOK) => bar.set_position(partial.metadata().map_or(0, |found| found.len())),
            }
        };
        bar.clear();
        let made = made
            .map_err(|error| CommandError::failed("bug", format!("the backup failed: {error}")))?
            .map_err(|error| CommandError::of(&error))?;
        match session.output.format() {
            Format::Json => session.output.json(&json!({
                "file": file, "bytes": made.bytes, "runs": made.runs, "unfinished": made.unfinished,
            })),
            Format::Human => session.output.line(format!(
                "wrote {}: {}, {} runs, {} of them unfinished",
                self.file.display(),
                bytes(made.bytes),
                count(made.runs),
                count(made.unfinished),
            )),
        }
        Ok(Exit::Done)
    }
}
