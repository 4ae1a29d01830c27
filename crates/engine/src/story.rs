//! The story of a run in the log, once it is durable: its start and its end at level info, and at level debug one line for each
//! record, in order.

use drawloom_contract::{
    failure::RunError,
    ids::RunKey,
    money::Cost,
    record::{Body, Record},
    redact::Redacted,
    time::Timestamp,
    view::RunView,
    wait::Wait,
};
use tracing::{Level, debug, info};

/// Logs records that are true now. No texts: they belong to the run.
pub(crate) fn tell(key: &RunKey, records: &[Redacted<Record>]) {
    if tracing::enabled!(Level::DEBUG) {
        records.iter().for_each(|record| line(key, record));
    }
}

/// Logs that a run begins to execute: when it got its first slot.
pub(crate) fn tell_start(view: &RunView, records: &[Redacted<Record>]) {
    let is_first =
        |record: &Redacted<Record>| matches!(record.body, Body::Admitted { .. }) && view.started_at == Some(record.at);
    if records.iter().any(is_first) {
        let (run, agent, model) = (view.run, &view.agent, &view.model);
        let parent = view.parent.as_ref().map(|parent| tracing::field::display(parent.run));
        let queued_ms = millis(view.started_at, view.accepted_at);
        info!(%run, %agent, parent, model, queued_ms, "run started");
    }
}

/// Logs how a run ended, with what it used.
pub(crate) fn tell_end(view: &RunView) {
    let (run, agent, status) = (view.run, &view.agent, view.status.as_str());
    let parent = view.parent.as_ref().map(|parent| tracing::field::display(parent.run));
    let (duration_ms, tokens) = (millis(view.ended_at, view.accepted_at), view.usage.total());
    let cost = view.cost.map(Cost::units);
    match &view.error {
        None => info!(%run, %agent, parent, status, duration_ms, tokens, cost, "run ended"),
        Some(RunError { code, message, .. }) => {
            info!(%run, %agent, parent, status, duration_ms, tokens, cost, code, reason = message, "run failed");
        }
    }
}

fn millis(later: Option<Timestamp>, earlier: Timestamp) -> Option<u64> {
    later.map(|later| u64::try_from(later.since(earlier).as_millis()).unwrap_or(u64::MAX))
}

fn line(key: &RunKey, record: &Record) {
    let (run, seq) = (key.run, record.seq);
    match &record.body {
        Body::Accepted(accepted) => {
            debug!(%run, seq, agent = %accepted.agent, executor = accepted.executor, depth = accepted.depth, "accepted");
        }
        Body::Admitted { .. } => debug!(%run, seq, "admitted"),
        Body::TurnStarted(turn) => debug!(%run, seq, turn = turn.turn, attempt = turn.attempt, "model call started"),
        Body::TurnDone(turn) => {
            let stop_reason = turn.stop_reason.as_str();
            debug!(%run, seq, turn = turn.turn, calls = turn.calls.len(), stop_reason, "model call done");
        }
        Body::TurnFailed(turn) => {
            let retries = turn.retry_at.is_some();
            debug!(%run, seq, turn = turn.turn, attempt = turn.attempt, code = turn.error.code, retries, "model call failed");
        }
        Body::Usage { turn, usage, assumed, .. } => {
            debug!(%run, seq, turn, tokens = usage.total(), assumed, "usage");
        }
        Body::Switched(switched) => debug!(%run, seq, from = %switched.from, to = %switched.to, "switched model"),
        Body::Notice { notice, .. } => debug!(%run, seq, ?notice, "notice"),
        Body::CallStarted(call) => debug!(%run, seq, call = seq, tool = call.tool_use.name, "tool call started"),
        Body::CallWaiting { call, wait } => {
            debug!(%run, seq, call, on = cause(wait), until = ?wait.until.map(|time| time.to_rfc3339()), "tool call waiting");
        }
        Body::CallDone(done) => {
            debug!(%run, seq, call = done.call, is_error = done.is_error, in_doubt = done.in_doubt, "tool call done");
        }
        Body::Parked { wait } => {
            debug!(%run, seq, on = cause(wait), until = ?wait.until.map(|time| time.to_rfc3339()), "parked");
        }
        Body::Resumed(resumed) => debug!(%run, seq, epoch = resumed.epoch, strikes = resumed.strikes, "resumed"),
        Body::LimitReached { last_turn, .. } => debug!(%run, seq, last_turn, "budget exhausted"),
        Body::StopRequested(stop) => debug!(%run, seq, ?stop, "stop requested"),
        Body::Note { version, .. } => debug!(%run, seq, version, "note"),
        Body::Finished(outcome) => {
            let code = outcome.error.as_ref().map(|error| error.code.as_str());
            debug!(%run, seq, status = outcome.status.as_str(), code, "finished");
        }
    }
}

/// What a run or a call waits for.
pub(crate) fn cause(wait: &Wait) -> &'static str {
    match (wait.on.first(), wait.until) {
        (Some(cause), _) => cause.name(),
        (None, Some(_)) => "time",
        // A run that is parked because all its open calls wait.
        (None, None) => "calls",
    }
}
