//! `drawloom runs cancel`.

use clap::Args;

use drawloom_contract::record::Status;
use drawloom_wire::{
    batches::{CancelBatch, CancelledBatch, GetBatch},
    runs::{CancelRun, Cancelled, GetRun},
};

use crate::{
    cli::Look,
    commands::{
        Session,
        runs::{Handle, Named},
    },
    connect::{self, Need},
    exit::{CommandError, Exit},
    output::Format,
};

/// How long the command waits for the end of what it cancelled, in milliseconds.
const PATIENCE_MS: u64 = 5_000;

/// Cancel a run or a batch, with all child runs
#[derive(Debug, Args)]
pub struct Cancel {
    /// Run or batch: an id, the start of one, `last`, or a handle
    #[arg(value_name = "RUN")]
    run: Handle,
    /// Record why
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Cancel {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let Self { run, reason, .. } = self;
        let output = &session.output;
        connect::with(session, "runs cancel", Need::Change, async |it| {
            match run.resolve_any(it).await? {
                Named::Run(run) => {
                    let ask = CancelRun { run_id: Some(run), reason, ..CancelRun::default() };
                    let mut cancelled = it.backend.call(&ask).await?;
                    if cancelled.cancelled && !cancelled.status.is_terminal() {
                        let ask =
                            GetRun { run_id: Some(cancelled.run_id), wait_ms: Some(PATIENCE_MS), ..GetRun::default() };
                        cancelled.status = it.backend.call(&ask).await?.status;
                    }
                    match output.format() {
                        Format::Json => output.json(&cancelled),
                        Format::Human => output.line(outcome(&cancelled)),
                    }
                }
                Named::Batch(batch_id) => {
                    let ask = CancelBatch { batch_id, reason, idempotency_key: None };
                    let mut cancelled = it.backend.call(&ask).await?;
                    let ask = GetBatch { batch_id, wait_ms: Some(PATIENCE_MS), result_bytes: Some(0) };
                    let now = it.backend.call(&ask).await?.results;
                    for run in &mut cancelled.runs {
                        let found = now.iter().find(|now| now.run_id == run.run_id);
                        run.status = found.map_or(run.status, |now| now.status);
                    }
                    match output.format() {
                        Format::Json => output.json(&cancelled),
                        Format::Human => output.line(batch_outcome(&cancelled)),
                    }
                }
            }
            Ok(Exit::Done)
        })
        .await
    }
}

/// What became of a run: it may also have ended otherwise in the same moment.
fn outcome(told: &Cancelled) -> String {
    let children = match told.cascaded.len() {
        0 => String::new(),
        1 => " and 1 child run".to_owned(),
        count => format!(" and {count} child runs"),
    };
    match told.status {
        Status::Cancelled if told.cancelled => format!("cancelled {}{children}", told.run_id),
        status if status.is_terminal() => format!("{} has already ended: {}", told.run_id, status.as_str()),
        _ => format!("cancelling {}{children}", told.run_id),
    }
}

fn batch_outcome(told: &CancelledBatch) -> String {
    let verb = if told.runs.iter().all(|run| run.status.is_terminal()) { "cancelled" } else { "cancelling" };
    match told.cancelled {
        0 => format!("all runs of {} have already ended", told.batch_id),
        1 => format!("{verb} 1 run of {}", told.batch_id),
        count => format!("{verb} {count} runs of {}", told.batch_id),
    }
}
