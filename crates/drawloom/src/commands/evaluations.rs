//! `drawloom evaluations`: what agents and users think of runs.

mod list;
mod show;
mod stats;
mod submit;

use clap::Subcommand;
use drawloom_wire::evaluations::{Emitter, EmitterRole, Evaluation};

use crate::{
    cli::Look,
    commands::Session,
    exit::{CommandError, Exit},
    output::{Format, Style},
};

/// Shown below the help.
pub(crate) const HELP: &str = "\
Examples:
  drawloom evaluations ls last                        list the evaluations of the newest run
  drawloom evaluations submit last 0.9 --tag style    evaluate it; the same tag again replaces the score
  drawloom evaluations stats reviewer                 compare the versions of the agent reviewer
  drawloom evaluations show last --tag style          show one evaluation with its texts";

/// Submit and compare evaluations of runs
#[derive(Debug, Subcommand)]
pub enum Evaluations {
    /// List the evaluations of a run or a definition, newest first
    #[command(visible_alias = "ls")]
    List(list::List),
    /// Show an evaluation with its judgement and rationale
    Show(show::Show),
    /// Submit an evaluation of a run
    Submit(submit::Submit),
    /// Show statistics of an agent by version
    Stats(stats::Stats),
}

impl Evaluations {
    pub(crate) fn look(&self) -> Look {
        match self {
            Self::List(list) => list.look,
            Self::Show(show) => show.look,
            Self::Submit(submit) => submit.look,
            Self::Stats(stats) => stats.look,
        }
    }

    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        match self {
            Self::List(list) => list.perform(session).await,
            Self::Show(show) => show.perform(session).await,
            Self::Submit(submit) => submit.perform(session).await,
            Self::Stats(stats) => stats.perform(session).await,
        }
    }
}

/// Tells people what an answer warns of; programs read it in the answer.
fn warn(session: &Session, warnings: &[String]) {
    for warning in warnings.iter().filter(|_| session.output.format() == Format::Human) {
        session.output.note(session.output.beside(Style::Notice, &format!("warning: {warning}")));
    }
}

/// A score as people read it.
fn score(score: f64) -> String {
    // Earlier programs stored -0.0.
    format!("{:.2}", score + 0.0)
}

/// The dimensions on one line.
fn dimensions(evaluation: &Evaluation) -> String {
    let each = evaluation.dimensions.iter().map(|(name, value)| format!("{name} {}", score(*value)));
    each.collect::<Vec<_>>().join(", ")
}

/// Who submitted it.
fn emitter(emitter: &Emitter, role: EmitterRole) -> String {
    match &emitter.agent {
        Some(agent) => format!("{agent} ({})", role.as_str()),
        None => emitter.user_id.to_string(),
    }
}
