//! `drawloom runs retry`.

use clap::Args;

use drawloom_wire::runs::{GetRun, RetryRun};

use crate::{
    cli::{Look, Quiet},
    commands::{
        Session,
        run::{Stay, Watching},
        runs::Handle,
    },
    connect::{self, Connection, Execution, Need},
    exit::{CommandError, Exit},
    interrupts::{Interrupts, own_key},
    live::Thinking,
    output::{Format, Style},
};

/// Run a run that has ended once more
///
/// The retry has the same prompt, input and limits of its request, and the agent as it is defined now. A child run takes its place again while its parent waits for
/// other child runs of the same call; otherwise the retry is a new top-level run. `runs show` links both.
#[derive(Debug, Args)]
pub struct Retry {
    /// Run: an id, the start of one, `last`, or a handle
    #[arg(value_name = "RUN")]
    run: Handle,
    /// Retry a run that completed, too
    #[arg(long)]
    completed: bool,
    /// Return as soon as the retry is accepted; it continues in the server
    #[arg(long, conflicts_with = "embedded")]
    detach: bool,
    /// Start at most one retry per key
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    #[command(flatten)]
    execution: Execution,
    #[command(flatten)]
    ids: Quiet,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Retry {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let key = match self.idempotency_key {
            Some(key) => key,
            None => own_key()?,
        };
        connect::ask_first(session).await?;
        let interrupts = Interrupts::listen();
        let work = async |connection: &Connection| {
            let run_id = self.run.resolve(connection).await?;
            let idempotency_key = Some(key.clone());
            let ask = RetryRun { completed: self.completed, idempotency_key, ..RetryRun::new(run_id) };
            let spawned = interrupts.answered(session, connection, &key, connection.backend.start(ask)).await?;
            if session.output.format() == Format::Human && !self.ids.quiet {
                session.output.note(session.output.beside(Style::Dim, &format!("retry of {run_id}")));
            }
            let ask = GetRun { run_id: Some(spawned.run_id), ..GetRun::default() };
            let notes = connection.backend.call(&ask).await.map(|run| run.notes).unwrap_or_default();
            if session.output.format() == Format::Human && !self.ids.quiet {
                notes.iter().for_each(|note| session.output.note(session.output.beside(Style::Dim, note)));
            }
            let watching = Watching { session, connection, interrupts: &interrupts, run: spawned.run_id };
            watching.go_on(&spawned, Stay::of(self.detach, self.ids, Thinking::Hidden)).await
        };
        interrupts.connected(session, "runs retry", Need::Engine(self.execution), work).await
    }
}
