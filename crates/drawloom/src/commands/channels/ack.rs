//! `drawloom channels ack`.

use clap::Args;
use drawloom_wire::channels::AckChannel;

use crate::{
    cli::Look,
    commands::{Session, channels::Whose, memory::warn},
    connect::{self, Execution, Need},
    exit::{CommandError, Exit},
    output::Format,
};

/// Acknowledge messages by cursor, or by their leases
#[derive(Debug, Args)]
pub struct Ack {
    /// Channel
    #[arg(value_name = "CHANNEL")]
    channel: String,
    /// Acknowledge everything up to this cursor
    #[arg(value_name = "CURSOR", required_unless_present = "leases")]
    cursor: Option<String>,
    #[command(flatten)]
    whose: Whose,
    /// Acknowledge as this consumer of a broadcast channel
    #[arg(long, value_name = "NAME")]
    consumer: Option<String>,
    /// Acknowledge as a member of this consumer group
    #[arg(long, value_name = "NAME", requires = "leases")]
    group: Option<String>,
    /// Acknowledge the message with this lease; can be repeated
    #[arg(long = "lease", value_name = "LEASE", requires = "group", conflicts_with = "cursor")]
    leases: Option<Vec<String>>,
    #[command(flatten)]
    execution: Execution,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Ack {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let ask = AckChannel {
            channel: self.channel,
            user_id: self.whose.user,
            agent: self.whose.agent,
            scope: None,
            cursor: self.cursor,
            consumer: self.consumer,
            group: self.group,
            leases: self.leases,
            idempotency_key: None,
        };
        let need = Need::Engine(self.execution);
        let acked = connect::with(session, "channels ack", need, async |it| it.backend.call(&ask).await).await?;
        warn(session, &acked.warnings);
        match session.output.format() {
            Format::Json => session.output.json(&acked),
            Format::Human => match (&acked.cursor, acked.settled) {
                (Some(cursor), _) => session.output.line(format!("{} is acknowledged up to {cursor}", acked.channel)),
                (None, settled) => session.output.line(format!("acknowledged {}", settled.unwrap_or(0))),
            },
        }
        Ok(Exit::Done)
    }
}
