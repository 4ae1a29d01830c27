//! `drawloom channels update`.

use clap::Args;
use drawloom_contract::channel::Semantic;
use drawloom_wire::channels::UpdateChannel;

use crate::{
    cli::Look,
    commands::{Session, memory::warn},
    connect::{self, Execution, Need},
    exit::{CommandError, Exit},
    output::Format,
};

/// Change settings of a channel made at runtime
///
/// Settings that are not given stay. `drawloom defs show --kind channel NAME` shows the versions.
#[derive(Debug, Args)]
pub struct Update {
    /// Channel
    #[arg(value_name = "CHANNEL")]
    channel: String,
    /// Describe what it is for
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Deliver every message to every consumer
    #[arg(long, conflicts_with = "queue")]
    broadcast: bool,
    /// Deliver each message to one reader
    #[arg(long)]
    queue: bool,
    /// Remove messages after this time, such as 30d, 12h or 90s; `none` keeps them
    #[arg(long, value_name = "AGE", value_parser = ttl)]
    ttl: Option<Setting<u64>>,
    /// Keep at most this many messages
    #[arg(long, value_name = "COUNT")]
    max_messages: Option<u64>,
    /// Lease messages of consumer groups for this long, such as 30s or 15m
    #[arg(long, value_name = "AGE", value_parser = crate::commands::wait)]
    lease: Option<u64>,
    /// Deliver a message to a consumer group at most this often
    #[arg(long, value_name = "COUNT")]
    max_attempts: Option<u32>,
    /// Move messages that were not acknowledged to this channel; `none` means NAME.dead
    #[arg(long, value_name = "CHANNEL", value_parser = dead_letter)]
    dead_letter: Option<Setting<String>>,
    #[command(flatten)]
    execution: Execution,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

/// A setting that can be removed.
#[derive(Debug, Clone)]
struct Setting<T>(Option<T>);

fn ttl(text: &str) -> Result<Setting<u64>, String> {
    if text == "none" { Ok(Setting(None)) } else { crate::commands::age(text).map(|age| Setting(Some(age))) }
}

fn dead_letter(text: &str) -> Result<Setting<String>, String> {
    Ok(Setting((text != "none").then(|| text.to_owned())))
}

impl Update {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let semantic = match (self.broadcast, self.queue) {
            (true, _) => Some(Semantic::Broadcast),
            (false, true) => Some(Semantic::Queue),
            (false, false) => None,
        };
        let ask = UpdateChannel {
            name: self.channel,
            description: self.description,
            semantic,
            default_ttl: self.ttl.map(|Setting(ttl)| ttl),
            max_messages: self.max_messages,
            lease_ms: self.lease.map(|seconds| seconds.saturating_mul(1_000)),
            max_attempts: self.max_attempts,
            dead_letter: self.dead_letter.map(|Setting(name)| name),
            idempotency_key: None,
        };
        let need = Need::Engine(self.execution);
        let changed = connect::with(session, "channels update", need, async |it| it.backend.call(&ask).await).await?;
        warn(session, &changed.warnings);
        match session.output.format() {
            Format::Json => session.output.json(&changed),
            Format::Human => session.output.line(format!("{} is at version {}", changed.name, changed.version)),
        }
        Ok(Exit::Done)
    }
}
