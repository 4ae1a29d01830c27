//! `drawloom defs create`, `fork`, `promote` and `retire`.

use std::path::PathBuf;

use clap::Args;
use drawloom_wire::definitions::{CreateDefinition, ForkDefinition, PromoteDefinition, RetireDefinition};
use serde_json::{Value, json};

use crate::{
    cli::Look,
    commands::{
        Session,
        defs::{Kind, reference, told},
    },
    config,
    connect::{self, Execution, Need},
    exit::{CommandError, Exit},
};

/// Define an agent, channel, skill or volume, or a new version of it
///
/// The file is YAML or JSON. An agent has the keys that it would have under `agents.NAME` in the config, a channel those under
/// `channels.NAME`.
#[derive(Debug, Args)]
pub struct Create {
    /// Name
    name: String,
    /// File with the definition; `-` reads stdin
    file: PathBuf,
    #[command(flatten)]
    kind: Kind,
    /// Purpose of this version
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Do not make it active yet
    #[arg(long)]
    no_promote: bool,
    #[command(flatten)]
    execution: Execution,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Create {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let source = config::read_value(&self.file)?;
        let ask = CreateDefinition {
            kind: self.kind.value(),
            name: self.name,
            source,
            description: self.description,
            promote: Some(!self.no_promote),
            idempotency_key: None,
        };
        let need = Need::Engine(self.execution);
        let version = connect::with(session, "defs create", need, async |it| it.backend.call(&ask).await).await?;
        told(session, &version);
        Ok(Exit::Done)
    }
}

/// Make a version from another one, with changes
#[derive(Debug, Args)]
pub struct Fork {
    /// Version to begin with: NAME, NAME@VERSION, or an agent or channel of the config
    from: String,
    /// Name of the new version; that of the old one by default
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    kind: Kind,
    /// Change a field, as KEY=VALUE; the value is JSON or text, and null removes the field
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// File with the fields to change; `-` reads stdin
    #[arg(long, value_name = "FILE", conflicts_with = "set")]
    changes: Option<PathBuf>,
    /// Purpose of this version
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Make it active at once
    #[arg(long)]
    promote: bool,
    #[command(flatten)]
    execution: Execution,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Fork {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let changes = match &self.changes {
            Some(file) => config::read_value(file)?,
            None => self.set.iter().map(|text| field(text)).collect::<Result<serde_json::Map<_, _>, _>>()?.into(),
        };
        let ask = ForkDefinition {
            kind: self.kind.value(),
            from: self.from,
            name: self.name,
            changes,
            description: self.description,
            promote: self.promote,
            idempotency_key: None,
        };
        let need = Need::Engine(self.execution);
        let version = connect::with(session, "defs fork", need, async |it| it.backend.call(&ask).await).await?;
        told(session, &version);
        Ok(Exit::Done)
    }
}

/// `KEY=VALUE`; dots in the key lead into objects.
fn field(text: &str) -> Result<(String, Value), CommandError> {
    let Some((key, value)) = text.split_once('=').filter(|(key, _)| !key.is_empty()) else {
        return Err(CommandError::usage("bad_field", format!("invalid field {text:?}"))
            .with_hint("write KEY=VALUE, such as max_iterations=8"));
    };
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
    let mut parts = key.split('.');
    let first = parts.next().unwrap_or_default().to_owned();
    Ok((first, parts.rev().fold(value, |value, part| json!({ part: value }))))
}

/// Make a version active
#[derive(Debug, Args)]
pub struct Promote {
    /// Version, as NAME@VERSION
    version: String,
    #[command(flatten)]
    kind: Kind,
    #[command(flatten)]
    execution: Execution,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Promote {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let (name, Some(version)) = reference(&self.version)? else {
            return Err(CommandError::usage("bad_version", format!("{:?} names no version", self.version))
                .with_hint("write NAME@VERSION, such as writer@2; `drawloom defs ls NAME` lists the versions"));
        };
        let ask = PromoteDefinition { kind: self.kind.value(), name, version, idempotency_key: None };
        let need = Need::Engine(self.execution);
        let version = connect::with(session, "defs promote", need, async |it| it.backend.call(&ask).await).await?;
        told(session, &version);
        Ok(Exit::Done)
    }
}

/// Take a version out of use
#[derive(Debug, Args)]
pub struct Retire {
    /// Version, as NAME@VERSION; NAME alone means the active one
    version: String,
    #[command(flatten)]
    kind: Kind,
    /// Take the retirement back
    #[arg(long)]
    undo: bool,
    #[command(flatten)]
    execution: Execution,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Retire {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let (name, version) = reference(&self.version)?;
        let kind = self.kind.value();
        let ask = RetireDefinition { kind, name, version, retired: Some(!self.undo), idempotency_key: None };
        let need = Need::Engine(self.execution);
        let version = connect::with(session, "defs retire", need, async |it| it.backend.call(&ask).await).await?;
        told(session, &version);
        Ok(Exit::Done)
    }
}
