//! `drawloom batch`: many runs at once, and a table of what they came to.

use std::path::PathBuf;

use clap::Args;
use futures::{StreamExt as _, stream::FuturesUnordered};
use serde_json::{Value, json};

use drawloom_contract::{ids::AgentName, record::Status};
use drawloom_wire::{
    runs::{BatchResult, GetBatch, RunResult, SpawnRuns, SpawnedBatch},
    validate::Validator,
};

use crate::{
    cli::Look,
    commands::Session,
    config,
    connect::{self, Connection, Need},
    exit::{CommandError, Exit},
    live::duration,
    output::{Format, Output, Style, Text, first_line},
    start::stop_signal,
};

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
            let result = tokio::select! {
                result = wait(session, connection, &spawned) => result?,
                () = stop => {
                    let batch = spawned.batch_id;
                    return Err(CommandError::failed("interrupted", format!("batch {batch} has not ended"))
                        .with_hint(connection.how_a_batch_goes_on(batch)));
                }
            };
            match session.output.format() {
                Format::Json => session.output.json(&result),
                Format::Human => show(&session.output, &result.results),
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

/// Waits for every run, with a bar that counts those that ended.
async fn wait(session: &Session, connection: &Connection, spawned: &SpawnedBatch) -> Result<BatchResult, CommandError> {
    let bar = session.output.bar(u64::from(spawned.spawned), "batch");
    let mut ends: FuturesUnordered<_> =
        spawned.results.iter().map(|run| super::run::wait(connection, run.run_id)).collect();
    while let Some(ended) = ends.next().await {
        let ended = ended?;
        bar.inc(1);
        bar.set_message(format!("{} {}", ended.agent, ended.status.as_str()));
    }
    bar.finish_and_clear();
    connection.backend.get_batch(GetBatch { batch_id: spawned.batch_id, wait_ms: None }).await
}

/// A table of runs by index.
pub(crate) fn show(output: &Output, results: &[RunResult]) {
    output.table(
        ["#", "agent", "status", "took", "tokens", "result"],
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
                Text::new(run.usage.total().to_string()),
                result,
            ]
        }),
    );
}
