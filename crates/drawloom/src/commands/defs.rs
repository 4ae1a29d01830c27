//! `drawloom defs`: agents, channels, skills and volumes that are defined at runtime.

mod change;
mod read;
mod set;

use clap::{Args, Subcommand, ValueEnum};
use drawloom_contract::definition::DefinitionKind;
use drawloom_wire::definitions::{DefinitionFinding, DefinitionVersion};

use crate::{
    cli::Look,
    commands::Session,
    exit::{CommandError, Exit},
    output::{Format, Style},
};

/// Shown below the help.
pub(crate) const HELP: &str = "\
Examples:
  echo '{description: Writes texts., tools: []}' > writer.yaml
  drawloom defs create writer writer.yaml            define an agent, or a new version of it
  drawloom defs ls                                   list what is defined
  drawloom defs fork writer --set max_iterations=8   make a version with a change
  drawloom defs diff writer@1 writer@2               compare two versions
  drawloom defs promote writer@2                     make a version active
  drawloom defs retire writer@1                      take a version out of use
  drawloom defs verify writer writer.yaml            report every problem without writing
  drawloom channels create jobs                      make a channel, which has versions too
  drawloom defs fork jobs --kind channel --set max_messages=100";

/// Define agents, channels, skills and volumes at runtime
#[derive(Debug, Subcommand)]
pub enum Defs {
    /// List definitions, or the versions of one
    #[command(name = "ls", visible_alias = "list")]
    List(read::List),
    /// Show a version of a definition
    Show(read::Show),
    /// Define an agent, channel, skill or volume, or a new version of it
    Create(change::Create),
    /// Make a version from another one, with changes
    Fork(change::Fork),
    /// Compare two versions
    Diff(read::Diff),
    /// Make a version active
    Promote(change::Promote),
    /// Take a version out of use
    Retire(change::Retire),
    /// Report every problem of a definition without writing
    Verify(read::Verify),
}

impl Defs {
    pub(crate) fn look(&self) -> Look {
        match self {
            Self::List(list) => list.look,
            Self::Show(show) => show.look,
            Self::Create(create) => create.look,
            Self::Fork(fork) => fork.look,
            Self::Diff(diff) => diff.look,
            Self::Promote(promote) => promote.look,
            Self::Retire(retire) => retire.look,
            Self::Verify(verify) => verify.look,
        }
    }

    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        match self {
            Self::List(list) => list.perform(session).await,
            Self::Show(show) => show.perform(session).await,
            Self::Create(create) => create.perform(session).await,
            Self::Fork(fork) => fork.perform(session).await,
            Self::Diff(diff) => diff.perform(session).await,
            Self::Promote(promote) => promote.perform(session).await,
            Self::Retire(retire) => retire.perform(session).await,
            Self::Verify(verify) => verify.perform(session).await,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum KindName {
    Agent,
    Channel,
    Skill,
    Volume,
}

/// What is meant by a name.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Kind {
    /// Kind of definition
    #[arg(long, value_enum, default_value_t = KindName::Agent)]
    kind: KindName,
}

impl Kind {
    pub(crate) fn value(self) -> DefinitionKind {
        self.kind.into()
    }
}

impl From<KindName> for DefinitionKind {
    fn from(kind: KindName) -> Self {
        match kind {
            KindName::Agent => Self::Agent,
            KindName::Channel => Self::Channel,
            KindName::Skill => Self::Skill,
            KindName::Volume => Self::Volume,
        }
    }
}

/// The name and version of `NAME@VERSION` or `NAME`.
pub(crate) fn reference(text: &str) -> Result<(String, Option<u32>), CommandError> {
    let bad = || {
        CommandError::usage("bad_version", format!("invalid version {text:?}"))
            .with_hint("write NAME@VERSION, such as writer@2; `drawloom defs ls NAME` lists the versions")
    };
    match text.split_once('@') {
        None => Ok((text.to_owned(), None)),
        Some((name, "config")) => Ok((name.to_owned(), None)),
        Some((name, version)) => Ok((name.to_owned(), Some(version.parse().map_err(|_| bad())?))),
    }
}

/// What lint found and what else is to say, for people; programs read it in the answer.
pub(crate) fn remarks(session: &Session, findings: &[DefinitionFinding], warnings: &[String]) {
    if session.output.format() == Format::Json {
        return;
    }
    for finding in findings {
        session.output.note(session.output.beside(Style::Notice, &format!("{}: {}", finding.level, finding.message)));
    }
    for warning in warnings {
        session.output.note(session.output.beside(Style::Notice, &format!("warning: {warning}")));
    }
}

/// A version that a command made or changed, in a line.
pub(crate) fn told(session: &Session, version: &DefinitionVersion) {
    match session.output.format() {
        Format::Json => session.output.json(version),
        Format::Human => {
            let state = match (version.retired, version.active, version.kind) {
                (true, _, _) => "retired",
                (false, true, DefinitionKind::Channel) => "active: the channel has these settings",
                (false, true, _) => "active: new runs use it",
                (false, false, DefinitionKind::Channel) => {
                    "not active; `drawloom defs promote` gives the channel these settings"
                }
                (false, false, _) => "not active; `drawloom defs promote` makes new runs use it",
            };
            let same = if version.deduplicated == Some(true) { " (this content existed)" } else { "" };
            session.output.line(format!("{}{same}: {state}", version.def_id));
            remarks(session, &version.findings, &version.warnings);
        }
    }
}
