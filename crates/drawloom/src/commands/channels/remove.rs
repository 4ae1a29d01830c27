//! `drawloom channels rm`.

use clap::Args;
use drawloom_wire::channels::DeleteChannel;

use crate::{
    cli::Look,
    commands::{Session, channels::agree::agreed},
    connect::{self, Execution, Need},
    exit::{CommandError, Exit},
    output::Format,
};

/// Delete a channel with its messages
///
/// Only channels made at runtime can be deleted.
#[derive(Debug, Args)]
pub struct Remove {
    /// Channel
    #[arg(value_name = "CHANNEL")]
    channel: String,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    execution: Execution,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Remove {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let ask = DeleteChannel { name: self.channel, idempotency_key: None };
        let need = Need::Engine(self.execution);
        let deleted = connect::with(session, "channels rm", need, async |it| {
            if !agreed(session, it, self.yes, ("Delete the channel", &ask.name)).await? {
                return Ok(None);
            }
            it.backend.call(&ask).await.map(Some)
        })
        .await?;
        let Some(deleted) = deleted else { return Ok(Exit::NeedsInput) };
        match session.output.format() {
            Format::Json => session.output.json(&deleted),
            Format::Human => session.output.line(format!("deleted {}", deleted.name)),
        }
        Ok(Exit::Done)
    }
}
