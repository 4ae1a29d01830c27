//! `drawloom goal land`: brings the work of a goal to a branch.

use clap::Args;
use drawloom_wire::goals::OrchestrateLand;

use super::read::Named;
use crate::{
    cli::Look,
    commands::Session,
    connect::{self, Execution, Need},
    exit::{CommandError, Exit},
    output::{Format, Style},
};

/// Bring the work of a goal to a branch
///
/// The branch is moved forward if it has nothing that the work lacks. A branch that is checked out is never changed: then the command
/// for it is printed.
#[derive(Debug, Args)]
pub struct Land {
    #[command(flatten)]
    named: Named,
    /// Branch to move [default: the one that the goal began at]
    #[arg(long, value_name = "BRANCH")]
    into: Option<String>,
    /// Land work that was not completed or whose verification failed
    #[arg(long)]
    unverified: bool,
    #[command(flatten)]
    execution: Execution,
    /// The format of the output.
    #[command(flatten)]
    pub(super) look: Look,
}

impl Land {
    pub(super) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let landed = connect::with(session, "goal land", Need::Engine(self.execution), async |it| {
            let run_id = self.named.resolve(it).await?;
            let ask =
                OrchestrateLand { run_id, into: self.into.clone(), unverified: self.unverified, idempotency_key: None };
            it.backend.call(&ask).await
        })
        .await?;
        let output = &session.output;
        match output.format() {
            Format::Json => output.json(&landed),
            Format::Human => {
                let style = if landed.landed { Style::Good } else { Style::Notice };
                output.note(output.beside(style, &landed.message));
                if let Some(command) = &landed.command {
                    output.line(command);
                }
            }
        }
        Ok(if landed.landed || landed.command.is_some() { Exit::Done } else { Exit::Failed })
    }
}
