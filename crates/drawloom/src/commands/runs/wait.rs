//! `drawloom runs wait`.

use std::time::Duration;

use clap::Args;
use serde_json::json;

use drawloom_contract::{
    record::Status,
    time::{Clock as _, Instant},
};
use drawloom_wire::runs::{GetRun, RunResult};

use crate::{
    cli::{Look, Quiet},
    clock::SystemClock,
    commands::{
        Session, batch,
        runs::{Handle, show::refuse_to_wait},
    },
    connect::{self, Connection, Need},
    exit::{CommandError, Exit},
    interrupts::Interrupts,
    output::Format,
};

/// How long one request waits, in milliseconds.
const STEP_MS: u64 = 30_000;

/// Wait for the end of runs or batches
///
/// Exits with 0 when all of them completed, and with 1 when one failed, was cancelled or timed out. Ctrl-C stops waiting; the runs
/// continue.
#[derive(Debug, Args)]
pub struct Wait {
    /// Runs or batches: ids, starts of ids, `last`, or handles
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<Handle>,
    /// Wait at most this long, such as 90s, 15m or 2h; then exit with 1
    #[arg(long, value_name = "TIME", value_parser = crate::commands::wait)]
    timeout: Option<u64>,
    #[command(flatten)]
    ids: Quiet,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Wait {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let interrupts = Interrupts::listen();
        let until = self.timeout.map(|seconds| SystemClock.now().after(Duration::from_secs(seconds)));
        connect::with(session, "runs wait", Need::Journal, async |connection| {
            let Some(results) = interrupts.unless_first(self.wait(connection, until)).await? else {
                session.output.note("stopped waiting; the runs continue");
                return Ok(interrupts.exit());
            };
            let output = &session.output;
            match output.format() {
                Format::Json => output.json(&json!({ "runs": results })),
                Format::Human if self.ids.quiet => output.ids(results.iter().map(|run| run.run_id)),
                Format::Human => {
                    let currency = connection.backend.currency(results.iter().map(|run| run.cost)).await;
                    batch::show(output, &results, &currency);
                }
            }
            let is_completed = results.iter().all(|run| run.status == Status::Completed);
            Ok(if is_completed { Exit::Done } else { Exit::Failed })
        })
        .await
    }

    async fn wait(&self, connection: &Connection, until: Option<Instant>) -> Result<Vec<RunResult>, CommandError> {
        let mut results = Vec::new();
        for handle in &self.runs {
            for run in handle.resolve_all(connection).await? {
                let mut ask = GetRun { run_id: Some(run), ..GetRun::default() };
                let mut result = connection.backend.call(&ask).await?;
                while !result.status.is_terminal() {
                    refuse_to_wait(connection.executing(), &result)?;
                    let left = until.map(|until| until.since(SystemClock.now()));
                    if left.is_some_and(|left| left.is_zero()) {
                        let status = result.status.as_str();
                        return Err(CommandError::failed("wait_timeout", format!("timed out: run {run} is {status}"))
                            .with_hint("it continues; wait again, or cancel it with `drawloom runs cancel`"));
                    }
                    let left = left.map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX).max(1));
                    ask.wait_ms = left.into_iter().chain([STEP_MS]).min();
                    result = connection.backend.call(&ask).await?;
                }
                result.index = u32::try_from(results.len()).ok();
                results.push(result);
            }
        }
        Ok(results)
    }
}
