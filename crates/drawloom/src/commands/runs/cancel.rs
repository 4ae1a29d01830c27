//! `drawloom runs cancel`.

use clap::Args;

use drawloom_wire::runs::CancelRun;

use crate::{
    cli::Look,
    commands::{Session, runs::Handle},
    connect::{self, Need},
    exit::{CommandError, Exit},
    output::Format,
};

/// Stop a run and all that it spawned
#[derive(Debug, Args)]
pub struct Cancel {
    /// The run, or the caller's handle of it
    #[arg(value_name = "RUN")]
    run: Handle,
    /// Why, in your words; it is journaled
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Cancel {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let ask = self.run.ask()?;
        let ask = CancelRun { run_id: ask.run_id, agent_id: ask.agent_id, reason: self.reason, idempotency_key: None };
        let cancelled =
            connect::with(session, "runs cancel", Need::Change, async |it| it.backend.call(&ask).await).await?;
        let output = &session.output;
        match output.format() {
            Format::Json => output.json(&cancelled),
            Format::Human if cancelled.cancelled => {
                let below = match cancelled.cascaded.len() {
                    0 => String::new(),
                    count => format!(", and {count} below it"),
                };
                output.line(format!("{} is told to stop{below}", cancelled.run_id));
            }
            Format::Human => {
                output.line(format!("{} had ended: {}", cancelled.run_id, cancelled.status.as_str()));
            }
        }
        Ok(Exit::Done)
    }
}
