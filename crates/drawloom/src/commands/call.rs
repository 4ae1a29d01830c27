//! `drawloom call`: any operation of the API by name.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Map, Value};

use crate::{
    commands::Session,
    config,
    connect::{self, Execution, Need},
    exit::{CommandError, Exit},
    operations,
};

/// Call any operation of the API by name
#[derive(Debug, Args)]
pub struct Call {
    /// The operation, such as `list_runs`; nothing lists them all
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Fields of the input; lists are separated by commas, everything else that is no text is JSON
    #[arg(value_name = "KEY=VALUE", conflicts_with = "json")]
    fields: Vec<String>,
    /// A file with the whole input in JSON or YAML; `-` reads stdin
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    execution: Execution,
}

impl Call {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let Some(name) = self.name else {
            for card in operations::cards() {
                session.output.line(format!("{:<14} {}", card.name(), card.summary));
            }
            return Ok(Exit::Done);
        };
        let operation = operations::find(&name)?;
        let input = match &self.json {
            Some(file) => config::read_value(file)?,
            None => Value::Object(fields(&self.fields, |key, text| operation.validator().read_text(key, text))?),
        };
        let card = operation.card();
        // `remote` asks a provider, with its key.
        let need = match card.is_read_only() && input.get("remote").is_none() {
            true => Need::Journal,
            false if card.destructive => Need::Change,
            false => Need::Engine(self.execution),
        };
        let answer =
            connect::with(session, "call", need, async |it| it.backend.call_json(&card.description, input).await)
                .await?;
        session.output.json(&answer);
        Ok(Exit::Done)
    }
}

/// `key=value` pairs as an object.
fn fields(pairs: &[String], read: impl Fn(&str, &str) -> Value) -> Result<Map<String, Value>, CommandError> {
    let mut object = Map::new();
    for pair in pairs {
        let (key, text) = pair.split_once('=').ok_or_else(|| {
            CommandError::usage("bad_field", format!("{pair:?} is not of the form key=value"))
                .with_hint("write fields like agent=reader, or pass the whole input with --json FILE")
        })?;
        if object.insert(key.to_owned(), read(key, text)).is_some() {
            return Err(CommandError::usage("bad_field", format!("{key} is given twice")));
        }
    }
    Ok(object)
}
