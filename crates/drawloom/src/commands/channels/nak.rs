//! `drawloom channels nak`.

use clap::Args;
use drawloom_wire::channels::NakChannel;

use crate::{
    cli::Look,
    commands::{Session, channels::Whose, memory::warn},
    connect::{self, Execution, Need},
    exit::{CommandError, Exit},
    output::Format,
};

/// Give messages of a consumer group back
///
/// A member of the group gets them again at once.
#[derive(Debug, Args)]
pub struct Nak {
    /// Channel
    #[arg(value_name = "CHANNEL")]
    channel: String,
    /// Leases of the messages, as `channels read --group` shows them
    #[arg(value_name = "LEASE", required = true)]
    leases: Vec<String>,
    /// Consumer group
    #[arg(long, value_name = "NAME")]
    group: String,
    #[command(flatten)]
    whose: Whose,
    #[command(flatten)]
    execution: Execution,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Nak {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let ask = NakChannel {
            channel: self.channel,
            user_id: self.whose.user,
            agent: self.whose.agent,
            scope: None,
            group: self.group,
            leases: self.leases,
            idempotency_key: None,
        };
        let need = Need::Engine(self.execution);
        let settled = connect::with(session, "channels nak", need, async |it| it.backend.call(&ask).await).await?;
        let output = &session.output;
        warn(session, &settled.warnings);
        match output.format() {
            Format::Json => output.json(&settled),
            Format::Human => output.line(format!("gave back {}", settled.settled.unwrap_or(0))),
        }
        Ok(Exit::Done)
    }
}
