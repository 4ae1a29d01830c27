//! `drawloom batch`: many runs at once, and a table of what they came to.

use std::path::PathBuf;

use clap::Args;
use futures::{StreamExt as _, stream::FuturesUnordered};
use serde_json::{Value, json};

use drawloom_contract::{ids::AgentName, record::Status};
use drawloom_wire::{
    events::Event,
    runs::{BatchResult, CancelBatch, GetBatch, RunResult, SpawnRuns, SpawnedBatch},
    validate::Validator,
};

use crate::{
    cli::Look,
    commands::Session,
    config,
    connect::{self, Connection, Need},
    exit::{CommandError, Exit},
    output::{Column, Format, Output, Style, Text, count, duration, first_line, money},
    start::stop_signal,
};

/// A terminal with fewer columns has no room for figures beside the prompts.
const NARROW: usize = 72;

/// Start many runs at once and wait for all of them
#[derive(Debug, Args)]
pub struct Batch {
    /// A JSON or YAML file with a list of runs (`- {agent: A, prompt: P}`); with --agent, prompts instead
    #[arg(value_name = "FILE | PROMPT", required = true)]
    given: Vec<String>,
    /// The agent that every prompt goes to
    #[arg(long, value_name = "AGENT")]
    agent: Option<AgentName>,
    /// Return as soon as the batch is accepted; it goes on in the server
    #[arg(long)]
    detach: bool,
    /// A key of yours: the same key and runs is the same batch, however often it is sent
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Wall-clock limit of every run in seconds, waits included
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    timeout: Option<u64>,
    /// For whom the output is.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Batch {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let detach = self.detach;
        let request = self.request()?;
        let prompts = prompts(&request);
        connect::with(session, "batch", Need::Agents, async |connection| {
            if detach {
                connection.refuse_embedded("--detach")?;
            }
            let stop = stop_signal();
            let spawned = connection.backend.spawn_runs(request).await?;
            if detach {
                match session.output.format() {
                    Format::Json => session.output.json(&spawned),
                    Format::Human => session.output.line(spawned.batch_id.to_string()),
                }
                return Ok(Exit::Done);
            }
            let ended = tokio::select! {
                result = watch(session, connection, &spawned, &prompts) => Some(result?),
                () = stop => None,
            };
            let result = match ended {
                Some(result) => result,
                None => cancel(session, connection, &spawned).await?,
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
        })
        .await
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

/// Waits for every run, with a line for each that says how far it is.
async fn watch(
    session: &Session,
    connection: &Connection,
    spawned: &SpawnedBatch,
    prompts: &[String],
) -> Result<BatchResult, CommandError> {
    let (all, lines) = session.output.lines(spawned.results.len());
    let room = session.output.width();
    let mut ends: FuturesUnordered<_> = spawned
        .results
        .iter()
        .zip(&lines)
        .enumerate()
        .map(|(index, (run, line))| {
            let head = prompts.get(index).cloned().unwrap_or_default();
            async move {
                if session.output.shows_progress() {
                    let mut progress = Progress { index, head, status: "queued", turn: 0, tokens: 0 };
                    line.set_message(progress.words(room));
                    let mut events = connection.backend.follow(run.run_id, 0).await?;
                    while let Some(event) = events.next().await {
                        progress.apply(&event?);
                        line.set_message(progress.words(room));
                    }
                }
                let ended = super::run::wait(connection, run.run_id).await?;
                line.finish();
                Ok::<_, CommandError>(ended)
            }
        })
        .collect();
    while let Some(ended) = ends.next().await {
        ended?;
    }
    // The table says the same, better.
    drop(all.clear());
    connection.backend.get_batch(GetBatch { batch_id: spawned.batch_id, wait_ms: None, result_bytes: None }).await
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

    fn words(&self, room: Option<usize>) -> String {
        let Self { index, head, status, turn, tokens } = self;
        if room.is_some_and(|room| room < NARROW) {
            return format!("{index:>2}  {status:<9}  {head}");
        }
        format!("{index:>2}  {status:<9}  turn {turn:<3} {:>8} tokens  {head}", count(*tokens))
    }
}

/// Somebody pressed Ctrl-C: every run is told to stop, and this waits until all have; a second Ctrl-C leaves at once.
async fn cancel(
    session: &Session,
    connection: &Connection,
    spawned: &SpawnedBatch,
) -> Result<BatchResult, CommandError> {
    let leave = stop_signal();
    let batch_id = spawned.batch_id;
    if session.output.format() == Format::Human {
        session.output.note(session.output.beside(Style::Notice, "cancelling; Ctrl-C again leaves at once"));
    }
    let stopped = async {
        let reason = Some("interrupted at the command line".to_owned());
        connection.backend.cancel_batch(CancelBatch { batch_id, reason }).await?;
        for run in &spawned.results {
            super::run::wait(connection, run.run_id).await?;
        }
        connection.backend.get_batch(GetBatch { batch_id, wait_ms: None, result_bytes: None }).await
    };
    tokio::select! {
        result = stopped => result,
        () = leave => Err(CommandError::failed("interrupted", format!("batch {batch_id} has not ended"))
            .with_hint(connection.how_a_batch_goes_on(batch_id))),
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
