//! `drawloom goal`: goals, from a sentence to verified work.

mod ask;
mod demo;
mod doctor;
mod here;
mod land;
mod manage;
mod read;
mod resume;
mod run;
mod say;
mod view;
mod workers;

use std::{fs, path::PathBuf};

use clap::Subcommand;
use drawloom_wire::goals::GoalResult;

use crate::{
    cli::{Globals, Look},
    commands::{Session, agentloop::Shape},
    config, environment,
    exit::{CommandError, Exit},
    output::{Format, Style, count, duration},
};

pub(crate) use read::{Named, place_of};

/// Shown below the help.
pub(crate) const HELP: &str = "\
Examples:
  drawloom goal demo                                     watch the loop with a mock team: no key, no model
  drawloom goal run 'Add a /health endpoint with a test' --verify 'npm test'
  drawloom goal run --goal-file goal.md --backend codex --skip-permissions --detach
  drawloom goal tail last                                follow the newest goal of this repository
  drawloom goal land last                                bring its work to the branch that it began at
  drawloom goal say last 'Keep the old API too'          tell the roles that are asked from now on
  drawloom goal resume last --max-iterations 3           go on from a goal that was stopped or cancelled

Exit codes of run, resume and result: 0 completed, 1 stopped by a limit, 2 error, 3 needs input, 130 and 143 interrupted.";

/// Drive goals to done: plan, work, verify, review, repeat
#[derive(Debug, Subcommand)]
pub enum Goal {
    /// Start a goal and follow it
    Run(Box<run::Run>),
    /// Show where a goal stands
    Status(read::Status),
    /// Show the events of a goal, and follow it
    Tail(read::Tail),
    /// Show what came of a goal
    Result(read::ResultOf),
    /// List goals, the newest first
    #[command(visible_alias = "ls")]
    List(read::List),
    /// Answer what a goal asks, or go on from one that has ended
    Resume(Box<resume::Resume>),
    /// Say something to a goal at work
    Say(say::Say),
    /// Stop a goal and everything that it started
    Cancel(manage::Cancel),
    /// Bring the work of a goal to a branch
    Land(land::Land),
    /// Remove the branch, refs, checkouts and folder of a goal
    Rm(say::Rm),
    /// List what can execute the roles of goals
    Backends(manage::Backends),
    /// Check whether goals can run here
    Doctor(doctor::Doctor),
    /// Run the loop with a mock team: no key, no model
    Demo(demo::Demo),
}

impl Goal {
    pub(crate) fn look(&self) -> Look {
        match self {
            Self::Run(run) => run.look,
            Self::Status(status) => status.look,
            Self::Tail(tail) => tail.look,
            Self::Result(result) => result.look,
            Self::List(list) => list.look,
            Self::Resume(resume) => resume.look,
            Self::Say(say) => say.look,
            Self::Rm(rm) => rm.look,
            Self::Cancel(cancel) => cancel.look,
            Self::Land(land) => land.look,
            Self::Backends(backends) => backends.look,
            Self::Doctor(doctor) => doctor.look,
            Self::Demo(demo) => demo.look,
        }
    }

    /// In whose shape the output is.
    pub(crate) fn set_shape(&mut self, shape: Shape) {
        match self {
            Self::Run(run) => run.shape = shape,
            Self::Backends(backends) => backends.shape = shape,
            _ => {}
        }
    }

    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        match self {
            Self::Run(run) => run.perform(session).await,
            Self::Status(status) => status.perform(session).await,
            Self::Tail(tail) => tail.perform(session).await,
            Self::Result(result) => result.perform(session).await,
            Self::List(list) => list.perform(session).await,
            Self::Resume(resume) => resume.perform(session).await,
            Self::Say(say) => say.perform(session).await,
            Self::Rm(rm) => rm.perform(session).await,
            Self::Cancel(cancel) => cancel.perform(session).await,
            Self::Land(land) => land.perform(session).await,
            Self::Backends(backends) => backends.perform(session).await,
            Self::Doctor(doctor) => doctor.perform(session).await,
            Self::Demo(demo) => demo.perform(session).await,
        }
    }
}

/// The config of goals outside of any project.
const OWN_CONFIG: &str = "\
# Goals that are started outside of a project use this config. A drawloom.yaml in a folder replaces it there.
providers: { anthropic: { driver: anthropic, api_key_env: ANTHROPIC_API_KEY } }
defaults: { provider: anthropic, model: claude-sonnet-4-6 }
";

/// Goals need no config: where none is found, they use one of this user.
pub(crate) fn use_own_config(globals: &mut Globals) -> Result<(), CommandError> {
    let is_found = globals.url.is_some() || config::find(&globals.config).is_ok();
    let Some(folder) = environment::default_data_dir().map(|data| data.join("goals")).filter(|_| !is_found) else {
        return Ok(());
    };
    let file: PathBuf = folder.join("drawloom.yaml");
    if !file.is_file() {
        let failed = |error: std::io::Error| {
            CommandError::usage("cannot_write", format!("cannot write {}: {error}", file.display()))
                .with_hint("run `drawloom init` in a folder of your own, or pass --config FILE")
        };
        fs::create_dir_all(&folder).map_err(failed)?;
        fs::write(&file, OWN_CONFIG).map_err(failed)?;
    }
    globals.config = vec![file];
    Ok(())
}

