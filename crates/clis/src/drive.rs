//! What a run on a CLI does next. Pure: everything comes from the run's records.
//!
//! One call of `cli_run` is one process. A rate limit is waited out, a failure that may pass is tried again, and a call that was in
//! flight when drawloom ended is made again in the same session, after a note that it may have been paid twice.

use std::{sync::Arc, time::Duration};

use drawloom_contract::{
    definition::Definition,
    executor::{AskedBy, CallPlan, Drive, Effect},
    failure::RunError,
    message::{Block, Role, ToolUse},
    record::{Accepted, Body, CallDone, Outcome, Record, Status, StopReason},
    run::Run,
    time::Timestamp,
};
use serde_json::json;

use crate::{
    call::{CallInput, NAME, SessionPlan},
    executor::Callers,
    input::RunInput,
    reply::{Problem, ProblemKind, Reply},
    sessions,
};

/// The version of the notes.
const NOTE_VERSION: u32 = 1;

/// Waits after a rate limit whose end is not known: the first, and the longest.
const FIRST_WAIT: Duration = Duration::from_secs(30);
const LONGEST_WAIT: Duration = Duration::from_secs(15 * 60);

/// Most waits for a rate limit, and the longest that one may last.
const MOST_WAITS: u32 = 40;
const LONGEST_LIMIT: Duration = Duration::from_secs(24 * 3600);

/// The first wait after another failure that may pass.
const FIRST_RETRY: Duration = Duration::from_secs(5);

/// Most calls that are made again because drawloom ended during them.
const MOST_INTERRUPTED: u32 = 20;

/// Why a server that anyone can call starts no CLI.
const WITHOUT_TOKEN: &str = "this server takes calls without a token, and a coding CLI on its machine could call it; set DRAWLOOM_TOKEN for \
                             the server, or run the agent with `drawloom run`";

/// Most times that a run begins a new session because the one to continue is gone.
const MOST_LOST: u32 = 2;

pub(crate) struct CliDrive {
    definition: Arc<Definition>,
    callers: Callers,
    input: Result<RunInput, String>,
    /// Calls so far.
    calls: u32,
    /// Whether a call is open.
    is_open: bool,
    last: Option<Last>,
    /// The call that a note is about.
    noted: Option<u32>,
    /// How often each kind of thing happened.
    interrupted: u32,
    limited: u32,
    failed: u32,
    lost: u32,
}

/// How the last call ended.
struct Last {
    at: Timestamp,
    end: CallEnd,
}

enum CallEnd {
    Replied(Box<Reply>),
    /// drawloom ended during the call.
    InDoubt,
    /// The call was not made, or its reply cannot be read.
    Refused(String),
}

impl CliDrive {
    pub(crate) fn new(definition: Arc<Definition>, callers: Callers) -> Self {
        Self {
            definition,
            callers,
            input: Ok(RunInput::default()),
            calls: 0,
            is_open: false,
            last: None,
            noted: None,
            interrupted: 0,
            limited: 0,
            failed: 0,
            lost: 0,
        }
    }

    fn take_in(&mut self, at: Timestamp, done: &CallDone) {
        let end = match (done.in_doubt, done.is_error) {
            (true, _) => CallEnd::InDoubt,
            (false, true) => CallEnd::Refused(done.text.clone()),
            (false, false) => match serde_json::from_str(&done.text) {
                Ok(reply) => CallEnd::Replied(Box::new(reply)),
                Err(_) => CallEnd::Refused("bad_output: the reply of the CLI is too long to be kept".into()),
            },
        };
        match &end {
            CallEnd::InDoubt => self.interrupted += 1,
            CallEnd::Refused(_) => {}
            CallEnd::Replied(reply) => match reply.problem.as_ref().map(|problem| problem.kind) {
                Some(ProblemKind::RateLimited) => self.limited += 1,
                Some(ProblemKind::Overloaded | ProblemKind::Crashed) => self.failed += 1,
                Some(ProblemKind::SessionLost) => self.lost += 1,
                _ => {}
            },
        }
        self.last = Some(Last { at, end });
        self.is_open = false;
    }

    /// The next call.
    fn call(&self, run: &Run, input: &RunInput, session: SessionPlan) -> Effect {
        let accepted = &run.accepted;
        let call = CallInput {
            prompt: prompt(accepted),
            system: system(&self.definition, accepted, input),
            mode: input.mode,
            directory: input.directory.clone(),
            time_limit_seconds: input.time_limit_seconds,
            session,
            output_dir: input.output_dir.clone(),
            output_name: input.output_name.clone(),
            model: input.model.clone(),
            environment: input.environment.clone(),
            readable: input.readable.clone(),
            writable: input.writable.clone(),
            schema: input.schema.clone(),
        };
        let tool_use = ToolUse {
            id: format!("cli_{}", self.calls),
            name: NAME.into(),
            input: serde_json::to_value(call).unwrap_or_default(),
        };
        Effect::Call(CallPlan { turn: 0, index: self.calls, tool_use, masked: false, asked_by: AskedBy::Executor })
    }

    /// The id of a new session of the next call.
    fn new_id(&self, run: &Run) -> String {
        sessions::derived_id(run.accepted.run, self.calls)
    }

    /// Continues the session of the call before.
    fn again(&self, run: &Run, input: &RunInput) -> Effect {
        self.call(run, input, SessionPlan::Own { new: self.new_id(run) })
    }

