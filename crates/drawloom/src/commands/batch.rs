//! `drawloom batch`: many runs at once, and a table of what they came to.

use std::{cell::RefCell, collections::BTreeSet, path::PathBuf};

use clap::Args;
use futures::{StreamExt as _, stream::FuturesUnordered};
use indicatif::{MultiProgress, ProgressBar};
use serde_json::{Value, json};

use drawloom_contract::{
    ids::{AgentName, RunId},
    record::Status,
};
use drawloom_wire::{
    batches::{BatchResult, CancelBatch, GetBatch, SpawnRuns, SpawnedBatch},
    events::Event,
    runs::RunResult,
    validate::Validator,
};

use crate::{
    cli::Look,
    commands::Session,
    config,
    connect::{self, Connection, Execution, Need},
    exit::{CommandError, Exit},
    interrupts::{Interrupts, own_key},
    output::{Column, Format, Output, Style, Text, count, duration, first_line, money},
};

/// A terminal with fewer columns has no space for figures beside the prompts.
const NARROW: usize = 72;

/// Start many runs at once and wait for all of them
///
/// Ctrl-C cancels them and waits until all have ended. A second Ctrl-C leaves at once and says which runs go on.
#[derive(Debug, Args)]
pub struct Batch {
    /// A JSON or YAML file with a list of runs (`- {agent: A, prompt: P}`); with --agent, prompts instead
    #[arg(value_name = "FILE | PROMPT", required = true)]
    given: Vec<String>,
    /// The agent that every prompt goes to
    #[arg(long, value_name = "AGENT")]
    agent: Option<AgentName>,
    /// Return as soon as the batch is accepted; it goes on in the server
    #[arg(long, conflicts_with = "embedded")]
    detach: bool,
    /// A key of yours: the same key and runs is the same batch, however often it is sent
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Wall-clock limit of every run in seconds, waits included
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    timeout: Option<u64>,
    #[command(flatten)]
    execution: Execution,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Batch {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let (detach, execution) = (self.detach, self.execution);
        let mut request = self.request()?;
        let key = match &request.idempotency_key {
            Some(key) => key.clone(),
            None => request.idempotency_key.insert(own_key()?).clone(),
        };
        let prompts = prompts(&request);
        connect::ask_first(session)?;
        let interrupts = Interrupts::listen();
        let work = async |connection: &Connection| {
            let answer = connection.backend.start(request);
            let spawned = interrupts.answered(session, connection, &key, answer).await?;
            if detach && !interrupts.any() {
                match session.output.format() {
                    Format::Json => session.output.json(&spawned),
                    Format::Human => session.output.line(spawned.batch_id.to_string()),
                }
                return Ok(Exit::Done);
            }
            let watching = Watching { session, connection, spawned: &spawned, ended: RefCell::default() };
            let result = match interrupts.unless_first(watching.watch(&prompts)).await? {
                Some(result) => result,
                None => {
                    let unfinished = || watching.unfinished();
                    interrupts.cancelled(session, connection, unfinished, watching.cancel()).await?
                }
            };
            let costs = [result.cost];
            match session.output.format() {
                Format::Json => session.output.json(&result),
                Format::Human => {
                    let currency = connection.backend.currency(costs).await;
                    show(&session.output, &result.results, &currency);
                    summary(&session.output, &result, &currency);
                }
            }
            let completed = result.results.iter().all(|run| run.status == Status::Completed);
            Ok(if completed { Exit::Done } else { Exit::Failed })
        };
        interrupts.connected(session, "batch", Need::Engine(execution), work).await
    }

