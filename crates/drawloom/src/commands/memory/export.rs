//! `drawloom memory export`: all entries as JSON, one a line, with who wrote them.

use clap::Args;
use drawloom_wire::memory::ListMemory;

use crate::{
    commands::{
        Session,
        memory::{Fields, Whose},
    },
    connect::{self, Need},
    exit::{CommandError, Exit},
};

/// Write all entries as JSON, one a line
///
/// Each line has the key, the value, the revision, when it expires, and its provenance: who wrote it, when, and what it replaced.
#[derive(Debug, Args)]
pub struct Export {
    /// Only keys that begin with this
    #[arg(value_name = "PREFIX")]
    prefix: Option<String>,
    #[command(flatten)]
    whose: Whose,
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
