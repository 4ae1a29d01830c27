//! `drawloom goal run` and `resume`: a goal, followed to its end.

use std::{
    io::{IsTerminal as _, Read as _},
    path::{Path, PathBuf},
};

use clap::{Args, ValueEnum};
use drawloom_contract::{
    ids::RunId,
    money::{Amount, Cost},
};
use drawloom_substrate::files;
use drawloom_wire::goals::{
    GoalCleanup, GoalEvent, GoalResult, Orchestrate, OrchestrateCancel, OrchestrateResult, OrchestrateResume,
    OrchestrateStatus, OrchestrateTail, RoleBackends,
};
use serde_json::{Value, json};

use super::{ask, place_of, told, view::View, workers::Target};
use crate::{
    cli::Look,
    commands::{
        Session,
        agentloop::{self, Shape},
        run::REASON,
    },
    connect::{self, Connection, Execution, Need},
    environment,
    exit::{CommandError, Exit},
    interrupts::{Interrupts, own_key},
    output::Format,
};

/// The longest goal that is read from a file, in bytes.
const MOST_GOAL: u64 = 256 * 1024;

/// How long one request waits for events.
const WAIT_MS: u64 = 50_000;

/// Variables by which a coding CLI says that it started this process, and the CLI.
const HINTS: [(&str, &str); 7] = [
    ("OPENCODE", "opencode"),
    ("OPENCODE_RUN_ID", "opencode"),
    ("CODEX_RUN_ID", "codex"),
    ("CODEX_SESSION_ID", "codex"),
    ("CLAUDECODE", "claude_code"),
    ("CLAUDE_CODE", "claude_code"),
    ("CLAUDE_SESSION_ID", "claude_code"),
];