    /// The request that file or prompts make.
    fn request(self) -> Result<SpawnRuns, CommandError> {
        let mut value = match (&self.agent, self.given.as_slice()) {
            (Some(agent), prompts) => {
                json!({ "spawns": prompts.iter().map(|prompt| json!({ "agent": agent, "prompt": prompt })).collect::<Vec<_>>() })
            }
            (None, [file]) => match config::read_value(&PathBuf::from(file))? {
                list @ Value::Array(_) => json!({ "spawns": list }),
                other => other,
            },
            (None, _) => {
                return Err(CommandError::usage("no_agent", "several prompts need an agent to go to")
                    .with_hint("add --agent AGENT, or give one file"));
            }
        };
        if let Value::Object(fields) = &mut value {
            if let Some(key) = self.idempotency_key {
                fields.insert("idempotency_key".into(), key.into());
            }
            if let Some(seconds) = self.timeout {
                fields.insert("timeout_ms".into(), (seconds * 1_000).into());
            }
        }
        let checked = Validator::of::<SpawnRuns>().check(&mut value);
        checked.map_err(|problems| CommandError {
            details: problems
                .into_iter()
                .map(|problem| match problem.hint {
                    Some(hint) => format!("{} ({hint})", problem.message),
                    None => problem.message,
                })
                .collect(),
            ..CommandError::usage("invalid_request", "the batch is not as it must be")
        })?;
        serde_json::from_value(value).map_err(|error| CommandError::usage("invalid_request", error.to_string()))
    }
}

/// The beginning of each prompt, to tell the runs apart.
fn prompts(request: &SpawnRuns) -> Vec<String> {
    let spawns = serde_json::to_value(request).map(|value| value["spawns"].clone()).unwrap_or_default();
    let spawns = spawns.as_array().cloned().unwrap_or_default();
    spawns
        .iter()
        .map(|spawn| {
            let text = spawn["prompt"].as_str().or_else(|| spawn["segments"][0]["content"][0]["text"].as_str());
            format!("{}: {}", spawn["agent"].as_str().unwrap_or_default(), first_line(text.unwrap_or_default(), 60))
        })
        .collect()
}

/// A batch that was accepted.
struct Watching<'a> {
    session: &'a Session,
    connection: &'a Connection,
    spawned: &'a SpawnedBatch,
    /// The runs that are known to have ended.
    ended: RefCell<BTreeSet<RunId>>,
}

impl Watching<'_> {
    /// Waits for every run, with a line for each that says how far it is.
    async fn watch(&self, prompts: &[String]) -> Result<BatchResult, CommandError> {
        let Self { session, connection, spawned, .. } = *self;
        let lines = Lines(session.output.lines(spawned.results.len()));
        let width = session.output.width();
        let mut ends: FuturesUnordered<_> = spawned
            .results
            .iter()
            .zip(&lines.0.1)
            .enumerate()
            .map(|(index, (run, line))| {
                let head = prompts.get(index).cloned().unwrap_or_default();
                async move {
                    if session.output.shows_progress() {
                        let mut progress = Progress { index, head, status: "queued", turn: 0, tokens: 0 };
                        line.set_message(progress.words(width));
                        let mut events = connection.backend.follow(run.run_id, 0).await?;
                        while let Some(event) = events.next().await {
                            progress.apply(&event?);
                            line.set_message(progress.words(width));
                        }
                    }
                    let ended = super::run::wait(connection, run.run_id).await?;
                    line.finish();
                    Ok::<_, CommandError>(ended.run_id)
                }
            })
            .collect();
        while let Some(ended) = ends.next().await {
            self.ended.borrow_mut().insert(ended?);
        }
        drop(ends);
        drop(lines);
        self.result().await
    }

    /// Cancels every run and waits until all have ended.
    async fn cancel(&self) -> Result<BatchResult, CommandError> {
        let batch_id = self.spawned.batch_id;
        let reason = Some(super::run::REASON.to_owned());
        self.connection.backend.call(&CancelBatch { batch_id, reason, idempotency_key: None }).await?;
        for run in &self.spawned.results {
            super::run::wait(self.connection, run.run_id).await?;
            self.ended.borrow_mut().insert(run.run_id);
        }
        self.result().await
    }

    async fn result(&self) -> Result<BatchResult, CommandError> {
        let ask = GetBatch { batch_id: self.spawned.batch_id, wait_ms: None, result_bytes: None };
        self.connection.backend.call(&ask).await
    }

    /// The runs that are not known to have ended.
    fn unfinished(&self) -> Vec<RunId> {
        let ended = self.ended.borrow();
        self.spawned.results.iter().map(|run| run.run_id).filter(|run| !ended.contains(run)).collect()
    }
}

