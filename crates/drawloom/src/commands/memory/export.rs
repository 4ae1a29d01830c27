//! `drawloom memory export`: all entries as JSON, one a line, with who wrote them.

use clap::Args;
use drawloom_wire::memory::ListMemory;

use crate::{
    cli::Look,
    commands::{
        Session,
        memory::{Fields, Whose},
    },
    connect::{self, Need},
    exit::{CommandError, Exit},
};

/// Print all entries, one JSON object per line
///
/// Each has the key, value, revision, expiry and provenance: who wrote it, when, and what it replaced.
#[derive(Debug, Args)]
pub struct Export {
    /// Export only keys that start with this
    #[arg(value_name = "PREFIX")]
    prefix: Option<String>,
    #[command(flatten)]
    whose: Whose,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Export {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        connect::with(session, "memory export", Need::Journal, async |it| {
            let Fields { scope, agent, run_id, user_id } = self.whose.fields(it).await?;
            let mut ask = ListMemory {
                scope,
                agent,
                run_id,
                user_id,
                prefix: self.prefix.clone(),
                after: None,
                limit: Some(1_000),
                keys_only: false,
                include_provenance: true,
            };
            loop {
                let page = it.backend.call(&ask).await?;
                page.entries.iter().for_each(|entry| session.output.json_line(entry));
                ask.after = page.next;
                if ask.after.is_none() || session.output.is_closed() {
                    return Ok(Exit::Done);
                }
            }
        })
        .await
    }
}
