//! `drawloom agents`: the agents that can be run.

mod show;

use clap::Subcommand;
use drawloom_wire::agents::ListAgents;

use crate::{
    cli::{Look, Quiet},
    commands::Session,
    connect::{self, Need},
    exit::{CommandError, Exit},
    output::{Column, Format, Style, Text, first_line},
};

/// List and show agents
#[derive(Debug, Subcommand)]
pub enum Agents {
    /// List agents with their models, tools and gates
    #[command(visible_alias = "ls")]
    List {
        #[command(flatten)]
        ids: Quiet,
        /// The format of the output.
        #[command(flatten)]
        look: Look,
    },
    /// Show one agent as the config resolves it
    Show(show::Show),
}

impl Agents {
    pub(crate) fn look(&self) -> Look {
        match self {
            Self::List { look, .. } => *look,
            Self::Show(show) => show.look,
        }
    }

    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        match self {
            Self::List { ids, .. } => list(session, ids).await,
            Self::Show(show) => show.perform(session),
        }
    }
}

async fn list(session: &Session, ids: Quiet) -> Result<Exit, CommandError> {
    let list =
        connect::with(session, "agents list", Need::Config, async |it| it.backend.call(&ListAgents::default()).await)
            .await?;
    let output = &session.output;
    match output.format() {
        Format::Json => output.json(&list),
        Format::Human if ids.quiet => output.ids(list.agents.iter().map(|agent| &agent.name)),
        Format::Human if list.agents.is_empty() => output.line("no agents; add some under `agents` in the config"),
        Format::Human => output.table(
            [
                Column::new("agent"),
                Column::new("model").shrinks_to(20).keeps_end(),
                Column::new("tools").shrinks_to(12),
                Column::new("may spawn").shrinks_to(9).optional(3),
                Column::new("volumes").shrinks_to(7).optional(4),
                Column::new("hosts").shrinks_to(7).optional(5),
                Column::new("memory").shrinks_to(7).optional(6),
                Column::new("description").shrinks_to(16),
            ],
            list.agents.iter().map(|agent| {
                let gate = |name: &str| names(agent.gates.get(name).map(Vec::as_slice).unwrap_or_default());
                [
                    Text::new(agent.name.to_string()).style(Style::Bold),
                    Text::new(format!("{}/{}", agent.provider, agent.model)),
                    names(&agent.tools),
                    gate("agents"),
                    gate("volumes"),
                    gate("hosts"),
                    // The column is left out when no agent has memory.
                    Text::new(agent.gates.get("memory_scopes").map(|scopes| scopes.join(", ")).unwrap_or_default()),
                    Text::new(first_line(&agent.description, 60)),
                ]
            }),
        ),
    }
    Ok(Exit::Done)
}

fn names(list: &[String]) -> Text {
    if list.is_empty() { Text::new("none").style(Style::Dim) } else { Text::new(list.join(", ")) }
}
