//! `drawloom run`: one run, followed to its end.

use std::io::{IsTerminal as _, Read as _};

use clap::Args;

use drawloom_contract::ids::{AgentName, RunId, UserId};
use drawloom_wire::runs::{CancelRun, GetRun, RunResult, SpawnRun};

use crate::{
    cli::Look,
    commands::Session,
    connect::{self, Connection, Need},
    exit::{CommandError, Exit},
    live::{self, Live, Thinking, Words},
    output::{Format, Style},
    start::stop_signal,
};

/// The longest prompt that is read from stdin, in bytes: what a request may hold.
pub(crate) const PROMPT_LIMIT: u64 = 8 * 1024 * 1024;

/// Start one run and follow it to its end
#[derive(Debug, Args)]
pub struct Run {
    /// The agent; `drawloom agents list` shows them
    #[arg(value_name = "AGENT")]
    agent: AgentName,
    /// What it is asked; `-` or nothing reads it from stdin
    #[arg(value_name = "PROMPT")]
    prompt: Option<String>,
    /// Return as soon as the run is accepted; it goes on in the server
    #[arg(long)]
    detach: bool,
    /// A key of yours: the same key and prompt is the same run, however often it is sent
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Wall-clock limit of the run in seconds, waits included
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    timeout: Option<u64>,
    /// For whom it runs
    #[arg(long, value_name = "USER")]
    user: Option<UserId>,
    /// Show the model's reasoning too
    #[arg(long)]
    thinking: bool,
    /// For whom the output is.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Run {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let mut request = SpawnRun::new(self.agent, prompt(self.prompt)?);
        request.idempotency_key = self.idempotency_key;
        request.timeout_ms = self.timeout.map(|seconds| seconds * 1_000);
        request.user_id = self.user;
        let detach = self.detach;
        let thinking = if self.thinking { Thinking::Shown } else { Thinking::Hidden };
        connect::with(session, "run", Need::Agents, async |connection| {
            if !detach {
                return follow(session, connection, request, thinking).await;
            }
            connection.refuse_embedded("--detach")?;
            let spawned = connection.backend.spawn_run(request).await?;
            match session.output.format() {
                Format::Json => session.output.json(&spawned),
                Format::Human => {
                    session.output.line(spawned.run_id.to_string());
                    session.output.note(format!("follow it with: drawloom runs tail {}", spawned.run_id));
                }
            }
            Ok(Exit::Done)
        })
        .await
    }
}

async fn follow(
    session: &Session,
    connection: &Connection,
    request: SpawnRun,
    thinking: Thinking,
) -> Result<Exit, CommandError> {
    let stop = stop_signal();
    let output = &session.output;
    let run = connection.backend.spawn_run(request).await?.run_id;
    if output.format() == Format::Human {
        output.note(output.beside(Style::Dim, &format!("run {run}")));
    }
    // A terminal shows the model at work; a file or a program gets the result and nothing else.
    let words = if output.is_terminal() { Words::AsTheyCome } else { Words::None };
    let mut live = Live::new(output, words, thinking);
    let to_the_end = async {
        if output.format() == Format::Human {
            live::show_all(&mut live, connection.backend.follow(run, 0).await?).await?;
        }
        wait(connection, run).await
    };
    let ended = tokio::select! {
        result = to_the_end => Some(result?),
        () = stop => None,
    };
    let result = match ended {
        Some(result) => result,
        None => {
            live.end();
            cancel(session, connection, run).await?
        }
    };
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
            // What the whole tree came to is told of a run that is looked at, not of one that is waited for.
            let ask = GetRun { run_id: Some(run), ..GetRun::default() };
            let result = connection.backend.get_run(ask).await.unwrap_or(result);
            let costs = [result.cost, result.tree.map(|tree| tree.cost).filter(|cost| cost.0.0 > 0)];
            let currency = connection.backend.currency(costs).await;
            Ok(live::summary(output, &result, &currency))
        }
    }
}

/// Somebody pressed Ctrl-C: the run is told to stop, and this waits until it has; a second Ctrl-C leaves at once.
async fn cancel(session: &Session, connection: &Connection, run: RunId) -> Result<RunResult, CommandError> {
    let leave = stop_signal();
    if session.output.format() == Format::Human {
        session.output.note(session.output.beside(Style::Notice, "cancelling; Ctrl-C again leaves at once"));
    }
    let stopped = async {
        let reason = Some("interrupted at the command line".to_owned());
        connection.backend.cancel_run(CancelRun { run_id: Some(run), reason, ..CancelRun::default() }).await?;
        wait(connection, run).await
    };
    tokio::select! {
        result = stopped => result,
        () = leave => Err(CommandError::failed("interrupted", format!("run {run} has not ended"))
            .with_hint(connection.how_it_goes_on(run))),
    }
}

/// The run when it has ended.
pub(crate) async fn wait(connection: &Connection, run: RunId) -> Result<RunResult, CommandError> {
    loop {
        let ask = GetRun { run_id: Some(run), wait_ms: Some(60_000), ..GetRun::default() };
        let result = connection.backend.get_run(ask).await?;
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
                ..CommandError::usage("no_prompt", "there is no prompt and nobody pipes one")
            }
            .with_hint("give the prompt as an argument, or pipe it: echo 'Hello' | drawloom run AGENT"));
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
        .map_err(|error| CommandError::usage("bad_prompt", format!("the prompt on stdin cannot be read: {error}")))?;
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
