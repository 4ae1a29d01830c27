//! `drawloom runs cancel`.

use clap::Args;

use drawloom_wire::{batches::CancelBatch, runs::CancelRun};

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
                    let cancelled = it.backend.call(&ask).await?;
                    match output.format() {
                        Format::Json => output.json(&cancelled),
                        Format::Human if cancelled.cancelled => {
                            let children = match cancelled.cascaded.len() {
                                0 => String::new(),
                                1 => " and 1 child run".to_owned(),
                                count => format!(" and {count} child runs"),
                            };
                            output.line(format!("cancelling {}{children}", cancelled.run_id));
                        }
                        Format::Human => {
                            let (run, status) = (cancelled.run_id, cancelled.status.as_str());
                            output.line(format!("{run} has already ended: {status}"));
                        }
                    }
                }
                Named::Batch(batch_id) => {
                    let ask = CancelBatch { batch_id, reason, idempotency_key: None };
                    let cancelled = it.backend.call(&ask).await?;
                    match output.format() {
                        Format::Json => output.json(&cancelled),
                        Format::Human => output.line(format!("cancelling {} runs of {batch_id}", cancelled.cancelled)),
                    }
                }
            }
            Ok(Exit::Done)
        })
        .await
    }
}
