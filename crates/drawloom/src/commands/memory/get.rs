//! `drawloom memory get`.

use clap::Args;
use drawloom_wire::memory::GetMemory;

use crate::{
    cli::Look,
    commands::{
        Session,
        memory::{Fields, Whose, line_of},
    },
    connect::{self, Need},
    exit::{CommandError, Exit},
    output::{Format, Style},
};

/// Show the value of a key
///
/// Exits with 1 if the key does not exist.
#[derive(Debug, Args)]
pub struct Get {
    /// Key
    #[arg(value_name = "KEY")]
    key: String,
    #[command(flatten)]
    whose: Whose,
    /// Also show who wrote the value, when, and what it replaced
    #[arg(long)]
    provenance: bool,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Get {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let value = connect::with(session, "memory get", Need::Journal, async |it| {
            let Fields { scope, agent, run_id, user_id } = self.whose.fields(it).await?;
            it.backend.call(&GetMemory { scope, agent, run_id, user_id, key: self.key.clone() }).await
        })
        .await?;
        let (output, local) = (&session.output, session.local_time());
        super::warn(session, &value.warnings);
        let exit = if value.found { Exit::Done } else { Exit::Failed };
        match output.format() {
            Format::Json => output.json(&value),
            Format::Human if !value.found => output.note(format!("no such key: {:?}", self.key)),
            Format::Human => {
                output.line(value.value.as_ref().map(line_of).unwrap_or_default());
                if let Some(provenance) = value.provenance.filter(|_| self.provenance) {
                    let until =
                        value.expires_at.map(|time| format!(", expires {}", local.whole_of(&time))).unwrap_or_default();
                    output.note(output.beside(Style::Dim, &format!("revision {}{until}", value.revision)));
                    output.note(output.beside(Style::Dim, &super::written(&provenance, &local)));
                }
            }
        }
        Ok(exit)
    }
}