/// Start a goal and follow it
///
/// Without a goal, it is asked for. Ctrl-C stops the goal, writes its result and exits with 130; a second one leaves at once. When the
/// terminal is closed, the goal goes on: `goal tail` follows it.
#[derive(Debug, Args)]
pub struct Run {
    /// Goal to achieve; `-` reads it from stdin
    #[arg(value_name = "GOAL")]
    text: Option<String>,
    /// Same as GOAL
    #[arg(long, value_name = "TEXT", conflicts_with = "text")]
    goal: Option<String>,
    /// Read the goal from a file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["text", "goal"])]
    goal_file: Option<PathBuf>,
    /// Success criteria for the reviewer; `-` reads them from stdin
    #[arg(long, value_name = "TEXT")]
    criteria: Option<String>,
    /// Read the criteria from a file
    #[arg(long, value_name = "FILE", conflicts_with = "criteria")]
    criteria_file: Option<PathBuf>,
    /// Backend of all roles: claude_code, codex, opencode, aider, model (a model of the config), agent:NAME, a name under `clis`, mock, or auto, with `:MODEL`
    /// behind it if you like
    #[arg(long, value_name = "BACKEND")]
    backend: Option<String>,
    /// Backend of the planner, in place of --backend
    #[arg(long, value_name = "BACKEND")]
    planner: Option<String>,
    /// Backend of the workers, in place of --backend
    #[arg(long, value_name = "BACKEND")]
    worker: Option<String>,
    /// Backend of the reviewer, in place of --backend
    #[arg(long, value_name = "BACKEND")]
    reviewer: Option<String>,
    /// Model of all roles
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Git repository to change, in checkouts beside it [default: the one of this folder]
    #[arg(long, value_name = "DIR", conflicts_with = "no_cwd")]
    cwd: Option<PathBuf>,
    /// Change no repository: roles only answer
    #[arg(long)]
    no_cwd: bool,
    /// Begin at this branch, tag or commit
    #[arg(long, value_name = "REF")]
    base: Option<String>,
    /// Begin with changes that are not committed
    #[arg(long)]
    uncommitted: bool,
    /// Give checkouts these ignored files too, as a glob; can be repeated
    #[arg(long, value_name = "GLOB")]
    include: Vec<String>,
    /// Prepare each checkout with this command, such as `npm ci`
    #[arg(long, value_name = "COMMAND")]
    setup: Option<String>,
    /// Let workers change your checkout itself, one at a time; it must be clean
    #[arg(long)]
    no_isolate: bool,
    /// Remove checkouts at the end: auto, always or never
    #[arg(long, value_enum, value_name = "WHEN")]
    cleanup: Option<Cleanup>,
    /// Let workers use their tools without asking, inside their checkouts
    #[arg(long)]
    skip_permissions: bool,
    /// Require that this command succeeds on the work; can be repeated
    #[arg(long = "verify", value_name = "COMMAND")]
    verify: Vec<String>,
    /// Timeout of each verify command, in seconds
    #[arg(long, value_name = "SECONDS")]
    verify_timeout: Option<u64>,
    /// Files that workers must not change, as a glob; can be repeated
    #[arg(long, value_name = "GLOB")]
    protect: Vec<String>,
    /// Require that the verify commands fail before the work and succeed after it
    #[arg(long)]
    witness: bool,
    /// Ask for browser tests, and verify with `npx playwright test`
    #[arg(long)]
    playwright: bool,
    /// Maximum iterations [default: 4]
    #[arg(long, value_name = "COUNT")]
    max_iterations: Option<u32>,
    /// Maximum seconds in all
    #[arg(long, value_name = "SECONDS")]
    max_seconds: Option<u64>,
    /// Maximum calls of all roles
    #[arg(long, value_name = "COUNT")]
    max_agent_calls: Option<u32>,
    /// Maximum tokens of all roles
    #[arg(long, value_name = "COUNT")]
    max_tokens: Option<u64>,
    /// Maximum cost of all roles
    #[arg(long, value_name = "AMOUNT")]
    max_cost: Option<f64>,
    /// Further tries of a plan, subgoal or review that failed [default: 1]
    #[arg(long, value_name = "COUNT")]
    retries: Option<u32>,
    /// Stop after this many iterations without progress; 0 for no limit [default: 2]
    #[arg(long, value_name = "COUNT")]
    max_stagnant_iterations: Option<u32>,
    /// Maximum workers at the same time [default: 8]
    #[arg(long, value_name = "COUNT")]
    parallel: Option<u32>,
    /// Timeout of one call of a coding CLI or model, in seconds; 0 for no limit [default: 3600]
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
    /// Ask what must be known before planning; without a terminal the exit code is 3
    #[arg(long)]
    ask: bool,
    /// Answer a question beforehand, in order; can be repeated
    #[arg(long = "answer", value_name = "TEXT")]
    answers: Vec<String>,
    /// Continue a goal that asked something, with --answer
    #[arg(long, value_name = "TOKEN", conflicts_with_all = ["text", "goal", "goal_file"])]
    resume: Option<String>,
    /// Never ask anything
    #[arg(long)]
    non_interactive: bool,
    /// Start the workers without asking about the plan
    #[arg(long, short)]
    yes: bool,
    /// Print a line of JSON on stderr after every iteration
    #[arg(long)]
    progress: bool,
    /// Return as soon as the goal is accepted; it continues in the server
    #[arg(long, conflicts_with = "embedded")]
    detach: bool,
    #[arg(skip)]
    pub(super) shape: Shape,
    #[command(flatten)]
    execution: Execution,
    /// The format of the output.
    #[command(flatten)]
    pub(super) look: Look,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Cleanup {
    Auto,
    Always,
    Never,
}

impl Run {
    pub(super) async fn perform(mut self: Box<Self>, session: &Session) -> Result<Exit, CommandError> {
        if let Some(token) = self.resume.take() {
            let request = OrchestrateResume {
                token,
                answers: std::mem::take(&mut self.answers),
                success_criteria: self.criteria.take(),
                ..OrchestrateResume::default()
            };
            let asks = session.output.can_ask() && self.shape == Shape::Usual;
            let how =
                How { asks, answers: Vec::new(), progress: self.progress, detach: self.detach, shape: self.shape };
            connect::ask_first(session).await?;
            let interrupts = Interrupts::listen();
            let work = async |connection: &Connection| {
                let resumed = connection.backend.call(&request).await?;
                Following { session, connection, interrupts: &interrupts, run: resumed.run_id }.go(how).await
            };
            return interrupts.connected(session, "goal resume", Need::Engine(self.execution), work).await;
        }
        let asks = session.output.can_ask() && !self.non_interactive && !self.detach;
        let mut request = self.request(session, asks).await?;
        let key = own_key()?;
        request.idempotency_key = Some(key.clone());
        let how = How { asks, answers: self.answers, progress: self.progress, detach: self.detach, shape: self.shape };
        connect::ask_first(session).await?;
        let interrupts = Interrupts::listen();
        let work = async |connection: &Connection| {
            let started = connection.backend.call(&request);
            let started = interrupts.answered(session, connection, &key, started).await?;
            Following { session, connection, interrupts: &interrupts, run: started.run_id }.go(how).await
        };
        interrupts.connected(session, "goal run", Need::Engine(self.execution), work).await
    }

