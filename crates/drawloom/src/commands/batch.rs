//! `drawloom batch`: many runs at once, and a table of what they came to.
//!
//! A server takes at most 32 runs in one request, so a larger batch is sent in parts. The next part is sent when fewer than 32 runs
//! are unfinished. The parts of a file have keys that are derived from its content: a rerun finds what was started before. What was
//! retried since is found by the links between a run and its retry: the newest attempt of each run counts.

mod plan;
mod progress;
mod report;
mod retries;

use std::{
    cell::{OnceCell, RefCell},
    collections::{BTreeMap, BTreeSet},
};

use clap::Args;
use futures::{FutureExt as _, StreamExt as _, stream::FuturesUnordered};
use serde_json::json;

use drawloom_contract::{
    ids::{AgentName, RunId},
    record::Status,
};
use drawloom_wire::{
    batches::{CancelBatch, GetBatch, MAX_SPAWNS, SpawnedBatch},
    runs::{CancelRun, RunResult},
};

use crate::{
    cli::{Look, Quiet},
    commands::Session,
    connect::{self, Connection, Execution, Need},
    exit::{CommandError, Exit},
    interrupts::Interrupts,
    output::Format,
};

use plan::{Given, Part, Plan};
use progress::Board;
use report::Outcome;
pub(crate) use report::show;
use retries::Retries;

/// Start many runs and wait for all of them
///
/// Running the same file again continues it: runs that were started before are not started again. Ctrl-C cancels all runs and waits
/// until they have ended. A second Ctrl-C exits at once and says which runs continue.
#[derive(Debug, Args)]
pub struct Batch {
    /// JSON or YAML file with a list of runs; with --agent, prompts instead
    #[arg(value_name = "FILE | PROMPT", required = true)]
    given: Vec<String>,
    /// Send every prompt to this agent
    #[arg(long, value_name = "AGENT")]
    agent: Option<AgentName>,
    /// Return as soon as all runs are accepted; they continue in the server
    #[arg(long, conflicts_with = "embedded")]
    detach: bool,
    /// Start all runs of the file again, also those that were started before
    #[arg(long, conflicts_with = "idempotency_key")]
    fresh: bool,
    /// Start the runs again that failed or were cancelled
    #[arg(long, conflicts_with_all = ["fresh", "detach", "agent"])]
    retry_failed: bool,
    /// Start at most one batch per key: the same key and runs return the same batch
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Cancel every run after this many seconds, waits included
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    timeout: Option<u64>,
    #[command(flatten)]
    execution: Execution,
    #[command(flatten)]
    ids: Quiet,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Batch {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let plan = Plan::read(Given {
            words: &self.given,
            agent: self.agent.as_ref(),
            key: self.idempotency_key.clone(),
            timeout_ms: self.timeout.map(|seconds| seconds * 1_000),
            fresh: self.fresh,
        })?;
        connect::ask_first(session).await?;
        let interrupts = Interrupts::listen();
        let work = async |connection: &Connection| {
            let batch = Working {
                session,
                connection,
                interrupts: &interrupts,
                plan: &plan,
                accepted: RefCell::default(),
                already_done: RefCell::default(),
                retries: RefCell::default(),
                ended: RefCell::default(),
            };
            let everything: Vec<usize> = (0..plan.spawns.len()).collect();
            let parts = plan.parts(&everything)?;
            if self.detach {
                for part in parts {
                    batch.start(part).await?;
                    if interrupts.any() {
                        batch.cancel().await?;
                        return batch.finish(self.ids).await;
                    }
                }
                batch.tell_started(self.ids);
                return Ok(Exit::Done);
            }
            batch.execute(parts, self.ids).await?;
            let retry = if self.retry_failed { Retries::OfFailed } else { Retries::None };
            batch.wait_for_retries(retry, self.ids).await?;
            batch.finish(self.ids).await
        };
        interrupts.connected(session, "batch", Need::Engine(self.execution), work).await
    }
}

/// A batch that is being started and watched.
struct Working<'a> {
    session: &'a Session,
    connection: &'a Connection,
    interrupts: &'a Interrupts,
    plan: &'a Plan,
    accepted: RefCell<Vec<Accepted>>,
    /// Runs that had ended when they were accepted: an earlier call started them.
    already_done: RefCell<BTreeSet<RunId>>,
    /// Retries that this command started or waited for.
    retries: RefCell<BTreeSet<RunId>>,
    /// Runs that are known to have ended.
    ended: RefCell<BTreeSet<RunId>>,
}

