//! `drawloom channels tail`.

use clap::Args;
use drawloom_wire::{
    channels::{After, ChannelMessage, FollowChannel},
    events::Event,
};
use futures::StreamExt as _;

use crate::{
    cli::Look,
    commands::{
        Session,
        channels::{Whose, line},
    },
    connect::{self, Connection, Execution, Need},
    exit::{CommandError, Exit},
    interrupts::Interrupts,
    output::{Format, Style},
};

/// Show messages as they are published, without taking them
///
/// Ctrl-C to stop.
#[derive(Debug, Args)]
pub struct Tail {
    /// Channel
    #[arg(value_name = "CHANNEL")]
    channel: String,
    #[command(flatten)]
    whose: Whose,
    /// Start with the messages that the channel has
    #[arg(long, conflicts_with = "after")]
    all: bool,
    /// Start after this cursor, such as cur_5, or its number
    #[arg(long, value_name = "CURSOR")]
    after: Option<After>,
    /// Stop after this many messages
    #[arg(long, value_name = "COUNT")]
    count: Option<u64>,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Tail {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let interrupts = Interrupts::listen();
        connect::with(session, "channels tail", Need::Engine(Execution::default()), async |connection| {
            Ok(interrupts.unless_first(self.follow(session, connection)).await?.unwrap_or(Exit::Done))
        })
        .await
    }

    async fn follow(&self, session: &Session, connection: &Connection) -> Result<Exit, CommandError> {
        let ask = FollowChannel {
            channel: self.channel.clone(),
            user_id: self.whose.user.clone(),
            agent: self.whose.agent.clone(),
            scope: None,
            after: self.after,
            tail: Some(!self.all && self.after.is_none()),
            max_messages: None,
            wait_ms: None,
        };
        let mut events = connection.backend.follow_channel(&ask).await?;
        let mut left = self.count;
        while left != Some(0)
            && !session.output.is_closed()
            && let Some(event) = events.next().await
        {
            let event = event?;
            if let Some(error) = ended(&event) {
                return Err(error);
            }
            show(session, &event);
            if event.name == "message"
                && let Some(left) = &mut left
            {
                *left = left.saturating_sub(1);
            }
        }
        Ok(Exit::Done)
    }
}

/// Why the stream ended, such as a channel that was deleted.
fn ended(event: &Event) -> Option<CommandError> {
    let data = event.json();
    let error = CommandError::failed(data["code"].as_str()?, data["message"].as_str()?);
    let error = match data["hint"].as_str() {
        Some(hint) => error.with_hint(hint),
        None => error,
    };
    (event.name == "error").then_some(error)
}

fn show(session: &Session, event: &Event) {
    let (output, data) = (&session.output, event.json());
    if output.format() == Format::Json {
        return output.json_line(&serde_json::json!({ "type": event.name, "data": data }));
    }
    let text = |name: &str| data[name].as_str().unwrap_or_default().to_owned();
    match &*event.name {
        "message" => {
            if let Ok(message) = serde_json::from_value::<ChannelMessage>(data.clone()) {
                output.line(line(output, &message, &session.local_time()));
            }
        }
        "warning" => output.note(output.beside(Style::Notice, &format!("warning: {}", text("message")))),
        "gap" => {
            let missed = data["missed"].as_u64().unwrap_or(0);
            output.note(output.beside(Style::Notice, &format!("gap: {missed} {}", text("reason"))));
        }
        _ => {}
    }
}
