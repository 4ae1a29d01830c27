//! `drawloom channels purge`.

use clap::Args;
use drawloom_wire::channels::PurgeChannel;

use crate::{
    cli::Look,
    commands::{
        Session,
        channels::{
            Whose,
            agree::{agreed, messages},
        },
        memory::warn,
    },
    connect::{self, Execution, Need},
    exit::{CommandError, Exit},
    output::Format,
};

/// Remove the messages of a channel
///
/// Works for channels of the config file too. Cursors stay valid.
#[derive(Debug, Args)]
pub struct Purge {
    /// Channel
    #[arg(value_name = "CHANNEL")]
    channel: String,
    #[command(flatten)]
    whose: Whose,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    execution: Execution,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Purge {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let (user_id, agent) = (self.whose.user, self.whose.agent);
        let ask = PurgeChannel { name: self.channel, user_id, agent, idempotency_key: None };
        let need = Need::Engine(self.execution);
        let purged = connect::with(session, "channels purge", need, async |it| {
            if !agreed(session, it, self.yes, ("Remove all messages of", &ask.name)).await? {
                return Ok(None);
            }
            it.backend.call(&ask).await.map(Some)
        })
        .await?;
        let Some(purged) = purged else { return Ok(Exit::NeedsInput) };
        warn(session, &purged.warnings);
        match session.output.format() {
            Format::Json => session.output.json(&purged),
            Format::Human => {
                let deferred = match purged.deferred {
                    0 => String::new(),
                    count => format!(", and {count} deferred ones"),
                };
                session.output.line(format!("removed {} of {}{deferred}", messages(purged.purged), purged.name));
            }
        }
        Ok(Exit::Done)
    }
}
