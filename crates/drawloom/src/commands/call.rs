//! `drawloom call`: any operation of the API by name.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Map, Value, json};

use crate::{
    cli::{Layout, Look},
    commands::{Session, check_numbers},
    config,
    connect::{self, Execution, Need},
    exit::{CommandError, Exit},
    operations,
};

/// Call any API operation by name
#[derive(Debug, Args)]
pub struct Call {
    /// Operation, such as `list_runs`; none lists them all
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Input fields; separate list items with commas, write numbers and objects as JSON (`value=1` is a number, `value='"1"'` is text)
    #[arg(value_name = "KEY=VALUE", conflicts_with = "input")]
    fields: Vec<String>,
    /// Read the whole input from this JSON or YAML file; `-` reads stdin
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Print JSON, which is the default; with a file, the same as --input
    #[arg(long, value_name = "FILE", num_args = 0..=1, conflicts_with_all = ["output", "input"])]
    json: Option<Option<PathBuf>>,
    /// Choose the format: json or yaml
    #[arg(long, short, value_name = "FORMAT", value_enum, hide_possible_values = true)]
    output: Option<Layout>,
    #[command(flatten)]
    execution: Execution,
}

impl Call {
    /// Answers are for programs, whatever was asked for.
    pub(crate) fn look(&self) -> Look {
        match self.output {
            Some(Layout::Yaml) => Look { json: false, output: self.output },
            Some(Layout::Json | Layout::Wide) | None => Look::JSON,
        }
    }

    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let Some(name) = self.name else {
            if self.json.is_some() || self.output.is_some() {
                let list = operations::cards().map(|card| json!({ "name": card.name(), "summary": card.summary }));
                session.output.json(&json!({ "operations": list.collect::<Vec<_>>() }));
                return Ok(Exit::Done);
            }
            for card in operations::cards() {
                session.output.line(format!("{:<14} {}", card.name(), card.summary));
            }
            return Ok(Exit::Done);
        };
        let operation = operations::find(&name)?;
        let input = match self.input.or(self.json.flatten()) {
            Some(file) if !self.fields.is_empty() => {
                return Err(CommandError::usage(
                    "conflicting_options",
                    format!("the input is given twice: fields, and the file {}", file.display()),
                )
                .with_hint("pass the fields or the file"));
            }
            Some(file) => config::read_value(&file)?,
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
            CommandError::usage("bad_field", format!("{pair:?} is not in the form key=value"))
                .with_hint("write fields like agent=reader, or pass the whole input with --input FILE")
        })?;
        let value = read(key, text);
        if !value.is_string() {
            check_numbers(text)?;
        }
        if object.insert(key.to_owned(), value).is_some() {
            return Err(CommandError::usage("bad_field", format!("{key} is given twice")));
        }
    }
    Ok(object)
}
