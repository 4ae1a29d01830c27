//! `drawloom memory rm`.

use clap::Args;
use drawloom_wire::memory::DeleteMemory;

use crate::{
    cli::Look,
    commands::{
        Session,
        memory::{Fields, Whose},
    },
    connect::{self, Execution, Need},
    exit::{CommandError, Exit},
    output::Format,
};

/// Delete keys
///
/// Exits with 1 if a key does not exist.
#[derive(Debug, Args)]
pub struct Remove {
    /// Keys
    #[arg(value_name = "KEY", required = true)]
    keys: Vec<String>,
    #[command(flatten)]
    whose: Whose,
    /// Delete the key only if it is at this revision
    #[arg(long, value_name = "REVISION")]
    if_revision: Option<u64>,
    #[command(flatten)]
    execution: Execution,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Remove {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let output = &session.output;
        connect::with(session, "memory rm", Need::Engine(self.execution), async |it| {
            let Fields { scope, agent, run_id, user_id } = self.whose.fields(it).await?;
            let mut exit = Exit::Done;
            for key in &self.keys {
                let ask = DeleteMemory {
                    scope,
                    agent: agent.clone(),
                    run_id,
                    user_id: user_id.clone(),
                    key: key.clone(),
                    if_revision: self.if_revision,
                    idempotency_key: None,
                };
                let deleted = it.backend.call(&ask).await?;
                super::warn(session, &deleted.warnings);
                if !deleted.deleted {
                    exit = Exit::Failed;
                }
                match output.format() {
                    Format::Json => output.json_line(&serde_json::json!({ "key": key, "deleted": deleted.deleted })),
                    Format::Human if deleted.deleted => output.line(format!("deleted {key}")),
                    Format::Human => output.note(format!("no such key: {key:?}")),
                }
            }
            Ok(exit)
        })
        .await
    }
}
