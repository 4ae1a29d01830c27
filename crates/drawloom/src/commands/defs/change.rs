//! `drawloom defs create`, `fork`, `promote` and `retire`.

use std::path::PathBuf;

use clap::Args;
use drawloom_wire::definitions::{CreateDefinition, ForkDefinition, PromoteDefinition, RetireDefinition};

use crate::{
    cli::Look,
    commands::{
        Session,
        defs::{Kind, reference, set, told},
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
    /// Change a field, as KEY=VALUE; dots lead into objects (`budget.tokens=500`); the value is JSON, a YAML list such as
    /// `[Memory, Channel]`, or text; null removes the field
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
            None => set::patch(&self.set)?,
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
