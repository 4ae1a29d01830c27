//! `drawloom channels await`.

use clap::Args;
use drawloom_contract::channel::AwaitMode;
use drawloom_wire::channels::AwaitChannels;

use crate::{
    cli::Look,
    commands::{
        Session,
        channels::{Whose, line},
        memory::warn,
    },
    connect::{self, Execution, Need},
    exit::{CommandError, Exit},
    output::{Format, Style},
};

/// Wait for messages of several channels, without taking them
///
/// Acknowledge them with `channels ack`. Exits with 1 if the wait ends first.
#[derive(Debug, Args)]
pub struct Await {
    /// Channels
    #[arg(value_name = "CHANNEL", required = true)]
    channels: Vec<String>,
    #[command(flatten)]
    whose: Whose,
    /// Wait until every channel has a message
    #[arg(long, conflicts_with = "at_least")]
    all: bool,
    /// Wait until this many channels have a message [default: 1]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=32))]
    at_least: Option<u32>,
    /// Read as this consumer of broadcast channels
    #[arg(long, value_name = "NAME")]
    consumer: Option<String>,
    /// Show at most this many messages of each channel
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    max: u32,
    /// Wait this long, such as 30s; at most 60s
    #[arg(long, value_name = "AGE", value_parser = crate::commands::wait, default_value = "60s")]
    wait: u64,
    #[command(flatten)]
    execution: Execution,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Await {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let mode = match (self.all, self.at_least) {
            (true, _) => AwaitMode::All,
            (false, Some(_)) => AwaitMode::AtLeast,
            (false, None) => AwaitMode::Any,
        };
        let ask = AwaitChannels {
            channels: self.channels,
            user_id: self.whose.user,
            agent: self.whose.agent,
            scope: None,
            mode: Some(mode),
            n: self.at_least,
            from_cursors: None,
            consumer: self.consumer,
            max_messages: Some(self.max),
            wait_ms: Some(self.wait.saturating_mul(1_000)),
        };
        let need = Need::Engine(self.execution);
        let found = connect::with(session, "channels await", need, async |it| it.backend.call(&ask).await).await?;
        let output = &session.output;
        warn(session, &found.warnings);
        match output.format() {
            Format::Json => output.json(&found),
            Format::Human => {
                let local = session.local_time();
                for (channel, page) in found.results.iter().filter(|(_, page)| !page.messages.is_empty()) {
                    output.line(output.styled(Style::Bold, channel));
                    page.messages.iter().for_each(|message| output.line(line(output, message, &local)));
                }
                if !found.satisfied {
                    output.note("the wait ended before enough channels had a message");
                }
            }
        }
        Ok(if found.satisfied { Exit::Done } else { Exit::Failed })
    }
}
