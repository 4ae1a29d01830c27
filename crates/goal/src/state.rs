//! A goal's run folded from its journal: which steps were taken, and what came of each. Compatible for ever.

use std::collections::BTreeMap;

use drawloom_contract::{
    failure::RunError,
    ids::RunId,
    money::Cost,
    record::{Body, Record, Seq, Status},
    time::Timestamp,
    usage::Usage,
};
use serde::Deserialize;
use serde_json::Value;

use crate::{
    event::{Note, VERSION},
    request::GoalInput,
    tools::ASK,
};

/// The fold of a goal's records.
#[derive(Debug, Clone, Default)]
pub(crate) struct State {
    pub(crate) input: Option<Result<GoalInput, String>>,
    /// When it was first admitted: `max_seconds` counts from here.
    pub(crate) began: Option<Timestamp>,
    /// Steps by their key.
    pub(crate) steps: BTreeMap<String, Step>,
    /// Events by their key.
    pub(crate) notes: BTreeMap<String, Noted>,
    keys: BTreeMap<Seq, String>,
    /// Calls of roles so far.
    pub(crate) agent_calls: u32,
    /// What roles used.
    pub(crate) usage: Usage,
    pub(crate) cost: Cost,
    /// Calls of roles that were made again because the server ended during them. They count as calls of roles too.
    pub(crate) interrupted: u32,
    /// The backend of a call that was completed without saying what it cost.
    pub(crate) unmetered: Option<String>,
}

/// A call of one of the loop's tools.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) began: Timestamp,
    pub(crate) input: Value,
    pub(crate) end: Option<End>,
}

#[derive(Debug, Clone)]
pub(crate) struct End {
    pub(crate) at: Timestamp,
    pub(crate) text: String,
    pub(crate) is_error: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Noted {
    /// The record's sequence.
    pub(crate) number: Seq,
    pub(crate) kind: String,
    pub(crate) iteration: u32,
    pub(crate) data: Value,
}

impl State {
    pub(crate) fn apply(&mut self, record: &Record) {
        match &record.body {
            Body::Accepted(accepted) => {
                let input = accepted.input.clone().unwrap_or_default();
                self.input = Some(serde_json::from_value(input).map_err(|error| error.to_string()));
            }
            Body::Admitted { .. } => self.began = self.began.or(Some(record.at)),
            Body::CallStarted(started) if started.by_executor => {
                let input = &started.tool_use.input;
                let Some(key) = input.get("key").and_then(Value::as_str) else { return };
                self.agent_calls += u32::from(started.tool_use.name == ASK);
                self.keys.insert(record.seq, key.to_owned());
                self.steps.insert(key.to_owned(), Step { began: record.at, input: input.clone(), end: None });
            }
            Body::CallDone(done) => {
                let Some(step) = self.keys.get(&done.call).and_then(|key| self.steps.get_mut(key)) else { return };
                if step.input.get("role").is_some() && !done.is_error {
                    for report in serde_json::from_str::<Vec<Report>>(&done.text).unwrap_or_default() {
                        self.usage += report.usage;
                        self.cost += report.cost.unwrap_or_default();
                        self.interrupted = self.interrupted.saturating_add(report.interrupted);
                        self.agent_calls = self.agent_calls.saturating_add(report.interrupted);
                        let backend = step.input["backend"]["name"].as_str().filter(|name| *name != MOCK_BACKEND);
                        if report.status == Status::Completed && report.cost.is_none() {
                            self.unmetered = self.unmetered.take().or(backend.map(str::to_owned));
                        }
                    }
                }
                step.end = Some(End { at: record.at, text: done.text.clone(), is_error: done.is_error });
            }
            Body::Note { version: VERSION, value } => {
                let Ok(note) = serde_json::from_value::<Note>(value.clone()) else { return };
                let Note { key, kind, iteration, data } = note;
                self.notes.insert(key, Noted { number: record.seq, kind, iteration, data });
            }
            _ => {}
        }
    }
}

/// What came of a call of a role.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reply {
    pub(crate) run: RunId,
    pub(crate) output: String,
}

/// A call of a role that failed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Failed {
    pub(crate) run: Option<RunId>,
    pub(crate) error: RunError,
}

/// A child's end, as the engine reports it.
#[derive(Debug, Deserialize)]
struct Report {
    run_id: RunId,
    status: Status,
    #[serde(default)]
    output: String,
    #[serde(default)]
    error: Option<RunError>,
    #[serde(default)]
    usage: Usage,
    #[serde(default)]
    cost: Option<Cost>,
    #[serde(default)]
    interrupted: u32,
}

/// The backend that costs nothing.
const MOCK_BACKEND: &str = "mock";

/// Ends that a further try cannot change.
const FINAL: [&str; 13] = [
    "not_installed",
    "not_logged_in",
    "no_such_mode",
    "not_isolated",
    "not_private",
    "cli_without_token",
    "foreign_directory",
    "too_deep",
    "unknown_cli",
    "bad_model",
    "model_auth",
    "budget_exhausted",
    "command_refused",
];

impl Failed {
    /// Whether a further try may work.
    pub(crate) fn is_final(&self) -> bool {
        FINAL.contains(&self.error.code.as_str())
    }
}

impl Reply {
    /// Reads the result of an `ask` call.
    pub(crate) fn of(text: &str, is_error: bool) -> Result<Self, Failed> {
        let refused = |message: &str| Failed { run: None, error: RunError::new("role_refused", message) };
        if is_error {
            return Err(refused(text));
        }
        let reports: Vec<Report> = serde_json::from_str(text).map_err(|error| refused(&error.to_string()))?;
        let Some(report) = reports.into_iter().next() else { return Err(refused("no run was started")) };
        let failed = |error: RunError| Failed { run: Some(report.run_id), error };
        match (report.status, report.error) {
            (Status::Completed, _) if report.output.trim().is_empty() => {
                Err(failed(RunError::new("empty_output", "it ended without any output")))
            }
            (Status::Completed, _) => Ok(Self { run: report.run_id, output: report.output }),
            (_, Some(error)) => Err(failed(error)),
            (status, None) => Err(failed(RunError::new(status.as_str(), format!("it ended as {}", status.as_str())))),
        }
    }
}
