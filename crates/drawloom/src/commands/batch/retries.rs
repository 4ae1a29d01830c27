//! Retries of a batch's runs: the newest attempt of each run counts, also one that another command started.

use drawloom_contract::{ids::RunId, record::Status};
use drawloom_wire::{
    batches::MAX_SPAWNS,
    runs::{GetRun, RetryRun, RunResult},
};
use futures::{FutureExt as _, StreamExt as _, stream::FuturesUnordered};

use super::{Working, progress::Board};
use crate::{cli::Quiet, exit::CommandError};

/// Which runs a command retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Retries {
    None,
    /// Runs that an earlier command started and that did not complete.
    OfFailed,
}

impl Working<'_> {
    /// The newest attempt of a run.
    pub(super) async fn newest(&self, mut run: RunResult) -> Result<RunResult, CommandError> {
        while let Some(retry) = run.retried_as {
            run = self.connection.backend.call(&GetRun { run_id: Some(retry), ..GetRun::default() }).await?;
        }
        Ok(run)
    }

    /// Starts retries, and waits for them and for those that another command started. A signal cancels what was started.
    pub(super) async fn wait_for_retries(&self, which: Retries, ids: Quiet) -> Result<(), CommandError> {
        if self.interrupts.any() {
            return Ok(());
        }
        let (results, _) = self.results().await?;
        let is_old = |run: &RunResult| match run.retry_of {
            Some(_) => true,
            None => self.already_done.borrow().contains(&run.run_id),
        };
        let is_failed = |run: &RunResult| run.status.is_terminal() && run.status != Status::Completed;
        let is_wanted = |run: &RunResult| {
            !run.status.is_terminal() || (which == Retries::OfFailed && is_failed(run) && is_old(run))
        };
        let wanted: Vec<(usize, RunResult)> = results.into_iter().filter(|(_, run)| is_wanted(run)).collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let total = wanted.len();
        let board = Board::new(&self.session.output, total, ids);
        let mut wanted = wanted.into_iter().enumerate().peekable();
        let mut waiting = FuturesUnordered::new();
        while wanted.peek().is_some() || !waiting.is_empty() {
            if waiting.len() < MAX_SPAWNS
                && let Some((slot, (place, run))) = wanted.next()
            {
                let retry = if run.status.is_terminal() { self.start_retry(&run).await? } else { run.run_id };
                self.retries.borrow_mut().insert(retry);
                waiting.push(self.watch(&board, retry, place, slot));
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
        let is_done = wanted.peek().is_none() && waiting.is_empty();
        drop(waiting);
        drop(board);
        if is_done { Ok(()) } else { self.cancel().await }
    }

    async fn start_retry(&self, run: &RunResult) -> Result<RunId, CommandError> {
        // A run is retried once, so two commands with the same file start one retry.
        let key = format!("batch-retry-{}", run.run_id);
        let ask = RetryRun { idempotency_key: Some(key.clone()), ..RetryRun::new(run.run_id) };
        let answer = self.connection.backend.start(ask);
        let spawned = self.interrupts.answered(self.session, self.connection, &key, answer).await?;
        Ok(spawned.run_id)
    }
}
