//! `drawloom memory set`.

use std::io::Read as _;

use clap::Args;
use drawloom_wire::memory::SetMemory;
use serde_json::Value;

use crate::{
    cli::Look,
    commands::{
        Session, json_or_text,
        memory::{Fields, Whose},
    },
    connect::{self, Execution, Need},
    exit::{CommandError, Exit},
    output::Format,
};

/// Maximum bytes of a value from stdin; the server's own limit is lower.
const MOST_INPUT: u64 = 2 * 1024 * 1024;

/// Set a key to a value
///
/// A value that parses as JSON is stored as JSON, any other as text.
#[derive(Debug, Args)]
pub struct Set {
    /// Key
    #[arg(value_name = "KEY")]
    key: String,
    /// Value, as JSON or text; `-` reads it from stdin
    #[arg(value_name = "VALUE")]
    value: String,
    #[command(flatten)]
    whose: Whose,
    /// Store the value as text even if it parses as JSON
    #[arg(long)]
    text: bool,
    /// Delete the key after this time, such as 30d, 12h or 90s
    #[arg(long, value_name = "AGE", value_parser = crate::commands::age)]
    ttl: Option<u64>,
    /// Set the key only if it is at this revision; 0 means that it must not exist
    #[arg(long, value_name = "REVISION")]
    if_revision: Option<u64>,
    #[command(flatten)]
    execution: Execution,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Set {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let value = self.value()?;
        let set = connect::with(session, "memory set", Need::Engine(self.execution), async |it| {
            let Fields { scope, agent, run_id, user_id } = self.whose.fields(it).await?;
            it.backend
                .call(&SetMemory {
                    scope,
                    agent,
                    run_id,
                    user_id,
                    key: self.key.clone(),
                    value,
                    ttl_seconds: self.ttl,
                    if_revision: self.if_revision,
                    idempotency_key: None,
                })
                .await
        })
        .await?;
        match session.output.format() {
            Format::Json => session.output.json(&set),
            Format::Human => {
                session.output.line(format!("{} is at revision {}", self.key, set.revision));
                super::warn(session, &set.warnings);
            }
        }
        Ok(Exit::Done)
    }

    fn value(&self) -> Result<Value, CommandError> {
        let mut text = self.value.clone();
        if text == "-" {
            text.clear();
            std::io::stdin().take(MOST_INPUT).read_to_string(&mut text).map_err(|error| {
                CommandError::usage("bad_file", format!("cannot read the value from stdin: {error}"))
            })?;
        }
        Ok(match self.text {
            true => Value::String(text),
            false => json_or_text(&text)?,
        })
    }
}
