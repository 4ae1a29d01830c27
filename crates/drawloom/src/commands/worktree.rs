//! `drawloom worktree`: the checkouts of goals.

mod change;
mod look;

use clap::Subcommand;

use crate::{
    cli::Look,
    commands::Session,
    exit::{CommandError, Exit},
};

/// Shown below the help.
pub(crate) const HELP: &str = "\
Examples:
  drawloom worktree list                      list goals with checkouts on the disk
  drawloom worktree diff last                 show what the newest goal of this repository changed
  drawloom worktree diff last --checkout s1   show what lies in one checkout
  drawloom worktree commit last               commit what lies in its checkouts
  drawloom worktree remove last               remove its checkouts; branches and refs stay";

/// List, compare, commit and remove the checkouts of goals
#[derive(Debug, Subcommand)]
pub enum Worktree {
    /// List goals with their branches and checkouts
    #[command(visible_alias = "ls")]
    List(look::List),
    /// Show what a goal changed since its base
    Diff(look::Diff),
    /// Commit what lies in the checkouts of a goal
    Commit(change::Commit),
    /// Remove the checkouts of a goal
    #[command(visible_alias = "rm")]
    Remove(change::Remove),
}

impl Worktree {
    pub(crate) fn look(&self) -> Look {
        match self {
            Self::List(list) => list.look,
            Self::Diff(diff) => diff.look,
            Self::Commit(commit) => commit.look,
            Self::Remove(remove) => remove.look,
        }
    }

    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        match self {
            Self::List(list) => list.perform(session).await,
            Self::Diff(diff) => diff.perform(session).await,
            Self::Commit(commit) => commit.perform(session).await,
            Self::Remove(remove) => remove.perform(session).await,
        }
    }
}
