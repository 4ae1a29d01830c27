//! `drawloom runs tail`.

use clap::Args;

use drawloom_wire::runs::GetRun;

use crate::{
    cli::Look,
    commands::{Session, runs::Handle},
    connect::{self, Connection, Need},
    exit::{CommandError, Exit},
    live::{self, Words},
    output::Format,
};

/// Follow a run: what happened so far, then what happens
#[derive(Debug, Args)]
pub struct Tail {
    /// The run, or the caller's handle of it
    #[arg(value_name = "RUN")]
    run: Handle,
    /// Only events with a number above this one
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    from: u64,
    /// For whom the output is.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Tail {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        connect::with(session, "runs tail", Need::Journal, async |connection| self.follow(session, connection).await)
            .await
    }

    async fn follow(&self, session: &Session, connection: &Connection) -> Result<Exit, CommandError> {
        let run = self.run.resolve(connection).await?;
        let ask = GetRun { run_id: Some(run), ..GetRun::default() };
        let now = connection.backend.get_run(ask.clone()).await?;
        if connection.is_embedded() && !now.status.is_terminal() {
            return Err(CommandError::failed("not_served", format!("run {run} has not ended and nobody serves it"))
                .with_hint("start `drawloom serve`; it takes the run up, and this command follows it"));
        }
        let words = if session.output.is_terminal() { Words::AsTheyCome } else { Words::WholeTurns };
        live::show_all(&session.output, words, connection.backend.follow(run, self.from).await?).await?;
        let result = connection.backend.get_run(ask).await?;
        Ok(match session.output.format() {
            Format::Human if result.status.is_terminal() => live::summary(&session.output, &result),
            // Nobody reads any more, or programs read the last event themselves.
            _ => connect::exit_of_status(result.status),
        })
    }
}
