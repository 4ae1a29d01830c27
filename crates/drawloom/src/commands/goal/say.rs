//! `drawloom goal say` and `drawloom goal rm`.

use clap::Args;
use drawloom_wire::goals::{OrchestrateRm, OrchestrateSay, OrchestrateStatus};

use super::read::{Named, place_of};
use crate::{
    cli::Look,
    commands::Session,
    connect::{self, Connection, Execution, Need},
    exit::{CommandError, Exit},
    interrupts::own_key,
    output::Format,
};

/// Say something to a goal at work
///
/// Planner, workers and reviewer that are asked from then on are told. Those at work are not interrupted. A goal that has ended goes on with
/// `goal resume GOAL --say TEXT`.
#[derive(Debug, Args)]
pub struct Say {
    /// Goal: an id, the start of one, or `last`, the newest of this repository
    #[arg(value_name = "GOAL")]
    goal: String,
    /// Text to tell them
    #[arg(value_name = "TEXT")]
    text: String,
    #[command(flatten)]
    execution: Execution,
    /// The format of the output.
    #[command(flatten)]
    pub(super) look: Look,
}

impl Say {
    pub(super) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let key = Some(own_key()?);
        let said = connect::with(session, "goal say", Need::Engine(self.execution), async |it| {
            let run_id = Named::new(&self.goal).resolve(it).await?;
            let ask = OrchestrateSay { run_id, text: self.text.clone(), idempotency_key: key.clone() };
            it.backend.call(&ask).await
        })
        .await?;
        match session.output.format() {
            Format::Json => session.output.json(&said),
            Format::Human => {
                session.output.line(format!("roles of goal {} that are asked from now on are told", said.run_id));
            }
        }
        Ok(Exit::Done)
    }
}

/// Remove the branch, refs, checkouts and folder of a goal that has ended
///
/// Its run stays in the journal. Work that is on no other branch is lost; the command asks before that.
#[derive(Debug, Args)]
pub struct Rm {
    #[command(flatten)]
    named: Named,
    /// Remove without asking
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    execution: Execution,
    /// The format of the output.
    #[command(flatten)]
    pub(super) look: Look,
}

impl Rm {
    pub(super) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let output = &session.output;
        let need = Need::Engine(self.execution);
        let removed = connect::with(session, "goal rm", need, async |it| self.remove(session, it).await).await?;
        let Some(removed) = removed else {
            output.note("nothing was removed");
            return Ok(Exit::NeedsInput);
        };
        if output.format() == Format::Json {
            output.json(&removed);
            return Ok(Exit::Done);
        }
        output.line(format!("removed goal {}", removed.run_id));
        if let (Some(repository), Some(branch), Some(commit)) = (&removed.repository, &removed.branch, &removed.commit)
        {
            output.note(place_of(repository, branch));
            output.note(format!("bring the branch back with: git branch {branch} {commit}"));
        }
        if let Some(left) = &removed.left {
            output.note(left);
        }
        Ok(Exit::Done)
    }

    async fn remove(
        &self,
        session: &Session,
        connection: &Connection,
    ) -> Result<Option<drawloom_wire::goals::GoalRemoved>, CommandError> {
        let run_id = self.named.resolve(connection).await?;
        let status = connection.backend.call(&OrchestrateStatus { run_id }).await?;
        let output = &session.output;
        if !self.yes && !status.running {
            let what = match (&status.repository, &status.branch) {
                (Some(repository), Some(branch)) => place_of(repository, branch),
                _ => status.run_dir.display().to_string(),
            };
            if !output.can_ask() {
                let message =
                    format!("goal {run_id} ({what}) was not removed, because stdin is not a terminal to ask on");
                let error = CommandError::usage("no_answer", message);
                return Err(CommandError { exit: Exit::NeedsInput, ..error }.with_hint("pass --yes to remove it"));
            }
            output.note(format!("goal {run_id}: {}", status.goal));
            output.note(what);
            if !output.confirm("Remove its branch, refs, checkouts and folder? [y/N] ")? {
                return Ok(None);
            }
        }
        connection.backend.call(&OrchestrateRm { run_id, idempotency_key: Some(own_key()?) }).await.map(Some)
    }
}
