//! `drawloom channels publish`.

use std::io::Read as _;

use clap::Args;
use drawloom_wire::channels::PublishChannel;
use serde_json::Value;

use crate::{
    cli::Look,
    commands::{Session, channels::Whose, json_or_text, memory::warn},
    connect::{self, Execution, Need},
    exit::{CommandError, Exit},
    output::{Format, Style},
};

/// Maximum bytes of a message from stdin; the server's own limit is lower.
const MOST_INPUT: u64 = 2 * 1024 * 1024;

/// Publish a message to a channel
///
/// A value that parses as JSON is published as JSON, any other as text.
#[derive(Debug, Args)]
pub struct Publish {
    /// Channel
    #[arg(value_name = "CHANNEL")]
    channel: String,
    /// Message, as JSON or text; `-` reads it from stdin
    #[arg(value_name = "VALUE")]
    value: String,
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

impl Publish {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let ask = PublishChannel {
            channel: self.channel.clone(),
            user_id: self.whose.user.clone(),
            agent: self.whose.agent.clone(),
            scope: None,
            value: read_value(session, &self.value, self.text)?,
            ttl: self.ttl,
            deliver_at: None,
            deliver_after_ms: self.after.map(|seconds| seconds.saturating_mul(1_000)),
            idempotency_key: None,
        };
        let need = Need::Engine(self.execution);
        let published =
            connect::with(session, "channels publish", need, async |it| it.backend.call(&ask).await).await?;
        let output = &session.output;
        warn(session, &published.warnings);
        match output.format() {
            Format::Json => output.json(&published),
            Format::Human => {
                let place = match (&published.cursor, &published.visible_at) {
                    (Some(cursor), _) => cursor.clone(),
                    (None, Some(time)) => format!("visible {}", session.local_time().whole_of(time)),
                    (None, None) => String::new(),
                };
                output.line(format!("{}  {}", published.message_id, output.styled(Style::Dim, &place)));
            }
        }
        Ok(Exit::Done)
    }
}

/// A message as JSON, or as text when it is not JSON; `-` means stdin.
pub(super) fn read_value(session: &Session, given: &str, is_text: bool) -> Result<Value, CommandError> {
    let mut text = given.to_owned();
    if text == "-" {
        text.clear();
        std::io::stdin()
            .take(MOST_INPUT)
            .read_to_string(&mut text)
            .map_err(|error| CommandError::usage("bad_file", format!("cannot read the message from stdin: {error}")))?;
    }
    if is_text {
        return Ok(Value::String(text));
    }
    if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(&text)
        && text.trim_start().starts_with(['{', '['])
    {
        let why = format!("published as text, because it is not JSON: {error} (--text says so without a warning)");
        warn(session, &[why]);
    }
    json_or_text(&text)
}
