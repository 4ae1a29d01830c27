//! `drawloom worktree commit` and `remove`.

use clap::Args;
use drawloom_wire::worktrees::{CommitWorktree, ListWorktrees, RemoveWorktree, WorktreeLeftOut, WorktreeRemoved};

use super::look::show;
use crate::{
    cli::Look,
    commands::{
        Session,
        goal::{Named, place_of},
    },
    connect::{self, Connection, Execution, Need},
    exit::{CommandError, Exit},
    interrupts::own_key,
    output::{Format, Style, bytes},
};

/// Commit what lies in the checkouts of a goal
///
/// Each commit is kept as a ref in the repository, and the goal's branch does not move. Files that may hold secrets and files that are
/// too large are left out. The goal must have ended.
#[derive(Debug, Args)]
pub struct Commit {
    #[command(flatten)]
    named: Named,
    /// Commit only this checkout
    #[arg(long, value_name = "NAME")]
    checkout: Option<String>,
    /// Message of the commits
    #[arg(long, short, value_name = "TEXT")]
    message: Option<String>,
    #[command(flatten)]
    execution: Execution,
    /// The format of the output.
    #[command(flatten)]
    pub(super) look: Look,
}

impl Commit {
    pub(super) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let key = own_key()?;
        let made = connect::with(session, "worktree commit", Need::Engine(self.execution), async |it| {
            let run_id = self.named.resolve_in_repository(it).await?;
            let ask = CommitWorktree {
                run_id,
                checkout: self.checkout.clone(),
                message: self.message.clone(),
                idempotency_key: Some(key.clone()),
            };
            it.backend.call(&ask).await
        })
        .await?;
        let output = &session.output;
        match output.format() {
            Format::Json => output.json(&made),
            Format::Human if made.commits.is_empty() => {
                output.line("nothing to commit");
                output.note(place_of(&made.repository, &made.branch));
            }
            Format::Human => {
                output.note(place_of(&made.repository, &made.branch));
                for commit in &made.commits {
                    let files = commit.changed.len();
                    let files = if files == 1 { "1 file".to_owned() } else { format!("{files} files") };
                    output.line(format!("{}: committed {files} as {}", commit.checkout, commit.reference));
                    tell_left_out(session, &commit.checkout, &commit.left_out);
                }
                output.note("take a commit with `git merge` or `git cherry-pick` and its ref");
            }
        }
        Ok(Exit::Done)
    }
}

fn tell_left_out(session: &Session, checkout: &str, files: &[WorktreeLeftOut]) {
    for file in files {
        let text = format!("not committed: {checkout}/{} ({})", file.path, file.reason);
        session.output.note(session.output.beside(Style::Notice, &text));
    }
}

/// Remove the checkouts of a goal
///
/// What is not committed is kept as a ref first. Branches, commits and refs stay. The goal must have ended.
#[derive(Debug, Args)]
pub struct Remove {
    /// Goal: an id, the start of one, or `last`, the newest of this repository
    #[arg(value_name = "GOAL")]
    goal: String,
    /// Remove without asking
    #[arg(long, short)]
    yes: bool,
    /// Lose files that no commit takes, such as `.env` or files that are too large
    #[arg(long)]
    discard: bool,
    #[command(flatten)]
    execution: Execution,
    /// The format of the output.
    #[command(flatten)]
    pub(super) look: Look,
}

impl Remove {
    pub(super) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let need = Need::Engine(self.execution);
        let removed =
            connect::with(session, "worktree remove", need, async |it| self.remove(session, it).await).await?;
        let output = &session.output;
        let Some(removed) = removed else {
            output.note("nothing was removed");
            return Ok(Exit::NeedsInput);
        };
        match output.format() {
            Format::Json => output.json(&removed),
            Format::Human => {
                let count = removed.removed.len();
                output.note(place_of(&removed.repository, &removed.branch));
                let checkouts = if count == 1 { "1 checkout".to_owned() } else { format!("{count} checkouts") };
                output.line(format!("removed {checkouts}, {}", bytes(removed.bytes)));
                for saved in &removed.saved {
                    output.line(format!("{}: what was not committed is {}", saved.checkout, saved.reference));
                }
            }
        }
        Ok(Exit::Done)
    }

    /// Asks first, unless `--yes` says that it may. Returns nothing when the answer is no.
    async fn remove(
        &self,
        session: &Session,
        connection: &Connection,
    ) -> Result<Option<WorktreeRemoved>, CommandError> {
        let run_id = Named::new(&self.goal).resolve_in_repository(connection).await?;
        if !self.yes {
            let output = &session.output;
            if !output.can_ask() {
                let message = "the checkouts were not removed, because stdin is not a terminal to ask on";
                let error = CommandError::usage("no_answer", message);
                return Err(CommandError { exit: Exit::NeedsInput, ..error }.with_hint("pass --yes to remove them"));
            }
            let found =
                connection.backend.call(&ListWorktrees { run_id: Some(run_id), all: true, limit: None }).await?;
            found.worktrees.iter().for_each(|worktree| show(session, worktree));
            if !output.confirm("Remove its checkouts? [y/N] ")? {
                return Ok(None);
            }
        }
        let ask = RemoveWorktree { run_id, discard: self.discard, idempotency_key: None };
        connection.backend.call(&ask).await.map(Some)
    }
}
