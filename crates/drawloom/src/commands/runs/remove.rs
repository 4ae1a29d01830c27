//! `drawloom runs rm`.

use clap::Args;
use serde_json::json;

use drawloom_wire::{
    batches::DeleteBatch,
    runs::{DeleteRun, Deleted, GetRun},
};

use crate::{
    cli::Look,
    commands::{
        Session,
        runs::{Handle, Named},
    },
    connect::{self, Connection, Need},
    exit::{CommandError, Exit},
    output::{Format, count, first_line},
};

/// Delete runs or batches that have ended, with all child runs
///
/// Deletes their journals, results and artifacts. A run that has not ended is refused.
#[derive(Debug, Args)]
pub struct Remove {
    /// Runs or batches: ids, starts of ids, `last`, or handles
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<Handle>,
    /// Delete without asking
    #[arg(long, short)]
    yes: bool,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Remove {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let output = &session.output;
        connect::with(session, "runs rm", Need::Change, async |connection| {
            let mut named = Vec::new();
            for handle in &self.runs {
                let one = handle.resolve_any(connection).await?;
                if !named.contains(&one) {
                    named.push(one);
                }
            }
            if !self.yes {
                for one in &named {
                    output.note(format!("would delete {}", describe(connection, *one).await?));
                }
                if !output.can_ask() {
                    let message = "nothing was deleted, because stdin is not a terminal to ask on";
                    let error = CommandError::usage("no_answer", message);
                    return Err(CommandError { exit: Exit::NeedsInput, ..error }.with_hint("pass --yes to delete them"));
                }
                if !output.confirm("Delete them? [y/N] ")? {
                    output.note("nothing was deleted");
                    return Ok(Exit::NeedsInput);
                }
            }
            let mut all = Vec::new();
            for one in named {
                let (id, deleted) = match one {
                    Named::Run(run_id) => {
                        let ask = DeleteRun { run_id, idempotency_key: None };
                        (run_id.to_string(), connection.backend.call(&ask).await?)
                    }
                    Named::Batch(batch_id) => {
                        let ask = DeleteBatch { batch_id, idempotency_key: None };
                        (batch_id.to_string(), connection.backend.call(&ask).await?)
                    }
                };
                if output.format() == Format::Human {
                    output.line(told(&id, deleted));
                }
                all.push(json!({ "id": id, "runs": deleted.runs, "records": deleted.records, "blobs": deleted.blobs }));
            }
            if output.format() == Format::Json {
                output.json(&json!({ "deleted": all }));
            }
            Ok(Exit::Done)
        })
        .await
    }
}

/// `r_01a1…: reader, completed, "Read warp.md", with 3 child runs`
async fn describe(connection: &Connection, named: Named) -> Result<String, CommandError> {
    match named {
        Named::Batch(batch) => Ok(format!("all runs of the batch {batch}")),
        Named::Run(run) => {
            let include = vec![drawloom_wire::runs::Include::Prompt];
            let ask = GetRun { run_id: Some(run), include, ..GetRun::default() };
            let found = connection.backend.call(&ask).await?;
            let prompt = first_line(found.prompt.as_deref().unwrap_or_default(), 40);
            let children = match found.tree.map_or(0, |tree| tree.children) {
                0 => String::new(),
                1 => ", with 1 child run".to_owned(),
                children => format!(", with {} child runs", count(children)),
            };
            Ok(format!("{run}: {}, {}, \"{prompt}\"{children}", found.agent, found.status.as_str()))
        }
    }
}

fn told(id: &str, deleted: Deleted) -> String {
    let runs = if deleted.runs == 1 { "1 run".to_owned() } else { format!("{} runs", count(deleted.runs)) };
    format!("deleted {id}: {runs}, {} records", count(deleted.records))
}