    async fn request(&self, session: &Session, asks: bool) -> Result<Orchestrate, CommandError> {
        let given = self.text.as_deref().or(self.goal.as_deref());
        let goal = match (given, &self.goal_file) {
            (Some("-"), _) => from_stdin()?,
            (Some(text), _) => text.to_owned(),
            (None, Some(file)) => from_file(file)?,
            (None, None) if asks => ask::line(session, "Goal> ").await?,
            (None, None) if !std::io::stdin().is_terminal() && !self.non_interactive => from_stdin()?,
            (None, None) => String::new(),
        };
        if goal.trim().is_empty() {
            let exit = if self.shape == Shape::Agentloop { Exit::Failed } else { Exit::Usage };
            return Err(CommandError { exit, ..CommandError::usage("no_goal", "no goal was given") }
                .with_hint("example: drawloom goal run 'Add a /health endpoint with a test'"));
        }
        let success_criteria = match (self.criteria.as_deref(), &self.criteria_file) {
            (Some("-"), _) => from_stdin()?,
            (Some(text), _) => text.to_owned(),
            (None, Some(file)) => from_file(file)?,
            (None, None) => String::new(),
        };
        let max_cost = match self.max_cost {
            None => None,
            Some(cost) => Some(Amount(Cost::from_units(cost).ok_or_else(|| {
                CommandError::usage("bad_cost", format!("--max-cost must be a number from 0 up, not {cost}"))
            })?)),
        };
        let caller =
            HINTS.iter().find(|(name, _)| environment::variable(name).is_some()).map(|(_, cli)| (*cli).to_owned());
        let roles = RoleBackends {
            planner: self.planner.clone(),
            worker: self.worker.clone(),
            reviewer: self.reviewer.clone(),
        };
        Ok(Orchestrate {
            goal,
            success_criteria,
            backend: self.backend.clone(),
            caller_agent: caller,
            model: self.model.clone(),
            roles: (roles != RoleBackends::default()).then_some(roles),
            cwd: self.directory()?,
            isolate: self.no_isolate.then_some(false),
            base: self.base.clone(),
            include_uncommitted: self.uncommitted,
            include: self.include.clone(),
            setup: self.setup.clone(),
            cleanup: self.cleanup.map(|when| match when {
                Cleanup::Auto => GoalCleanup::Auto,
                Cleanup::Always => GoalCleanup::Always,
                Cleanup::Never => GoalCleanup::Never,
            }),
            skip_permissions: self.skip_permissions,
            verify_commands: self.verify.clone(),
            verify_timeout: self.verify_timeout,
            protect: self.protect.clone(),
            witness: self.witness,
            playwright: self.playwright,
            max_iterations: self.max_iterations,
            max_seconds: self.max_seconds,
            max_agent_calls: self.max_agent_calls,
            max_tokens: self.max_tokens,
            max_cost,
            max_task_retries: self.retries,
            max_parallel: self.parallel,
            max_stagnant_iterations: self.max_stagnant_iterations,
            timeout: self.timeout,
            ask: self.ask || asks || !self.answers.is_empty(),
            confirm: asks,
            confirm_plan: asks && !self.yes,
            ..Orchestrate::default()
        })
    }