/// A part that the server has accepted.
struct Accepted {
    spawned: SpawnedBatch,
    places: Vec<usize>,
}

impl Working<'_> {
    /// Starts a part; returns its runs, with whether each has ended.
    async fn start(&self, part: Part) -> Result<Vec<(RunId, bool)>, CommandError> {
        let Part { request, key, places } = part;
        let answer = self.connection.backend.start(request);
        let answered = self.interrupts.answered(self.session, self.connection, &key, answer).await;
        let spawned = answered.map_err(|error| match error.code == "interrupted" && self.plan.is_continued() {
            true => error.with_hint("run the same command again to continue"),
            false => error,
        })?;
        let runs: Vec<_> = spawned.results.iter().map(|run| (run.run_id, run.status.is_terminal())).collect();
        let done = || runs.iter().filter(|(_, ended)| *ended).map(|(run, _)| *run);
        self.already_done.borrow_mut().extend(done());
        self.ended.borrow_mut().extend(done());
        self.accepted.borrow_mut().push(Accepted { spawned, places });
        Ok(runs)
    }

    /// Starts the parts one after the other and waits until all their runs have ended. A signal cancels what was started.
    async fn execute(&self, parts: Vec<Part>, ids: Quiet) -> Result<(), CommandError> {
        let (output, number) = (&self.session.output, parts.len());
        let total = parts.iter().map(|part| part.places.len()).sum();
        let mut parts = parts.into_iter().enumerate().peekable();
        let board: OnceCell<Board> = OnceCell::new();
        let mut waiting = FuturesUnordered::new();
        let mut slots = 0..total;
        while parts.peek().is_some() || !waiting.is_empty() {
            if waiting.len() < MAX_SPAWNS
                && let Some((place, part)) = parts.next()
            {
                let places = part.places.clone();
                let runs = self.start(part).await?;
                if number > 1 && output.format() == Format::Human && !output.shows_progress() && !ids.quiet {
                    let batch = self.accepted.borrow().last().map(|accepted| accepted.spawned.batch_id.to_string());
                    output.note(format!("batch {} of {number}: {}", place + 1, batch.unwrap_or_default()));
                }
                let board = board.get_or_init(|| Board::new(output, total, ids));
                for (((run, ended), place), slot) in runs.into_iter().zip(places).zip(&mut slots) {
                    match ended {
                        true => board.ended(slot),
                        false => waiting.push(self.watch(board, run, place, slot)),
                    }
                }
            } else {
                match self.interrupts.unless_first(waiting.next().map(Ok)).await? {
                    Some(ended) => self.ended.borrow_mut().extend(ended.transpose()?),
                    None => break,
                }
            }
            if self.interrupts.any() {
                break;
            }
        }
        let is_done = parts.peek().is_none() && waiting.is_empty();
        drop(waiting);
        drop(board);
        if is_done { Ok(()) } else { self.cancel().await }
    }

    async fn watch(&self, board: &Board, run: RunId, place: usize, slot: usize) -> Result<RunId, CommandError> {
        board.follow(self.session, self.connection, run, (slot, place), self.plan.about(place)).await?;
        super::run::wait(self.connection, run).await?;
        board.ended(slot);
        Ok(run)
    }

    /// Cancels every run and waits until all have ended.
    async fn cancel(&self) -> Result<(), CommandError> {
        let cancelling = async {
            let is_open = |accepted: &Accepted| {
                let ended = self.ended.borrow();
                accepted.spawned.results.iter().any(|run| !ended.contains(&run.run_id))
            };
            let open: Vec<_> =
                self.accepted.borrow().iter().filter(|one| is_open(one)).map(|one| one.spawned.batch_id).collect();
            for batch_id in open {
                let reason = Some(super::run::REASON.to_owned());
                self.connection.backend.call(&CancelBatch { batch_id, reason, idempotency_key: None }).await?;
            }
            for run in self.open_retries() {
                let ask =
                    CancelRun { run_id: Some(run), reason: Some(super::run::REASON.into()), ..CancelRun::default() };
                self.connection.backend.call(&ask).await?;
            }
            for run in self.unfinished() {
                super::run::wait(self.connection, run).await?;
                self.ended.borrow_mut().insert(run);
            }
            Ok(())
        };
        self.interrupts.cancelled(self.session, self.connection, || self.unfinished(), cancelling).await
    }

    /// The runs that are not known to have ended.
    fn unfinished(&self) -> Vec<RunId> {
        let (accepted, ended) = (self.accepted.borrow(), self.ended.borrow());
        let runs = accepted.iter().flat_map(|one| &one.spawned.results).map(|run| run.run_id);
        runs.filter(|run| !ended.contains(run)).chain(self.open_retries()).collect()
    }

    fn open_retries(&self) -> Vec<RunId> {
        let (retries, ended) = (self.retries.borrow(), self.ended.borrow());
        retries.difference(&ended).copied().collect()
    }

    /// The results by place, of the newest attempts; and what cut answers short.
    async fn results(&self) -> Result<(BTreeMap<usize, RunResult>, Vec<String>), CommandError> {
        let accepted: Vec<_> =
            self.accepted.borrow().iter().map(|one| (one.spawned.batch_id, one.places.clone())).collect();
        let (mut results, mut warnings) = (BTreeMap::new(), Vec::new());
        for (batch_id, places) in accepted {
            let ask = GetBatch { batch_id, wait_ms: None, result_bytes: None };
            let batch = self.connection.backend.call(&ask).await?;
            warnings.extend(batch.warnings);
            for (place, run) in places.into_iter().zip(batch.results) {
                let mut run = self.newest(run).await?;
                run.index = u32::try_from(place).ok();
                results.insert(place, run);
            }
        }
        Ok((results, warnings))
    }

    /// Prints what the batch came to.
    async fn finish(&self, ids: Quiet) -> Result<Exit, CommandError> {
        let (results, warnings) = self.results().await?;
        let results: Vec<RunResult> = results.into_values().collect();
        let already_done = {
            let (known, retries) = (self.already_done.borrow(), self.retries.borrow());
            // A run that cannot start has failed when it is accepted.
            let cannot_start = |run: &RunResult| run.status == Status::Failed && run.timings.started_at.is_none();
            let is_done = |run: &&RunResult| match run.retry_of {
                Some(_) => !retries.contains(&run.run_id),
                None => known.contains(&run.run_id) && !cannot_start(run),
            };
            results.iter().filter(is_done).count()
        };
        let outcome = Outcome {
            batches: self.accepted.borrow().iter().map(|one| one.spawned.batch_id).collect(),
            already_done,
            not_started: self.plan.spawns.len() - results.len(),
            warnings,
            is_continued: self.plan.is_continued(),
            results,
        };
        let output = &self.session.output;
        match output.format() {
            Format::Json => output.json(&outcome.to_json()),
            Format::Human if ids.quiet => output.ids(&outcome.batches),
            Format::Human => {
                let currency = self.connection.backend.currency([outcome.cost()]).await;
                show(output, &outcome.results, &currency);
                outcome.summary(output, &currency);
            }
        }
        Ok(if outcome.is_completed() { Exit::Done } else { Exit::Failed })
    }

    /// Prints what was started, for a command that does not wait.
    fn tell_started(&self, ids: Quiet) {
        let (output, accepted) = (&self.session.output, self.accepted.borrow());
        let batches: Vec<_> = accepted.iter().map(|one| one.spawned.batch_id).collect();
        let all = accepted.iter().flat_map(|one| &one.spawned.results);
        let already_done = all.filter(|run| run.status == Status::Completed).count();
        match (output.format(), accepted.as_slice()) {
            (Format::Json, [one]) => output.json(&one.spawned),
            (Format::Json, several) => {
                let results: Vec<_> = several.iter().flat_map(|one| &one.spawned.results).collect();
                output.json(&json!({
                    "batch_ids": batches, "spawned": results.len(), "already_done": already_done, "results": results,
                }));
            }
            (Format::Human, _) => {
                output.ids(&batches);
                if already_done > 0 && !ids.quiet {
                    output.note(format!(
                        "runs that were already completed: {already_done}; --fresh starts all of them again"
                    ));
                }
            }
        }
    }
}
