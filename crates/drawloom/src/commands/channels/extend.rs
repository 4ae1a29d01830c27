//! `drawloom channels extend`.

use clap::Args;
use drawloom_wire::channels::ExtendChannel;

use crate::{
    cli::Look,
    commands::{Session, channels::Whose, memory::warn},
    connect::{self, Execution, Need},
    exit::{CommandError, Exit},
    output::Format,
};

/// Keep messages of a consumer group longer
///
/// Prints the new leases; the old ones are over.
#[derive(Debug, Args)]
pub struct Extend {
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
    /// Keep them for this long from now on, such as 30s or 15m [default: the lease of the channel]
    #[arg(long = "for", value_name = "AGE", value_parser = crate::commands::wait)]
    lease: Option<u64>,
    #[command(flatten)]
    execution: Execution,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Extend {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let ask = ExtendChannel {
            channel: self.channel,
            user_id: self.whose.user,
            agent: self.whose.agent,
            scope: None,
            group: self.group,
            leases: self.leases,
            lease_ms: self.lease.map(|seconds| seconds.saturating_mul(1_000)),
            idempotency_key: None,
        };
        let need = Need::Engine(self.execution);
        let settled = connect::with(session, "channels extend", need, async |it| it.backend.call(&ask).await).await?;
        let output = &session.output;
        warn(session, &settled.warnings);
        match output.format() {
            Format::Json => output.json(&settled),
            Format::Human => settled.leases.iter().for_each(|lease| output.line(lease)),
        }
        Ok(Exit::Done)
    }
}