    /// The directory to change: the one that was named, else that of the repository around this folder. The mock team changes none.
    fn directory(&self) -> Result<Option<PathBuf>, CommandError> {
        let here = std::env::current_dir();
        let here =
            here.map_err(|error| CommandError::usage("bad_cwd", format!("cannot find the current folder: {error}")))?;
        let is_mock = self.backend.as_deref() == Some("mock");
        Ok(match &self.cwd {
            Some(cwd) => Some(here.join(cwd)),
            None if self.no_cwd || is_mock => None,
            None if here.ancestors().any(is_repository) => Some(here.clone()),
            // Agents of the config have no use for a repository.
            None if self.backend.as_deref().is_some_and(|backend| backend.starts_with("agent:")) => None,
            None => {
                let message =
                    format!("{} is not in a git repository, so workers have nothing to change", here.display());
                return Err(CommandError::usage("needs_cwd", message)
                    .with_hint("run `git init` and commit, name a repository with --cwd, or pass --no-cwd for goals that only need answers"));
            }
        })
    }
}

/// Whether a folder is the top of a checkout, or a bare repository.
fn is_repository(folder: &Path) -> bool {
    folder.join(".git").exists() || (folder.join("HEAD").is_file() && folder.join("objects").is_dir())
}

/// What a command does beside following.
pub(super) struct How {
    /// Whether there is a person to ask.
    pub(super) asks: bool,
    pub(super) answers: Vec<String>,
    pub(super) progress: bool,
    pub(super) detach: bool,
    pub(super) shape: Shape,
}

/// A goal that was accepted.
pub(super) struct Following<'a> {
    pub(super) session: &'a Session,
    pub(super) connection: &'a Connection,
    pub(super) interrupts: &'a Interrupts,
    pub(super) run: RunId,
}

