//! Stopping runs: cancel, deadlines and queue timeouts are one thing, and it reaches all runs below.

use std::{sync::Arc, time::Duration};

use drawloom_contract::{
    failure::RunError,
    ids::{RunId, RunKey},
    journal,
    record::{Body, Outcome, Status, Stop},
    run::OpenCall,
    time::Timestamp,
    view::RunView,
    wait::WaitChange,
};
use futures::{FutureExt, future::BoxFuture};

use crate::{Engine, control::Claim, engine::ids, run_task::RunTask, timers::Due};

/// A deadline that is at most this much too early is not explained: clocks are also set by small steps, and reading two of them takes time.
const SLACK: Duration = Duration::from_secs(5);

impl RunTask {
    /// Ends the run for a reason from outside: first the reason is journaled, then all below it end, then it does.
    pub(crate) async fn end_by(&mut self, stop: Stop) {
        let stop = self.explained(stop);
        // Once: an end that another process began has journaled what was assumed.
        if self.run.stop.is_none() {
            let reserved = self.run.reserved;
            self.settle(reserved);
            if let Some((turn, _)) = self.run.turn_in_flight {
                self.assume_paid(turn, reserved);
            }
            self.assume_calls_paid();
            self.push(Body::StopRequested(stop.clone()));
            // From this commit on no child can be retried in its place, so that the list of live children below is complete.
            let is_for_children =
                |open: &&OpenCall| open.waiting.as_ref().is_some_and(|wait| wait.children().is_some());
            let ended = self.run.open_calls.iter().filter(is_for_children).map(|open| open.call);
            let ended: Vec<_> = ended.map(|call| WaitChange::End { run: self.key.clone(), call }).collect();
            self.waits.extend(ended);
        }
        let (mut cascaded, mut stop) = (Vec::new(), stop);
        if self.run.open_calls.iter().any(|open| open.waiting.is_some()) {
            if self.commit().await.is_err() {
                return;
            }
            let key = self.key.clone();
            // Children that cannot be read cannot be stopped; then the run ends with that error, and does not claim more.
            let children = self.live_children().await.unwrap_or_else(|| {
                stop = Stop::Unreadable;
                Vec::new()
            });
            cascaded = ids(&children);
            let below =
                children.iter().map(|child| self.engine.stop_run(child.key(), Stop::ParentEnded { parent: key.run }));
            for more in futures::future::join_all(below).await.into_iter().flatten() {
                cascaded.extend(more);
            }
            // One that let go because the process stops goes on in the next one, and so does this end.
            match self.live_children().await {
                Some(live) if !live.is_empty() => return,
                Some(_) => {}
                None => stop = Stop::Unreadable,
            }
        }
        let (status, error) = verdict(&stop, self.run.view.accepted_at);
        self.push(Body::Finished(Box::new(self.outcome(status, Some(error)))));
        if self.commit().await.is_ok() {
            self.claim.control().stopped(&cascaded);
        }
    }
}

impl RunTask {
    /// The reason with what the journal knows of it: whether a deadline comes too early, because the wall clock was set and
    /// then a restart asked it what was left.
    fn explained(&self, stop: Stop) -> Stop {
        let (Stop::Deadline { clock_set_forward_ms: None, .. }, Some(at)) = (&stop, self.run.view.deadline) else {
            return stop;
        };
        let clock = &self.engine.parts.clock;
        let early = self.run.deadline_set.and_then(|(since, mark)| {
            let passed = clock.since_mark(mark)?;
            let by_the_wall = clock.wall().since(since);
            (passed + SLACK < at.since(since)).then(|| by_the_wall.saturating_sub(passed))
        });
        let clock_set_forward_ms = early.map(|by| u64::try_from(by.as_millis()).unwrap_or(u64::MAX));
        Stop::Deadline { at, clock_set_forward_ms }
    }

    /// The children that have not ended; `None` when they cannot be read.
    async fn live_children(&self) -> Option<Vec<RunView>> {
        self.engine.read(|| self.engine.parts.reader.list_live_children(&self.key)).await
    }
}

/// The status and error of a run that was accepted at `accepted_at` and is stopped for this reason.
pub(crate) fn verdict(stop: &Stop, accepted_at: Timestamp) -> (Status, RunError) {
    match stop {
        Stop::Cancelled { reason: None } => (Status::Cancelled, RunError::new("cancelled", "the run was cancelled")),
        Stop::Cancelled { reason: Some(reason) } => {
            (Status::Cancelled, RunError::new("cancelled", format!("the run was cancelled: {reason}")))
        }
        Stop::ParentEnded { parent } => {
            (Status::Cancelled, RunError::new("parent_ended", format!("the parent run {parent} was stopped")))
        }
        Stop::Deadline { at, clock_set_forward_ms: None } => (
            Status::TimedOut,
            RunError::new("timeout", format!("timed out after {} s", at.since(accepted_at).as_secs_f64())).with_hint(
                "raise --timeout of the command, timeout_ms of the request or run_timeout_seconds of the agent",
            ),
        ),
        Stop::Deadline { at, clock_set_forward_ms: Some(by) } => (
            Status::TimedOut,
            RunError::new(
                "timeout",
                format!(
                    "timed out too early: the wall clock was set forward by {} s before the server restarted, and \
                     reached the deadline {}",
                    by / 1_000,
                    at.to_rfc3339()
                ),
            )
            .with_hint("start the run again"),
        ),
        Stop::QueueTimeout { limit_ms } => (
            Status::TimedOut,
            RunError::new("queue_timeout", format!("timed out after {limit_ms} ms in the queue"))
                .with_hint("raise concurrency.max_concurrent_runs or concurrency.queue_timeout_ms"),
        ),
        Stop::Bug => (
            Status::Failed,
            RunError::new("bug", "internal error while executing this run; see the server log")
                .with_hint("report a bug with the log and the output of `drawloom replay`"),
        ),
        Stop::Unreadable => (
            Status::Failed,
            RunError::new("unreadable", "cannot read the run's journal or its child runs; see the server log")
                .with_hint("run `drawloom doctor` to check the data directory"),
        ),
        Stop::NoExecutor { executor } => (
            Status::Failed,
            RunError::new("unknown_executor", format!("this server has no executor \"{executor}\""))
                .with_hint("start the run again on a server that supports it"),
        ),
        Stop::Quarantined { strikes } => (
            Status::Failed,
            RunError::new(
                "quarantined",
                format!("the server process crashed {strikes} times in a row at the same step of this run"),
            )
            .with_hint("see the journal for the step; fix the cause, then start the run again"),
        ),
    }
}