/// Shows a goal's result, and what it means for the exit code.
pub(super) fn told(session: &Session, result: &GoalResult) -> Exit {
    let output = &session.output;
    let exit = exit_of(result);
    if output.format() == Format::Json {
        output.json(result);
        return exit;
    }
    if result.status == "needs_input" {
        output.line(output.styled(Style::Notice, "the goal needs answers:"));
        for (index, question) in result.questions.iter().enumerate() {
            output.line(format!("  {}. {question}", index + 1));
        }
        let token = result.token.as_deref().unwrap_or_default();
        output.note(format!("answer with: drawloom goal resume {token} --answer '…'"));
        return exit;
    }
    if let Some(text) = result.final_output.as_deref().filter(|text| !text.is_empty()) {
        output.line(text);
        output.line("");
    }
    let style = match result.status.as_str() {
        "completed" => Style::Good,
        "running" => Style::Dim,
        "stopped" | "cancelled" => Style::Notice,
        _ => Style::Bad,
    };
    let mut summary = result.summary.clone().unwrap_or_else(|| result.status.clone());
    if let Some(error) = &result.error {
        // It comes in the next line.
        summary = summary.replace(&format!(" · reason: {}", error.message), "");
    }
    output.note(output.beside(style, &summary));
    output.note(output.beside(Style::Dim, &used(result)));
    if let Some(error) = &result.error {
        output.note(format!("{} {}", output.beside(Style::Bad, "error:"), error.message));
        if let Some(hint) = &error.hint {
            output.note(format!("{} {hint}", output.beside(Style::Notice, "hint:")));
        }
    }
    for warning in &result.warnings {
        output.note(format!("{} {warning}", output.beside(Style::Notice, "warning:")));
    }
    for (words, other) in [("goes on from", result.continues), ("continued by", result.continued_by)] {
        if let Some(other) = other {
            output.note(format!("{words} goal {other}"));
        }
    }
    if let Some(worktree) = &result.worktree {
        output.note(place_of(&worktree.repository, &worktree.branch));
        for file in &worktree.needs_acceptance {
            let text = format!("must be accepted to land: {} ({})", file.path, file.why);
            output.note(output.beside(Style::Notice, &text));
        }
        if worktree.needs_acceptance_more > 0 {
            let text = format!("and {} more files that must be accepted to land", worktree.needs_acceptance_more);
            output.note(output.beside(Style::Notice, &text));
        }
    }
    if let Some(worktree) = result.worktree.as_ref().filter(|worktree| worktree.changed_count > 0) {
        output.note(format!(
            "look at it:  git diff {}...{}",
            &worktree.base[..12.min(worktree.base.len())],
            worktree.branch
        ));
        if worktree.in_place {
            output.note(format!("commit it:   in {}, where it is", worktree.repository.display()));
        } else if result.status == "completed" {
            output.note(format!("take it:     drawloom goal land {}", result.run_id));
        }
    }
    if result.status == "stopped" {
        // "max_iterations (4) reached" names the limit that has to be larger.
        let limit = result.stop_reason.as_deref().and_then(|reason| reason.split_once(" (")).map(|(limit, _)| limit);
        let limit = limit.filter(|limit| limit.starts_with("max_"));
        let limit = limit.map(|limit| format!(" --{} MORE", limit.replace('_', "-"))).unwrap_or_default();
        output.note(format!("go on:       drawloom goal resume {}{limit}", result.run_id));
    }
    for left in result.worktree.iter().flat_map(|worktree| &worktree.left) {
        output.note(format!("left by a worker, kept as a commit: git show {}", left.reference));
    }
    output.note(output.beside(Style::Dim, &format!("goal {} in {}", result.run_id, result.run_dir.display())));
    exit
}

/// What a goal took, in a line.
fn used(result: &GoalResult) -> String {
    let calls = result.agent_calls;
    let took = match result.seconds {
        0 => "less than 1 s".to_owned(),
        seconds => duration(seconds.saturating_mul(1_000)),
    };
    let mut parts = vec![took, format!("{calls} call{}", if calls == 1 { "" } else { "s" })];
    if result.usage.total() > 0 {
        parts.push(format!("{} tokens", count(result.usage.total())));
    }
    if let Some(cost) = result.cost.filter(|cost| cost.0.0 > 0) {
        parts.push(format!("cost {:.2}", cost.0.units()));
    }
    parts.join(" · ")
}

/// The exit code that a goal's end means.
pub(crate) fn exit_of(result: &GoalResult) -> Exit {
    match result.status.as_str() {
        "completed" => Exit::Done,
        // Not completed, for one reason or another.
        "running" | "stopped" | "cancelled" => Exit::Failed,
        "needs_input" => Exit::NeedsInput,
        _ => Exit::Usage,
    }
}
