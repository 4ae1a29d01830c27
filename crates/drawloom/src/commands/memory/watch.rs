//! `drawloom memory watch`.

use clap::Args;
use drawloom_wire::{events::Event, memory::WatchMemory};
use futures::StreamExt as _;

use crate::{
    cli::Look,
    commands::{
        Session,
        memory::{Fields, Whose, line_of},
    },
    connect::{self, Connection, Execution, Need},
    exit::{CommandError, Exit},
    interrupts::Interrupts,
    output::{Format, Style, first_line},
};

/// Show changes as they happen
///
/// Starts with the current entries. Ctrl-C to stop.
#[derive(Debug, Args)]
pub struct Watch {
    /// Show only keys that start with this
    #[arg(value_name = "PREFIX")]
    prefix: Option<String>,
    #[command(flatten)]
    whose: Whose,
    /// Show only changes after this revision
    #[arg(long, value_name = "REVISION")]
    after: Option<u64>,
    /// Stop after this many changes
    #[arg(long, value_name = "COUNT")]
    count: Option<u64>,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Watch {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let interrupts = Interrupts::listen();
        connect::with(session, "memory watch", Need::Engine(Execution::default()), async |connection| {
            Ok(interrupts.unless_first(self.follow(session, connection)).await?.unwrap_or(Exit::Done))
        })
        .await
    }

    async fn follow(&self, session: &Session, connection: &Connection) -> Result<Exit, CommandError> {
        let Fields { scope, agent, run_id, user_id } = self.whose.fields(connection).await?;
        let (prefix, after) = (self.prefix.clone(), self.after);
        let ask = WatchMemory { scope, agent, run_id, user_id, prefix, after, wait_ms: None };
        let mut events = connection.backend.watch(&ask).await?;
        let mut left = self.count;
        while let Some(event) = events.next().await {
            let event = event?;
            show(session, &event);
            if event.name == "change"
                && let Some(left) = &mut left
            {
                *left = left.saturating_sub(1);
            }
            if left == Some(0) || session.output.is_closed() {
                break;
            }
        }
        Ok(Exit::Done)
    }
}

fn show(session: &Session, event: &Event) {
    let (output, data) = (&session.output, event.json());
    if output.format() == Format::Json {
        return output.json_line(&serde_json::json!({ "type": event.name, "data": data }));
    }
    let text = |name: &str| data[name].as_str().unwrap_or_default().to_owned();
    match &*event.name {
        "change" => {
            let revision = output.styled(Style::Dim, &format!("{:>8}", data["revision"].as_u64().unwrap_or(0)));
            let value = match data["removed"].as_bool() {
                Some(true) => output.styled(Style::Bad, "removed"),
                _ => first_line(&line_of(&data["entry"]["value"]), 200),
            };
            output.line(format!("{revision}  {}  {value}", output.styled(Style::Bold, &text("key"))));
        }
        "warning" => output.note(output.beside(Style::Notice, &format!("warning: {}", text("message")))),
        "gap" => output.note(output.beside(Style::Notice, &format!("gap: {}", text("reason")))),
        _ => {}
    }
}