/// The end that `stop` makes of a run, for comparing with what was journaled.
pub(crate) fn is_outcome_of(stop: &Stop, outcome: &Outcome) -> bool {
    let found = outcome.error.as_ref().map(|error| (outcome.status, error.code.as_str()));
    // Whatever the reason was, what cannot be read ends like this.
    let ends = [stop, &Stop::Unreadable].map(|stop| verdict(stop, Timestamp::from_millis(0)));
    ends.iter().any(|(status, error)| found == Some((*status, &*error.code)))
}

impl Engine {
    /// Stops a run wherever it is; durable when this returns. Gives the runs below that were told too, or nothing when it
    /// had ended.
    pub(crate) fn stop_run(self: &Arc<Self>, key: RunKey, stop: Stop) -> BoxFuture<'static, Option<Vec<RunId>>> {
        let engine = self.clone();
        async move {
            loop {
                let view = engine.read(|| engine.parts.reader.find_run(&key)).await.flatten()?;
                if view.status.is_terminal() {
                    return None;
                }
                let answer = match Claim::take(&engine, &key) {
                    Err(control) => control.stop(stop.clone()),
                    Ok(claim) => {
                        if let Some(ticket) = engine.admission().remove(&key)
                            && ticket.gives_up.is_some()
                        {
                            engine.timers.clear(&key, Due::QueueTimeout);
                        }
                        let answer = claim.control().stop(stop.clone());
                        engine.drive(key.clone(), RunTask::take_down(engine.clone(), key.clone(), claim));
                        answer
                    }
                };
                if let Ok(cascaded) = answer.await {
                    return Some(cascaded);
                }
                if engine.is_stopping() {
                    return None;
                }
            }
        }
        .boxed()
    }

    /// Sees to it that a run of this process ends in time.
    pub(crate) fn watch_deadline(&self, view: &RunView) {
        if let Some(deadline) = view.deadline {
            let length = deadline.since(view.accepted_at);
            self.timers.set_earlier(self.parts.clock.now().after(length), &view.key(), Due::Deadline);
        }
    }

    /// Sees to it that a run of the process before ends in time.
    pub(crate) fn watch_old_deadline(&self, view: &RunView) {
        if let Some(due) = view.deadline {
            let since = view.started_at.unwrap_or(view.accepted_at);
            self.set_old_deadline(&journal::Due { run: view.key(), due, since });
        }
    }

    /// Sets the deadline of a run of the process before.
    pub(crate) fn set_old_deadline(&self, due: &journal::Due) {
        let left = self.left_of(due);
        self.timers.set_earlier(self.parts.clock.now().after(left), &due.run, Due::Deadline);
    }

    /// What is left of a time that the process before set: what the wall clock says, but never more than there was.
    pub(crate) fn left_of(&self, due: &journal::Due) -> Duration {
        let (left, length) = (due.due.since(self.parts.clock.wall()), due.due.since(due.since));
        match length.is_zero() {
            true => left,
            false => left.min(length),
        }
    }

    /// Ends a run that got no slot in time.
    pub(crate) async fn on_queue_timeout(self: &Arc<Self>, key: RunKey) {
        let Some(Some(view)) = self.read(|| self.parts.reader.find_run(&key)).await else { return };
        if view.status == Status::Queued {
            let limit_ms = view.queue_timeout_ms.unwrap_or_default();
            self.stop_run(key, Stop::QueueTimeout { limit_ms }).await;
        }
    }

    /// Ends a run whose time is up.
    pub(crate) async fn on_deadline(self: &Arc<Self>, key: RunKey) {
        // A task that holds the run is told at once; what follows is for runs that no task holds, or that park just now.
        let control = self.active().get(&key).cloned();
        if let Some(control) = control {
            drop(control.stop(Stop::Deadline { at: self.wall(), clock_set_forward_ms: None }));
        }
        let Some(Some(view)) = self.read(|| self.parts.reader.find_run(&key)).await else { return };
        if !view.status.is_terminal() {
            let at = view.deadline.unwrap_or_else(|| self.wall());
            self.stop_run(key, Stop::Deadline { at, clock_set_forward_ms: None }).await;
        }
    }
}
