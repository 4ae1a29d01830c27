//! What a goal's loop tells: notes in its journal, one for each event.

use drawloom_contract::record::{Body, Outcome, Record, Seq, Status};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The version of the notes.
pub(crate) const VERSION: u32 = 1;

/// An event as it is journaled. `key` is its place in the loop, of which there is one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Note {
    pub(crate) key: String,
    pub(crate) kind: String,
    pub(crate) iteration: u32,
    pub(crate) data: Value,
}

/// An event as callers see it. `seq` counts the events of the goal from 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoopEvent {
    pub seq: u64,
    /// Seconds since 1970.
    pub ts: f64,
    pub kind: String,
    pub iteration: u32,
    pub data: Value,
}

/// Turns the records of a goal's run, in order, into its events.
#[derive(Debug, Clone, Default)]
pub struct Projection {
    seq: u64,
    iteration: u32,
    record: Seq,
}

impl Projection {
    /// The event that a record is, if it is one.
    pub fn apply(&mut self, record: &Record) -> Option<LoopEvent> {
        self.record = record.seq;
        let (kind, data) = match &record.body {
            Body::Note { version: VERSION, value } => {
                let note = serde_json::from_value::<Note>(value.clone()).ok()?;
                self.iteration = note.iteration;
                (note.kind, note.data)
            }
            Body::Resumed(resumed) => ("resumed".into(), json!({ "version": resumed.version })),
            Body::Finished(outcome) => finished(outcome, self.iteration),
            _ => return None,
        };
        self.seq += 1;
        let data = without_nulls(data);
        let ts = record.at.as_millis() as f64 / 1000.0;
        Some(LoopEvent { seq: self.seq, ts, kind, iteration: self.iteration, data })
    }

    /// The last record that was applied.
    pub fn record(&self) -> Seq {
        self.record
    }
}

/// A value without members that are null: an absent one says the same.
pub(crate) fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(name, value)| (name, without_nulls(value))).collect())
        }
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

/// The last event: how the goal ended.
fn finished(outcome: &Outcome, iterations: u32) -> (String, Value) {
    let completed = outcome.status == Status::Completed;
    let stop_reason = stop_reason(outcome.status, outcome.error.as_ref().map(|error| error.message.as_str()));
    match outcome.error.as_ref().filter(|error| is_error(&error.code)) {
        Some(error) => (
            "run_error".into(),
            json!({ "error": error.message, "code": error.code, "hint": error.hint, "iterations": iterations }),
        ),
        None => (
            "run_finished".into(),
            json!({ "completed": completed, "stop_reason": stop_reason, "iterations": iterations }),
        ),
    }
}

/// The code of a goal that a guard stopped.
pub const BUDGET_LIMITED: &str = "budget_limited";

/// The code of a goal that made no progress.
pub const STAGNATED: &str = "stagnated";

/// The code of a goal whose plan was not approved.
pub const PLAN_DECLINED: &str = "plan_declined";

/// Whether a run that ended with this code failed, and was not stopped by a guard.
pub fn is_error(code: &str) -> bool {
    ![BUDGET_LIMITED, STAGNATED, PLAN_DECLINED, "cancelled"].contains(&code)
}

/// Why a goal ended, in the words of its result.
pub fn stop_reason(status: Status, error: Option<&str>) -> String {
    match (status, error) {
        (Status::Completed, _) => "goal_complete".into(),
        (Status::Cancelled, _) => "cancelled".into(),
        (Status::TimedOut, _) => "timed_out".into(),
        (_, Some(message)) => message.into(),
        (status, None) => status.as_str().into(),
    }
}
