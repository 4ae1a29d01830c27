//! `drawloom run`: one run, followed to its end.

use std::io::{IsTerminal as _, Read as _};

use clap::Args;

use drawloom_contract::ids::{AgentName, RunId, UserId};
use drawloom_wire::runs::{Amount, CancelRun, GetRun, RunResult, SpawnRun, Spawned};

use crate::{
    cli::{Look, Quiet},
    commands::Session,
    connect::{self, Connection, Execution, Need},
    exit::{CommandError, Exit},
    interrupts::{Interrupts, own_key},
    live::{self, Live, Thinking, Words},
    output::{Format, Style},
};

/// The longest prompt that is read from stdin, in bytes: what a request may hold.
pub(crate) const PROMPT_LIMIT: u64 = 8 * 1024 * 1024;

/// Why a run was cancelled, when Ctrl-C did it.
pub(crate) const REASON: &str = "interrupted at the command line";

/// Start a run and follow it
///
/// Ctrl-C cancels the run and waits until it has ended. A second Ctrl-C exits at once and says whether the run continues.
#[derive(Debug, Args)]
pub struct Run {
    /// Agent to run; see `drawloom agents list`
    #[arg(value_name = "AGENT")]
    agent: AgentName,
    /// Prompt; `-` or none reads it from stdin
    #[arg(value_name = "PROMPT")]
    prompt: Option<String>,
    /// Return as soon as the run is accepted; it continues in the server
    #[arg(long, conflicts_with = "embedded")]
    detach: bool,
    /// Start at most one run per key: the same key and prompt return the same run
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Cancel the run after this many seconds, waits included
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    timeout: Option<u64>,
    /// Run on behalf of this user
    #[arg(long, value_name = "USER")]
    user: Option<UserId>,
    /// Show the model's reasoning
    #[arg(long)]
    thinking: bool,
    #[command(flatten)]
    execution: Execution,
    #[command(flatten)]
    ids: Quiet,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Run {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let mut request = SpawnRun::new(self.agent, prompt(self.prompt)?);
        request.idempotency_key = self.idempotency_key;
        request.timeout_ms = self.timeout.map(|seconds| seconds * 1_000);
        request.user_id = self.user;
        let key = match &request.idempotency_key {
            Some(key) => key.clone(),
            None => request.idempotency_key.insert(own_key()?).clone(),
        };
        let thinking = if self.thinking { Thinking::Shown } else { Thinking::Hidden };
        let stay = Stay::of(self.detach, self.ids, thinking);
        let execution = self.execution;
        connect::ask_first(session).await?;
        let interrupts = Interrupts::listen();
        let work = async |connection: &Connection| {
            let answer = connection.backend.start(request);
            let spawned = interrupts.answered(session, connection, &key, answer).await?;
            let watching = Watching { session, connection, interrupts: &interrupts, run: spawned.run_id };
            watching.go_on(&spawned, stay).await
        };
        interrupts.connected(session, "run", Need::Engine(execution), work).await
    }
}

/// Says which run goes on without this command.
fn detached(session: &Session, spawned: &Spawned, quiet: bool) {
    match session.output.format() {
        Format::Json => session.output.json(spawned),
        Format::Human if quiet => session.output.ids([spawned.run_id]),
        Format::Human => {
            session.output.line(spawned.run_id.to_string());
            session.output.note(format!("follow it with: drawloom runs tail {}", spawned.run_id));
        }
    }
}

/// A run that was accepted.
pub(crate) struct Watching<'a> {
    pub(crate) session: &'a Session,
    pub(crate) connection: &'a Connection,
    pub(crate) interrupts: &'a Interrupts,
    pub(crate) run: RunId,
}

/// What a command does once its run is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stay {
    Follow(Thinking),
    /// Waits, and prints only the id.
    Quiet,
    /// Leaves at once.
    Detach(Quiet),
}

impl Stay {
    /// What the options of a command say.
    pub(crate) fn of(detach: bool, ids: Quiet, thinking: Thinking) -> Self {
        match (detach, ids.quiet) {
            (true, _) => Self::Detach(ids),
            (false, true) => Self::Quiet,
            (false, false) => Self::Follow(thinking),
        }
    }
}

