//! `drawloom memory`: what agents and users keep between runs.

mod change;
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
    output::{Format, LocalTime, Style},
};

/// Shown below the help.
pub(crate) const HELP: &str = "\
Examples:
  drawloom memory set style short                   store a value for yourself
  drawloom memory get style --agent reviewer        show a value of the agent reviewer
  drawloom memory list review: --tenant             list shared keys by prefix
  drawloom memory search 'lock \"race condition\"'   find entries by words, best match first
  drawloom memory watch --run last                  show changes of a run's memory as they happen
  drawloom memory export > memory.jsonl             save all entries, one JSON object per line
  drawloom memory import memory.jsonl               write them back; importing twice changes nothing";

/// Read and change the memory of agents and users
#[derive(Debug, Subcommand)]
pub enum Memory {
    /// Show the value of a key
    Get(get::Get),
    /// Set a key to a value
    Set(set::Set),
    /// Change a key by what it holds: add, merge or append
    Change(change::Change),
    /// List keys
    #[command(visible_alias = "ls")]
    List(list::List),
    /// Delete keys
    #[command(name = "rm", visible_alias = "delete")]
    Remove(remove::Remove),
    /// Find entries by words, best match first
    Search(search::Search),
    /// Show changes as they happen
    Watch(watch::Watch),
    /// Print all entries, one JSON object per line
    Export(export::Export),
    /// Write the entries of an exported file
    Import(import::Import),
}

impl Memory {
    pub(crate) fn look(&self) -> Look {
        match self {
            Self::Get(get) => get.look,
            Self::Set(set) => set.look,
            Self::Change(change) => change.look,
            Self::List(list) => list.look,
            Self::Remove(remove) => remove.look,
            Self::Search(search) => search.look,
            Self::Watch(watch) => watch.look,
            Self::Export(export) => export.look,
            Self::Import(import) => import.look,
        }
    }

    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        match self {
            Self::Get(get) => get.perform(session).await,
            Self::Set(set) => set.perform(session).await,
            Self::Change(change) => change.perform(session).await,
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
    /// Use the memory of this agent
    #[arg(long, value_name = "AGENT")]
    agent: Option<AgentName>,
    /// Use the memory of this run, which it shares with its parent and child runs
    #[arg(long, value_name = "RUN")]
    run: Option<Handle>,
    /// Use the memory of this user, if your token may act for others
    #[arg(long, value_name = "USER")]
    user: Option<UserId>,
    /// Use the memory that all users share
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
pub(crate) fn written(provenance: &Provenance, local: &LocalTime) -> String {
    let who = match (&provenance.run_id, &provenance.agent, &provenance.call) {
        (Some(run), Some(agent), Some(call)) => format!("agent {agent} in call {call} of run {run}"),
        _ => {
            let user = provenance.user_id.as_ref().map(ToString::to_string).unwrap_or_default();
            format!("user {user} with {}", provenance.operation.as_deref().unwrap_or("an operation"))
        }
    };
    let replaced = provenance.replaced.as_ref().map(|replaced| format!("; replaced revision {}", replaced.revision));
    format!("written {} by {who}{}", local.whole_of(&provenance.at), replaced.unwrap_or_default())
}
