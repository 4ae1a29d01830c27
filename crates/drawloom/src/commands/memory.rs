//! `drawloom memory`: what agents and users keep between runs.

mod export;
mod get;
mod import;
mod list;
mod remove;
mod search;
mod set;
mod watch;

use clap::{Args, Subcommand};
use drawloom_contract::{
    definition::MemoryScope,
    ids::{AgentName, RunId, UserId},
};
use drawloom_wire::memory::Provenance;
use serde_json::Value;

use crate::{
    cli::Look,
    commands::{Session, runs::Handle},
    connect::Connection,
    exit::{CommandError, Exit},
    output::{Format, Style},
};

/// Shown below the help.
pub(crate) const HELP: &str = "\
Examples:
  drawloom memory set style '\"short\"'              keep a value for yourself
  drawloom memory get style --agent reviewer        read what the agent reviewer keeps
  drawloom memory ls review: --tenant               list keys that everybody shares, by prefix
  drawloom memory search 'lock \"race condition\"'   find entries by words, best first
  drawloom memory watch --run RUN                   show changes of a tree of runs as they happen
  drawloom memory export > memory.jsonl             one JSON object a line, with provenance
  drawloom memory import memory.jsonl               write them again; the same file twice changes nothing";

/// Read, change, search and watch what agents and you keep between runs
#[derive(Debug, Subcommand)]
pub enum Memory {
    /// Show the value of a key
    Get(get::Get),
    /// Set a key to a value
    Set(set::Set),
    /// List keys by prefix
    #[command(name = "ls", visible_alias = "list")]
    List(list::List),
    /// Remove keys
    #[command(name = "rm", visible_alias = "delete")]
    Remove(remove::Remove),
    /// Find entries by words, best first
    Search(search::Search),
    /// Show changes as they happen
    Watch(watch::Watch),
    /// Write all entries as JSON, one a line
    Export(export::Export),
    /// Read entries that `export` wrote
    Import(import::Import),
}

impl Memory {
    pub(crate) fn look(&self) -> Look {
        match self {
            Self::Get(get) => get.look,
            Self::Set(set) => set.look,
            Self::List(list) => list.look,
            Self::Remove(remove) => remove.look,
            Self::Search(search) => search.look,
            Self::Watch(watch) => watch.look,
            Self::Export(_) => Look { json: false },
            Self::Import(import) => import.look,
        }
    }

    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        match self {
            Self::Get(get) => get.perform(session).await,
            Self::Set(set) => set.perform(session).await,
            Self::List(list) => list.perform(session).await,
            Self::Remove(remove) => remove.perform(session).await,
            Self::Search(search) => search.perform(session).await,
            Self::Watch(watch) => watch.perform(session).await,
            Self::Export(export) => export.perform(session).await,
            Self::Import(import) => import.perform(session).await,
        }
    }
}

/// Whose memory; your own, when nothing is said.
#[derive(Debug, Clone, Args)]
#[group(id = "whose", multiple = false)]
pub(crate) struct Whose {
    /// The memory of an agent
    #[arg(long, value_name = "AGENT")]
    agent: Option<AgentName>,
    /// The memory of a tree of runs, named by one of its runs
    #[arg(long, value_name = "RUN")]
    run: Option<Handle>,
    /// The memory of a user, where the token may speak for others
    #[arg(long, value_name = "USER")]
    user: Option<UserId>,
    /// The memory that the whole tenant shares
    #[arg(long, visible_alias = "global")]
    tenant: bool,
}

/// The fields of a request that say whose memory it is.
pub(crate) struct Fields {
    pub(crate) scope: MemoryScope,
    pub(crate) agent: Option<AgentName>,
    pub(crate) run_id: Option<RunId>,
    pub(crate) user_id: Option<UserId>,
}

impl Whose {
    pub(crate) async fn fields(&self, connection: &Connection) -> Result<Fields, CommandError> {
        let run_id = match &self.run {
            Some(run) => Some(run.resolve(connection).await?),
            None => None,
        };
        let scope = match (&self.agent, run_id, self.tenant) {
            (Some(_), ..) => MemoryScope::Agent,
            (None, Some(_), _) => MemoryScope::Run,
            (None, None, true) => MemoryScope::Tenant,
            (None, None, false) => MemoryScope::User,
        };
        Ok(Fields { scope, agent: self.agent.clone(), run_id, user_id: self.user.clone() })
    }
}

/// Tells people what an answer warns of; programs read it in the answer.
pub(crate) fn warn(session: &Session, warnings: &[String]) {
    for warning in warnings.iter().filter(|_| session.output.format() == Format::Human) {
        session.output.note(session.output.beside(Style::Notice, &format!("warning: {warning}")));
    }
}

/// A value on one line, as people read it: texts without quotes.
pub(crate) fn line_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Who wrote an entry and what it replaced, in a line.
pub(crate) fn written(provenance: &Provenance) -> String {
    let who = match (&provenance.run_id, &provenance.agent, &provenance.call) {
        (Some(run), Some(agent), Some(call)) => format!("agent {agent} in call {call} of run {run}"),
        _ => {
            let user = provenance.user_id.as_ref().map(ToString::to_string).unwrap_or_default();
            format!("user {user} with {}", provenance.operation.as_deref().unwrap_or("an operation"))
        }
    };
    let replaced = provenance.replaced.as_ref().map(|replaced| format!("; replaced revision {}", replaced.revision));
    format!("written {} by {who}{}", provenance.at, replaced.unwrap_or_default())
}
