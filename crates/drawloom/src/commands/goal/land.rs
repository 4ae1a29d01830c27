//! `drawloom goal land`: brings the work of a goal to a branch.

use clap::Args;
use drawloom_checkout::Trigger;
use drawloom_wire::goals::{GoalLanded, GoalTrigger, OrchestrateLand, OrchestrateResult};

use super::read::{Named, place_of};
use crate::{
    cli::Look,
    commands::Session,
    connect::{self, Connection, Execution, Need},
    exit::{CommandError, Exit},
    output::{Format, Style},
};

/// The error of a landing with files that make tools run something.
const NEEDS_ACCEPTANCE: &str = "needs_acceptance";

/// Bring the work of a goal to a branch
///
/// The branch is moved forward if it has nothing that the work lacks. A branch that is checked out is never changed: then the command
/// for it is printed. Changed files that make tools run something, such as `.envrc` or `.vscode/tasks.json`, must be accepted first.
///
/// Exit codes: 0 the branch was moved, 1 nothing was moved, 2 error, 3 files must be accepted.
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
    /// Accept a changed file that makes tools run something, or a folder that ends with a slash; can be repeated
    #[arg(long, value_name = "PATH")]
    accept: Vec<String>,
    #[command(flatten)]
    execution: Execution,
    /// The format of the output.
    #[command(flatten)]
    pub(super) look: Look,
}

impl Land {
    pub(super) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let need = Need::Engine(self.execution);
        let landed = connect::with(session, "goal land", need, async |it| self.land(session, it).await).await?;
        let output = &session.output;
        let Some(landed) = landed else {
            output.note("nothing was landed");
            return Ok(Exit::NeedsInput);
        };
        match output.format() {
            Format::Json => output.json(&landed),
            Format::Human => {
                let style = if landed.landed { Style::Good } else { Style::Notice };
                output.note(place_of(&landed.repository, &landed.branch));
                output.note(output.beside(style, &landed.message));
                if let Some(command) = &landed.command {
                    output.line(command);
                }
            }
        }
        Ok(if landed.moved { Exit::Done } else { Exit::Failed })
    }

    /// Asks on a terminal when files must be accepted. Returns nothing when the answer is no.
    async fn land(&self, session: &Session, connection: &Connection) -> Result<Option<GoalLanded>, CommandError> {
        let run_id = self.named.resolve_in_repository(connection).await?;
        let ask = |accept: Vec<String>| OrchestrateLand {
            run_id,
            into: self.into.clone(),
            unverified: self.unverified,
            accept,
            idempotency_key: None,
        };
        let error = match connection.backend.call(&ask(self.accept.clone())).await {
            Err(error) if error.code == NEEDS_ACCEPTANCE => error,
            landed => return landed.map(Some),
        };
        let read = OrchestrateResult { run_id, wait: false, timeout: None };
        let result = connection.backend.call(&read).await?;
        let all = result.worktree.map(|worktree| worktree.needs_acceptance).unwrap_or_default();
        let files = not_accepted(all, &self.accept);
        let output = &session.output;
        if !output.can_ask() {
            let details = files.iter().map(|file| format!("{}: {}", file.path, file.why)).collect();
            return Err(CommandError { exit: Exit::NeedsInput, details, ..error });
        }
        output.note("these files make tools run something:");
        for file in &files {
            output.note(output.beside(Style::Notice, &format!("  {}: {}", file.path, file.why)));
        }
        if !output.confirm("Land them? [y/N] ")? {
            return Ok(None);
        }
        // What was shown, and nothing that came later.
        let accept = files.into_iter().map(|file| file.path).chain(self.accept.iter().cloned()).collect();
        connection.backend.call(&ask(accept)).await.map(Some)
    }
}

/// The files that still need to be accepted.
fn not_accepted(files: Vec<GoalTrigger>, accepted: &[String]) -> Vec<GoalTrigger> {
    let is_open = |GoalTrigger { path, why }: &GoalTrigger| {
        let trigger = Trigger { path: path.clone(), why: why.clone() };
        !accepted.iter().any(|name| trigger.is_named(name))
    };
    files.into_iter().filter(is_open).collect()
}
