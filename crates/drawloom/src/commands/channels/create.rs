//! `drawloom channels create`.

use clap::Args;
use drawloom_contract::channel::{ChannelScope, Semantic};
use drawloom_wire::channels::CreateChannel;

use crate::{
    cli::Look,
    commands::Session,
    connect::{self, Execution, Need},
    exit::{CommandError, Exit},
    output::Format,
};

/// Make a channel
///
/// Agents can use it at once, if their gate `channels` names it.
#[derive(Debug, Args)]
pub struct Create {
    /// Name
    #[arg(value_name = "NAME")]
    name: String,
    /// Who shares its messages: agent, user or tenant
    #[arg(long, value_name = "SCOPE", value_parser = scope)]
    scope: Option<ChannelScope>,
    /// Deliver every message to every consumer
    #[arg(long)]
    broadcast: bool,
    /// Describe what it is for
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Remove messages after this time, such as 30d, 12h or 90s
    #[arg(long, value_name = "AGE", value_parser = crate::commands::age)]
    ttl: Option<u64>,
    /// Keep at most this many messages
    #[arg(long, value_name = "COUNT")]
    max_messages: Option<u64>,
    #[command(flatten)]
    execution: Execution,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Create {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let ask = CreateChannel {
            name: self.name,
            description: self.description,
            scope: self.scope,
            semantic: self.broadcast.then_some(Semantic::Broadcast),
            default_ttl: self.ttl,
            max_messages: self.max_messages,
            lease_ms: None,
            max_attempts: None,
            dead_letter: None,
            idempotency_key: None,
        };
        let need = Need::Engine(self.execution);
        let made = connect::with(session, "channels create", need, async |it| it.backend.call(&ask).await).await?;
        match session.output.format() {
            Format::Json => session.output.json(&made),
            Format::Human => {
                let (scope, semantic) = (made.scope.as_str(), made.semantic.as_str());
                session.output.line(format!("made channel {} (scope {scope}, {semantic})", made.name));
            }
        }
        Ok(Exit::Done)
    }
}

fn scope(text: &str) -> Result<ChannelScope, String> {
    let found = ChannelScope::ALL.iter().find(|scope| scope.as_str() == text);
    found.copied().ok_or_else(|| "use agent, user or tenant".to_owned())
}