impl Watching<'_> {
    pub(crate) async fn go_on(&self, spawned: &Spawned, stay: Stay) -> Result<Exit, CommandError> {
        match stay {
            Stay::Detach(ids) if !self.interrupts.any() => {
                detached(self.session, spawned, ids.quiet);
                Ok(Exit::Done)
            }
            Stay::Quiet | Stay::Detach(Quiet { quiet: true }) => self.wait_quietly().await,
            Stay::Detach(_) => self.follow(Thinking::Hidden).await,
            Stay::Follow(thinking) => self.follow(thinking).await,
        }
    }

    async fn follow(&self, thinking: Thinking) -> Result<Exit, CommandError> {
        let Self { session, connection, interrupts, run } = *self;
        let output = &session.output;
        if output.format() == Format::Human {
            output.note(output.beside(Style::Dim, &format!("run {run}")));
        }
        // A terminal shows the model at work; a file or a program gets the result and nothing else.
        let words = if output.is_terminal() { Words::AsTheyCome } else { Words::None };
        let currency = match output.format() {
            Format::Human => connection.backend.currency([Some(Amount::default())]).await,
            Format::Json => String::new(),
        };
        let mut live = Live::new(output, run, words, thinking, currency);
        let to_the_end = async {
            if output.format() == Format::Human {
                live::show_all(&mut live, connection.backend.follow_tree(run, 0).await?).await?;
            }
            wait(connection, run).await
        };
        let result = match interrupts.unless_first(to_the_end).await? {
            Some(result) => result,
            None => {
                live.end();
                self.cancel().await?
            }
        };
        // Sums over the tree are answered to a question about the run, not to a wait for it.
        let ask = GetRun { run_id: Some(run), ..GetRun::default() };
        let result = connection.backend.call(&ask).await.unwrap_or(result);
        match output.format() {
            Format::Json => {
                output.json(&result);
                Ok(connect::exit_of_status(result.status))
            }
            Format::Human => {
                if words == Words::None
                    && let Some(text) = &result.final_text
                {
                    output.line(text);
                }
                let costs = [result.cost, result.tree.map(|tree| tree.cost).filter(|cost| cost.0.0 > 0)];
                let currency = connection.backend.currency(costs).await;
                let exit = live::summary(output, &result, &currency);
                live.tell_failures();
                Ok(exit)
            }
        }
    }

    /// Waits for the end of the run and prints only its id.
    async fn wait_quietly(&self) -> Result<Exit, CommandError> {
        let result = match self.interrupts.unless_first(wait(self.connection, self.run)).await? {
            Some(result) => result,
            None => self.cancel().await?,
        };
        self.session.output.ids([self.run]);
        Ok(connect::exit_of_status(result.status))
    }

    /// Cancels the run and waits until it has ended.
    async fn cancel(&self) -> Result<RunResult, CommandError> {
        let Self { session, connection, interrupts, run } = *self;
        let cancelling = async {
            let reason = Some(REASON.to_owned());
            connection.backend.call(&CancelRun { run_id: Some(run), reason, ..CancelRun::default() }).await?;
            wait(connection, run).await
        };
        interrupts.cancelled(session, connection, || vec![run], cancelling).await
    }
}

/// The run when it has ended.
pub(crate) async fn wait(connection: &Connection, run: RunId) -> Result<RunResult, CommandError> {
    loop {
        let ask = GetRun { run_id: Some(run), wait_ms: Some(60_000), ..GetRun::default() };
        let result = connection.backend.call(&ask).await?;
        if result.status.is_terminal() {
            return Ok(result);
        }
    }
}

/// The prompt as given, or what stdin holds.
fn prompt(given: Option<String>) -> Result<String, CommandError> {
    let from_stdin = match given.as_deref() {
        Some("-") => true,
        Some(_) => false,
        None if std::io::stdin().is_terminal() => {
            return Err(CommandError {
                exit: Exit::NeedsInput,
                ..CommandError::usage("no_prompt", "no prompt: pass one, or pipe it on stdin")
            }
            .with_hint("example: drawloom run AGENT 'Hello', or: echo 'Hello' | drawloom run AGENT"));
        }
        None => true,
    };
    if !from_stdin {
        return Ok(given.unwrap_or_default());
    }
    let mut text = String::new();
    std::io::stdin()
        .take(PROMPT_LIMIT + 1)
        .read_to_string(&mut text)
        .map_err(|error| CommandError::usage("bad_prompt", format!("cannot read the prompt from stdin: {error}")))?;
    if text.len() as u64 > PROMPT_LIMIT {
        return Err(CommandError::usage("bad_prompt", format!("the prompt is longer than {PROMPT_LIMIT} bytes")));
    }
    if text.trim().is_empty() {
        return Err(CommandError {
            exit: Exit::NeedsInput,
            ..CommandError::usage("no_prompt", "the prompt on stdin is empty")
        });
    }
    Ok(text)
}