    fn after_problem(&self, run: &Run, input: &RunInput, reply: &Reply, at: Timestamp, now: Timestamp) -> Effect {
        let Some(problem) = &reply.problem else { return completed(run, reply) };
        let wait = match problem.kind {
            ProblemKind::RateLimited if self.limited <= MOST_WAITS => {
                let usual = at.after(doubled(FIRST_WAIT, self.limited - 1));
                let until = problem.until.map_or(usual, |until| until.max(at.after(FIRST_WAIT)));
                (until.since(at) <= LONGEST_LIMIT).then_some(until)
            }
            ProblemKind::Overloaded | ProblemKind::Crashed if self.failed <= self.definition.retry_attempts => {
                Some(at.after(doubled(FIRST_RETRY, self.failed - 1)))
            }
            ProblemKind::SessionLost if self.lost <= MOST_LOST => {
                return self.call(run, input, SessionPlan::Fresh { new: self.new_id(run) });
            }
            _ => None,
        };
        match wait {
            Some(until) if now < until => Effect::Wait { until },
            Some(_) => self.again(run, input),
            None => failed(run, problem, &reply.text),
        }
    }
}

impl Drive for CliDrive {
    fn apply(&mut self, _: &Run, record: &Record) {
        match &record.body {
            Body::Accepted(accepted) => self.input = RunInput::read(accepted.input.as_ref()),
            Body::CallStarted(started) if started.by_executor => {
                self.calls = started.index + 1;
                self.is_open = true;
            }
            Body::CallDone(done) => self.take_in(record.at, done),
            Body::Note { value, .. } => {
                self.noted =
                    value["maybe_paid_twice"].as_u64().and_then(|call| u32::try_from(call).ok()).or(self.noted);
            }
            _ => {}
        }
    }

    fn decide(&self, run: &Run, now: Timestamp) -> Vec<Effect> {
        if run.view.status.is_terminal() || self.is_open {
            return Vec::new();
        }
        if self.callers == Callers::Anyone {
            return vec![ended(run, Status::Failed, Some(RunError::new("cli_without_token", WITHOUT_TOKEN)), None)];
        }
        let input = match &self.input {
            Ok(input) => input,
            Err(message) => {
                return vec![ended(run, Status::Failed, Some(RunError::new("invalid_input", message)), None)];
            }
        };
        let Some(Last { at, end }) = &self.last else {
            let session = match input.continue_run {
                Some(of) => SessionPlan::Of { run: of, new: self.new_id(run) },
                None => SessionPlan::New { new: self.new_id(run) },
            };
            return vec![self.call(run, input, session)];
        };
        vec![match end {
            CallEnd::Replied(reply) => self.after_problem(run, input, reply, *at, now),
            CallEnd::Refused(text) => failed_call(run, text),
            CallEnd::InDoubt if self.interrupted > MOST_INTERRUPTED => {
                let message = format!("the server ended {MOST_INTERRUPTED} times while the CLI was running");
                ended(run, Status::Failed, Some(RunError::new("interrupted", message)), None)
            }
            CallEnd::InDoubt if self.noted != Some(self.calls) => {
                let why = "the server ended while the CLI was running; the call is made again and may be paid twice";
                Effect::Note { version: NOTE_VERSION, value: json!({ "maybe_paid_twice": self.calls, "why": why }) }
            }
            CallEnd::InDoubt => self.again(run, input),
        }]
    }
}

/// `first`, doubled `times` times, within the longest wait.
fn doubled(first: Duration, times: u32) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(times.min(16))).min(LONGEST_WAIT)
}

fn completed(run: &Run, reply: &Reply) -> Effect {
    let denied = reply.permission_denials.iter().map(|denial| format!("the CLI refused a tool call: {denial}"));
    let mut effect = ended(run, Status::Completed, None, Some(reply.text.clone()));
    if let Effect::Finish(outcome) = &mut effect {
        outcome.stop_reason = Some(StopReason::EndTurn);
        outcome.warnings.extend(denied);
    }
    effect
}

fn failed(run: &Run, problem: &Problem, text: &str) -> Effect {
    let error = RunError::new(problem.kind.code(), &problem.message);
    ended(run, Status::Failed, Some(error), Some(text.to_owned()).filter(|text| !text.is_empty()))
}

/// A refused call says its code before the first colon.
fn failed_call(run: &Run, text: &str) -> Effect {
    let is_code = |code: &str| !code.is_empty() && code.chars().all(|sign| sign.is_ascii_lowercase() || sign == '_');
    let error = match text.split_once(": ").filter(|(code, _)| is_code(code)) {
        Some((code, message)) => RunError::new(code, message),
        None => RunError::new("cli_not_called", text),
    };
    ended(run, Status::Failed, Some(error), None)
}

fn ended(run: &Run, status: Status, error: Option<RunError>, final_text: Option<String>) -> Effect {
    Effect::Finish(Box::new(Outcome {
        status,
        stop_reason: None,
        error,
        final_text,
        usage: run.view.usage,
        cost: run.view.cost,
        warnings: run.warnings(),
    }))
}

/// The user's segments as text.
fn prompt(accepted: &Accepted) -> String {
    spoken(accepted, Role::User)
}

/// The agent's system prompt, the caller's system segments and the run's own.
fn system(definition: &Definition, accepted: &Accepted, input: &RunInput) -> String {
    let parts =
        [definition.system_prompt.clone(), spoken(accepted, Role::System), input.system.clone().unwrap_or_default()];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n")
}

fn spoken(accepted: &Accepted, role: Role) -> String {
    let blocks = accepted.segments.iter().filter(|segment| segment.role == role).flat_map(|segment| &segment.content);
    let said = |block: &Block| match block {
        Block::TrustedText { text } => text.clone(),
        Block::UntrustedBlock { text, kind } => {
            let tag = kind.as_deref().unwrap_or("untrusted");
            format!("<{tag}>\n{}\n</{tag}>", text.replace('<', "&lt;"))
        }
        Block::Image { media_type, .. } => format!("[an image of type {media_type} that cannot be passed to the CLI]"),
    };
    blocks.map(said).collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests;
