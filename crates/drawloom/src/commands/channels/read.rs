//! `drawloom channels read`.

use clap::Args;
use drawloom_wire::channels::{PeekChannel, SubscribeChannel};

use crate::{
    cli::Look,
    commands::{
        Session,
        channels::{Whose, line},
        memory::warn,
    },
    connect::{self, Execution, Need},
    exit::{CommandError, Exit},
    output::Format,
};

/// Take the next messages of a channel
///
/// Exits with 1 if there is none.
#[derive(Debug, Args)]
pub struct Read {
    /// Channel
    #[arg(value_name = "CHANNEL")]
    channel: String,
    #[command(flatten)]
    whose: Whose,
    /// Read without taking
    #[arg(long, conflicts_with_all = ["wait", "group"])]
    peek: bool,
    /// Read after this cursor
    #[arg(long, value_name = "CURSOR")]
    from: Option<String>,
    /// Read as this consumer of a broadcast channel
    #[arg(long, value_name = "NAME", conflicts_with = "group")]
    consumer: Option<String>,
    /// Read as a member of this consumer group; acknowledge the messages with `channels ack`
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// Read at most this many
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    max: u32,
    /// Wait for a message, such as 30s; at most 60s
    #[arg(long, value_name = "AGE", value_parser = crate::commands::wait)]
    wait: Option<u64>,
    #[command(flatten)]
    execution: Execution,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Read {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let (channel, user_id, agent) = (self.channel, self.whose.user, self.whose.agent);
        let (from_cursor, max_messages) = (self.from, Some(self.max));
        let (peek, need) = (self.peek, Need::Engine(self.execution));
        let page = connect::with(session, "channels read", need, async |it| {
            if peek {
                let consumer = self.consumer;
                let ask = PeekChannel { channel, user_id, agent, scope: None, consumer, from_cursor, max_messages };
                return it.backend.call(&ask).await;
            }
            let ask = SubscribeChannel {
                channel,
                user_id,
                agent,
                scope: None,
                consumer: self.consumer,
                group: self.group,
                lease_ms: None,
                from_cursor,
                max_messages,
                wait_ms: self.wait.map(|seconds| seconds.saturating_mul(1_000)),
                idempotency_key: None,
            };
            it.backend.call(&ask).await
        })
        .await?;
        let output = &session.output;
        warn(session, &page.warnings);
        match output.format() {
            Format::Json => output.json(&page),
            Format::Human if page.messages.is_empty() => output.note("no messages"),
            Format::Human => {
                let local = session.local_time();
                page.messages.iter().for_each(|message| output.line(line(output, message, &local)));
                if page.more {
                    output.note("there are more messages: read again");
                }
            }
        }
        Ok(if page.messages.is_empty() { Exit::Failed } else { Exit::Done })
    }
}
