//! `drawloom goal cancel` and `backends`.

use clap::Args;
use drawloom_wire::goals::{BackendInfo, ListBackends, OrchestrateCancel, OrchestrateStatus};
use serde_json::json;

use super::read::{Named, place_of};
use crate::{
    cli::Look,
    commands::{
        Session,
        agentloop::{self, Shape},
    },
    connect::{self, Execution, Need},
    exit::{CommandError, Exit},
    output::{Column, Format, Style, Text},
};

/// Stop a goal and everything that it started
#[derive(Debug, Args)]
pub struct Cancel {
    #[command(flatten)]
    named: Named,
    /// Keep this reason with the goal
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    execution: Execution,
    /// The format of the output.
    #[command(flatten)]
    pub(super) look: Look,
}

impl Cancel {
    pub(super) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let (cancelled, goal) = connect::with(session, "goal cancel", Need::Engine(self.execution), async |it| {
            let run_id = self.named.resolve(it).await?;
            let ask = OrchestrateCancel { run_id, reason: self.reason.clone(), idempotency_key: None };
            let cancelled = it.backend.call(&ask).await?;
            Ok((cancelled, it.backend.call(&OrchestrateStatus { run_id }).await?))
        })
        .await?;
        let output = &session.output;
        if output.format() == Format::Json {
            let mut shown = serde_json::to_value(&cancelled).unwrap_or_default();
            shown["repository"] = json!(goal.repository);
            shown["branch"] = json!(goal.branch);
            output.json(&shown);
            return Ok(Exit::Done);
        }
        match cancelled.cancelled {
            true => output.line(format!("goal {} is cancelled", cancelled.run_id)),
            false => output.line(format!("goal {} had ended: {}", cancelled.run_id, cancelled.status.as_str())),
        }
        if let Some(repository) = &goal.repository {
            output.note(place_of(repository, goal.branch.as_deref().unwrap_or_default()));
        }
        Ok(Exit::Done)
    }
}

/// List what can execute the roles of goals
#[derive(Debug, Args)]
pub struct Backends {
    #[arg(skip)]
    pub(super) shape: Shape,
    #[command(flatten)]
    execution: Execution,
    /// The format of the output.
    #[command(flatten)]
    pub(super) look: Look,
}

impl Backends {
    pub(super) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let list = connect::with(session, "goal backends", Need::Engine(self.execution), async |it| {
            it.backend.call(&ListBackends::default()).await
        })
        .await?;
        let output = &session.output;
        if self.shape == Shape::Agentloop {
            agentloop::backends(session, &list);
            return Ok(Exit::Done);
        }
        match output.format() {
            Format::Json => output.json(&list),
            Format::Human => {
                show(session, &list.backends);
                output.note(format!("default: {} (here: {})", list.default, list.resolved_default));
            }
        }
        Ok(Exit::Done)
    }
}

/// Shows a table of backends.
pub(super) fn show(session: &Session, backends: &[BackendInfo]) {
    let columns = [
        Column::new("backend"),
        Column::new("kind"),
        Column::new("available"),
        Column::new("logged in").optional(1),
        Column::new("version").shrinks_to(10).optional(2),
        Column::new("models").shrinks_to(20).optional(3),
        Column::new("problem").shrinks_to(20),
    ];
    let row = |backend: &BackendInfo| {
        let (style, word) = if backend.available { (Style::Good, "yes") } else { (Style::Bad, "no") };
        [
            Text::new(&backend.name).style(Style::Bold),
            Text::new(&backend.kind),
            Text::new(word).style(style),
            Text::new(backend.logged_in.as_deref().unwrap_or_default()),
            Text::new(backend.version.as_deref().unwrap_or_default()),
            Text::new(backend.models.join(", ")),
            Text::new(backend.problem.as_deref().unwrap_or_default()),
        ]
    };
    session.output.table(columns, backends.iter().map(row));
}