impl Following<'_> {
    pub(super) async fn go(&self, how: How) -> Result<Exit, CommandError> {
        if how.detach && !self.interrupts.any() {
            let result = self.result().await?;
            match self.session.output.format() {
                Format::Json => self.session.output.json(&result),
                Format::Human => {
                    self.session.output.line(self.run.to_string());
                    let status = self.connection.backend.call(&OrchestrateStatus { run_id: self.run }).await?;
                    if let Some(repository) = &status.repository {
                        self.session.output.note(place_of(repository, status.branch.as_deref().unwrap_or_default()));
                    }
                    self.session.output.note(format!("follow it with: drawloom goal tail {}", self.run));
                }
            }
            return Ok(Exit::Done);
        }
        let mut view = View::follow(self.session, self.connection, self.run, Target::Stderr).await?;
        let shape = how.shape;
        let followed = self.interrupts.unless_first(self.follow(&mut view, how)).await;
        view.pause();
        match followed? {
            Some(mut result) => {
                if self.session.output.format() == Format::Human {
                    // Events said them already.
                    result.warnings.clear();
                }
                Ok(told_in(shape, self.session, &result))
            }
            // The terminal was closed. The server goes on with the goal; an engine in this process ends with it.
            None if self.interrupts.is_hangup() && !self.connection.is_embedded() => Ok(self.interrupts.exit()),
            None => {
                let result = self.cancel().await?;
                told_in(shape, self.session, &result);
                Ok(self.interrupts.exit())
            }
        }
    }

    /// Shows events until the goal has ended, or asks something that is not answered here.
    async fn follow(&self, view: &mut View<'_>, mut how: How) -> Result<GoalResult, CommandError> {
        let mut cursor = 0;
        let mut answers = std::mem::take(&mut how.answers);
        let mut verification = None;
        loop {
            let ask = OrchestrateTail { run_id: self.run, cursor: Some(cursor), limit: None, wait_ms: Some(WAIT_MS) };
            let page = view.meanwhile(self.connection.backend.call(&ask)).await?;
            let mut needs_input = false;
            for event in &page.events {
                view.show(event);
                needs_input = event.kind == "needs_input" || (needs_input && event.kind == "resumed");
                if event.kind == "verification" {
                    verification = Some(event.clone());
                }
                if how.progress && event.kind == "iteration_finished" {
                    let line = match how.shape {
                        Shape::Usual => progress(event),
                        Shape::Agentloop => agentloop::progress(event, verification.as_ref()),
                    };
                    self.session.output.note(line.to_string());
                }
            }
            cursor = page.cursor;
            if !page.running && !page.more {
                return self.result().await;
            }
            if needs_input {
                // The question is kept a moment after it is told.
                let wait = OrchestrateResult { run_id: self.run, wait: true, timeout: None };
                let result = self.connection.backend.call(&wait).await?;
                if result.status != "needs_input" {
                    continue;
                }
                let status = self.connection.backend.call(&OrchestrateStatus { run_id: self.run }).await?;
                let covered = status.plan.is_none() && !answers.is_empty() && answers.len() >= status.questions.len();
                let request = match (covered, how.asks) {
                    (true, _) => OrchestrateResume {
                        token: status.token.clone().unwrap_or_default(),
                        answers: std::mem::take(&mut answers).into_iter().take(status.questions.len()).collect(),
                        ..OrchestrateResume::default()
                    },
                    (false, true) => {
                        view.pause();
                        ask::answer(self.session, &status).await?
                    }
                    (false, false) => return Ok(result),
                };
                self.connection.backend.call(&request).await?;
            }
        }
    }

    async fn result(&self) -> Result<GoalResult, CommandError> {
        let ask = OrchestrateResult { run_id: self.run, wait: false, timeout: None };
        self.connection.backend.call(&ask).await
    }

    /// Stops the goal and waits until it has ended.
    async fn cancel(&self) -> Result<GoalResult, CommandError> {
        let cancelling = async {
            let ask = OrchestrateCancel { run_id: self.run, reason: Some(REASON.into()), idempotency_key: None };
            self.connection.backend.call(&ask).await?;
            let wait = OrchestrateResult { run_id: self.run, wait: true, timeout: None };
            self.connection.backend.call(&wait).await
        };
        let Self { session, connection, interrupts, run } = *self;
        interrupts.cancelled(session, connection, || vec![run], cancelling).await
    }
}

/// Shows a result in a shape, and what it means for the exit code.
fn told_in(shape: Shape, session: &Session, result: &GoalResult) -> Exit {
    match shape {
        Shape::Usual => told(session, result),
        Shape::Agentloop => agentloop::told(session, result),
    }
}

/// The line of `--progress`.
fn progress(event: &GoalEvent) -> Value {
    let mut line = json!({ "iteration": event.iteration });
    for name in ["subgoals_ok", "subgoals_total", "verification_ok", "gates_passed", "goal_complete"] {
        line[name] = event.data[name].clone();
    }
    line
}

fn from_stdin() -> Result<String, CommandError> {
    let mut text = String::new();
    let read = std::io::stdin().take(MOST_GOAL + 1).read_to_string(&mut text);
    read.map_err(|error| CommandError::usage("bad_goal", format!("cannot read stdin: {error}")))?;
    checked(text, "stdin")
}

fn from_file(path: &Path) -> Result<String, CommandError> {
    let text = files::read_argument(path, MOST_GOAL)
        .and_then(files::text)
        .map_err(|error| CommandError::usage("bad_goal", format!("cannot read {}: {error}", path.display())))?;
    checked(text, &path.display().to_string())
}

fn checked(text: String, from: &str) -> Result<String, CommandError> {
    match text.len() as u64 > MOST_GOAL {
        true => Err(CommandError::usage("bad_goal", format!("{from} has more than {MOST_GOAL} bytes"))),
        false => Ok(text),
    }
}