/// Lines of progress, which are removed from the screen at the end and when the command is interrupted: the table says the
/// same, better.
struct Lines((MultiProgress, Vec<ProgressBar>));

impl Drop for Lines {
    fn drop(&mut self) {
        for line in &self.0.1 {
            line.finish_and_clear();
        }
        // A terminal that is gone shows nothing.
        drop(self.0.0.clear());
    }
}

/// How far a run is.
struct Progress {
    index: usize,
    head: String,
    status: &'static str,
    turn: u64,
    tokens: u64,
}

impl Progress {
    fn apply(&mut self, event: &Event) {
        let data = event.json();
        match &*event.name {
            "started" | "retry" | "tool_result" => self.status = "running",
            "waiting" => self.status = "waiting",
            "message" => self.turn = data["turn"].as_u64().unwrap_or(self.turn),
            "usage" => {
                let tokens =
                    ["input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"];
                self.tokens += tokens.iter().filter_map(|key| data["usage"][key].as_u64()).sum::<u64>();
            }
            "done" => self.status = "completed",
            "error" => {
                self.status = Status::ALL
                    .iter()
                    .find(|status| data["status"] == status.as_str())
                    .map_or("failed", |status| status.as_str());
            }
            _ => {}
        }
    }

    fn words(&self, width: Option<usize>) -> String {
        let Self { index, head, status, turn, tokens } = self;
        if width.is_some_and(|width| width < NARROW) {
            return format!("{index:>2}  {status:<9}  {head}");
        }
        format!("{index:>2}  {status:<9}  turn {turn:<3} {:>8} tokens  {head}", count(*tokens))
    }
}

const COLUMNS: [Column; 7] = [
    Column::new("#").right(),
    Column::new("agent").shrinks_to(6).optional(1),
    Column::new("status"),
    Column::new("took").right().optional(2),
    Column::new("tokens").right().optional(3),
    Column::new("cost").right().optional(4),
    Column::new("result").shrinks_to(16),
];

/// A table of runs by index.
pub(crate) fn show(output: &Output, results: &[RunResult], currency: &str) {
    output.table(
        COLUMNS,
        results.iter().enumerate().map(|(place, run)| {
            let result = match (&run.error, &run.final_text) {
                (Some(error), _) => Text::new(first_line(&error.message, 70)).style(Style::Bad),
                (None, Some(text)) => Text::new(first_line(text, 70)),
                (None, None) => Text::new(""),
            };
            [
                Text::new(run.index.map_or(place as u64, u64::from).to_string()),
                Text::new(run.agent.to_string()).style(Style::Bold),
                Text::status(run.status),
                Text::new(run.timings.total_ms.map(duration).unwrap_or_default()),
                Text::new(count(run.usage.total())),
                Text::new(run.cost.map(|cost| money(cost, currency)).unwrap_or_default()),
                result,
            ]
        }),
    );
}

/// What the whole batch came to, beside the table.
fn summary(output: &Output, result: &BatchResult, currency: &str) {
    let completed = result.results.iter().filter(|run| run.status == Status::Completed).count();
    let (mark, style) = if completed == result.results.len() { ("✓", Style::Good) } else { ("✗", Style::Bad) };
    let mut parts = vec![
        format!("{completed} of {} completed", result.results.len()),
        format!("{} tokens", count(result.usage.total())),
    ];
    parts.extend(result.cost.map(|cost| money(cost, currency)));
    parts.push(result.batch_id.to_string());
    output.note(format!("{} {}", output.beside(style, mark), output.beside(Style::Dim, &parts.join(" · "))));
}
