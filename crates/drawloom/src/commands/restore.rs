//! `drawloom restore`: restores the store from a backup.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Args;
use serde_json::json;

use drawloom_contract::{
    caller::{Caller, Proof},
    ids::RunKey,
    runs::Runs,
};

use crate::{
    cli::Look,
    commands::Session,
    config,
    data_dir::{self, DataDir},
    exit::{CommandError, Exit},
    output::{Format, count},
    parts::{Parts, Surface},
    project::Project,
    start::start,
};

/// Restore the store from a backup
#[derive(Debug, Args)]
pub struct Restore {
    /// File that `drawloom backup` wrote
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Replace an existing store
    #[arg(long)]
    force: bool,
    /// Continue unfinished runs from the time of the backup; they may repeat steps
    #[arg(long, conflicts_with = "cancel")]
    resume: bool,
    /// Cancel unfinished runs
    #[arg(long)]
    cancel: bool,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Restore {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let explain = |error: drawloom_store::StoreError| CommandError::of(&error);
        let directory = Project::find_data(&session.globals)?.data;
        if let Err(error) = std::fs::File::open(&self.file) {
            return Err(CommandError::usage("bad_file", format!("{}: {error}", self.file.display()))
                .with_hint("pass a file that `drawloom backup` wrote"));
        }
        let found = drawloom_store::inspect(&self.file).map_err(|error| {
            explain(error).with_hint("nothing was changed; pass a whole file that `drawloom backup` wrote")
        })?;
        if found.unfinished > 0 && !self.resume && !self.cancel {
            let message = format!("the backup has {} unfinished runs", count(found.unfinished));
            return Err(CommandError { exit: Exit::NeedsInput, ..CommandError::usage("unfinished_runs", message) }
                .with_hint("pass --resume to continue them (they may repeat steps), or --cancel to cancel them"));
        }
        let lock = directory.lock("restore").map_err(|error| match error {
            data_dir::Error::InUse { server: Some(_), .. } => CommandError::from(error).with_hint(format!(
                "run `drawloom stop`, then `drawloom restore {} --force`, which replaces the runs of this project",
                self.file.display()
            )),
            _ => error.into(),
        })?;
        let store = directory.path().join(drawloom_store::FILE);
        // A store that cannot be read is what a backup is for.
        let before = store.exists().then(|| drawloom_store::inspect(&store).ok().map(|found| found.runs));
        if let Some(runs) = before.filter(|_| !self.force) {
            let runs = runs.map_or_else(String::new, |runs| format!(" with {} runs", count(runs)));
            let message = format!("{} already has a store{runs}", directory.path().display());
            return Err(CommandError::usage("not_empty", message)
                .with_hint("pass --force to replace it; `drawloom backup FILE` first keeps a copy of what it has"));
        }
        let unfinished = drawloom_store::list_unfinished(&self.file).map_err(explain)?;
        let mut cancelled = 0;
        match self.cancel && !unfinished.is_empty() {
            false => {
                drawloom_store::restore(&self.file, directory.path()).map_err(explain)?;
            }
            true => {
                // They are ended in a copy beside, so that nothing can take them up before that is done.
                let beside = tempfile::tempdir_in(directory.path())
                    .map_err(|error| CommandError::usage("bad_data_dir", error.to_string()))?;
                drawloom_store::restore(&self.file, beside.path()).map_err(explain)?;
                cancelled = cancel_all(beside.path(), &unfinished).await?;
                let ended = beside.path().join("ended");
                drawloom_store::backup(beside.path(), &ended).map_err(explain)?;
                drawloom_store::restore(&ended, directory.path()).map_err(explain)?;
            }
        }
        drop(lock);
        match session.output.format() {
            Format::Json => session.output.json(&json!({
                "data_dir": directory.path(), "runs": found.runs, "unfinished": found.unfinished,
                "cancelled": cancelled, "replaced_runs": before.flatten(),
            })),
            Format::Human => {
                let place = directory.path().display();
                session.output.line(format!("restored {} runs to {place}", count(found.runs)));
                if let Some(before) = before.flatten() {
                    session.output.line(format!("they replace a store with {} runs", count(before)));
                }
                match (found.unfinished, self.cancel) {
                    (0, _) => {}
                    (_, true) => session.output.line(format!("cancelled {cancelled} unfinished runs")),
                    (left, false) => session.output.line(format!(
                        "{} unfinished {} when the server starts: `drawloom restart`",
                        count(left),
                        if left == 1 { "run continues" } else { "runs continue" },
                    )),
                }
            }
        }
        Ok(Exit::Done)
    }
}

/// Cancels every unfinished run of every tenant in a directory; returns how many there were.
async fn cancel_all(directory: &Path, unfinished: &[RunKey]) -> Result<u64, CommandError> {
    // The runs' own tools and agents are not needed to end them, so no config is, either.
    let loaded = config::load_files(&[])?;
    let lock = DataDir::new(directory.to_owned()).lock("restore")?;
    let running = start(Parts::from_config(loaded, lock, Surface::Embedded, &crate::Extra::default())?).await?;
    let runs: Arc<dyn Runs> = running.runs();
    let mut cancelled = 0;
    for key in unfinished {
        let caller = Caller { tenant: key.tenant.clone(), ..Caller::open(Proof::Open) };
        let reason = Some("it was unfinished in a backup that was restored".to_owned());
        runs.cancel(&caller, key.run, reason).await?;
        runs.wait(&caller, key.run, None).await?;
        cancelled += 1;
    }
    running.stop().await;
    Ok(cancelled)
}
