//! `drawloom channels broadcast`.

use clap::Args;
use drawloom_wire::channels::{BroadcastChannels, BroadcastResult};

use crate::{
    cli::Look,
    commands::{
        Session,
        channels::{Whose, publish},
        memory::warn,
    },
    connect::{self, Execution, Need},
    exit::{CommandError, Exit},
    output::{Format, Output, Style},
};

/// Publish one message to several channels
///
/// All channels are checked before anything is published. A value that parses as JSON is published as JSON, any other as text.
#[derive(Debug, Args)]
pub struct Broadcast {
    /// Message, as JSON or text; `-` reads it from stdin
    #[arg(value_name = "VALUE")]
    value: String,
    /// Channels
    #[arg(value_name = "CHANNEL", required = true)]
    channels: Vec<String>,
    #[command(flatten)]
    whose: Whose,
    /// Publish the message as text even if it parses as JSON
    #[arg(long)]
    text: bool,
    /// Remove the message after this time, such as 30d, 12h or 90s
    #[arg(long, value_name = "AGE", value_parser = crate::commands::age)]
    ttl: Option<u64>,
    /// Make the message visible after this time
    #[arg(long, value_name = "AGE", value_parser = crate::commands::age)]
    after: Option<u64>,
    #[command(flatten)]
    execution: Execution,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Broadcast {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let ask = BroadcastChannels {
            channels: self.channels,
            user_id: self.whose.user,
            agent: self.whose.agent,
            scope: None,
            value: publish::read_value(session, &self.value, self.text)?,
            ttl: self.ttl,
            deliver_at: None,
            deliver_after_ms: self.after.map(|seconds| seconds.saturating_mul(1_000)),
            idempotency_key: None,
        };
        let need = Need::Engine(self.execution);
        let done = connect::with(session, "channels broadcast", need, async |it| it.backend.call(&ask).await).await?;
        let output = &session.output;
        warn(session, &done.warnings);
        match output.format() {
            Format::Json => output.json(&done),
            Format::Human => {
                for result in &done.results {
                    warn(session, &result.warnings);
                    output.line(line(output, session, result));
                }
            }
        }
        Ok(if done.failed == 0 { Exit::Done } else { Exit::Failed })
    }
}

fn line(output: &Output, session: &Session, result: &BroadcastResult) -> String {
    let name = output.styled(Style::Bold, &result.channel);
    match (&result.error, &result.cursor, &result.visible_at) {
        (Some(error), ..) => format!("{name}  {}", output.styled(Style::Bad, error)),
        (None, Some(cursor), _) => format!("{name}  {cursor}"),
        (None, None, Some(time)) => format!("{name}  visible {}", session.local_time().whole_of(time)),
        (None, None, None) => name,
    }
}
