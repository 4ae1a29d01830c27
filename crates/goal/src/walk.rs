//! What a goal does next. The loop is written as straight code and walked from its beginning at every decision: a step that was taken
//! has its result in the journal, the first that was not is what comes next. What was decided is an event, and is never decided again.

mod intake;
mod iteration;
mod judge;
mod work;

#[cfg(test)]
mod tests;

use std::time::Duration;

use drawloom_contract::{
    executor::{AskedBy, CallPlan, Effect},
    failure::RunError,
    message::ToolUse,
    time::Timestamp,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    event::{Note, VERSION, without_nulls},
    request::{Backend, GoalInput},
    roles::{Prompts, Role},
    state::{End, Failed, Reply, State},
    tools::{ASK, AskInput, RoleMode},
    workspace::{CheckedOut, DISK_LIMIT},
};

/// Why a walk goes no further.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Halt {
    /// A step has no result yet.
    Pending,
    /// The goal ends without being complete.
    Stop(RunError),
}

pub(crate) type Flow<T> = Result<T, Halt>;

/// One walk through the loop.
pub(crate) struct Walk<'a> {
    pub(crate) state: &'a State,
    pub(crate) input: &'a GoalInput,
    pub(crate) prompts: &'a Prompts,
    pub(crate) now: Timestamp,
    pub(crate) effects: Vec<Effect>,
    pub(crate) iteration: u32,
    phase: &'static str,
    /// Calls of roles that this walk begins.
    asked: u32,
}

/// A question to a role.
pub(crate) struct Question {
    pub(crate) role: Role,
    pub(crate) prompt: String,
    pub(crate) backend: Backend,
    /// Where it works.
    pub(crate) place: Option<CheckedOut>,
    pub(crate) mode: RoleMode,
    /// The subgoal and the try of a worker, for the names of files. Others get theirs from their place in the loop.
    pub(crate) label: String,
    pub(crate) not_before: Option<Timestamp>,
    pub(crate) continues: Option<String>,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(state: &'a State, input: &'a GoalInput, prompts: &'a Prompts, now: Timestamp) -> Self {
        Self { state, input, prompts, now, effects: Vec::new(), iteration: 0, phase: "idle", asked: 0 }
    }

    /// Tells an event, once. What was told before stands, whatever would be told now.
    fn note(&mut self, key: &str, kind: &str, data: impl FnOnce(&Self) -> Value) -> Value {
        if let Some(noted) = self.state.notes.get(key) {
            return noted.data.clone();
        }
        let data = without_nulls(data(self));
        let note = Note { key: key.into(), kind: kind.into(), iteration: self.iteration, data: data.clone() };
        let value = serde_json::to_value(note).unwrap_or_default();
        self.effects.push(Effect::Note { version: VERSION, value });
        data
    }

    /// An event that was told before.
    fn told<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        serde_json::from_value(self.state.notes.get(key)?.data.clone()).ok()
    }

    fn enter(&mut self, phase: &'static str) {
        let from = std::mem::replace(&mut self.phase, phase);
        let key = format!("{}/phase/{phase}", self.place());
        self.note(&key, "phase_changed", |_| json!({ "from": from, "to": phase }));
    }

    /// What keys of this iteration begin with.
    fn place(&self) -> String {
        format!("i{}", self.iteration)
    }

    /// A step by one of the loop's own tools.
    fn step(&mut self, key: &str, tool: &str, input: impl FnOnce() -> Value) -> Flow<&'a End> {
        match self.state.steps.get(key) {
            Some(step) => step.end.as_ref().ok_or(Halt::Pending),
            None => {
                let mut input = input();
                input["key"] = key.into();
                self.begin(tool, input);
                Err(Halt::Pending)
            }
        }
    }

    /// A step that must work, with its result.
    fn must<T: DeserializeOwned>(&mut self, key: &str, tool: &str, input: impl FnOnce() -> Value) -> Flow<T> {
        let end = self.step(key, tool, input)?;
        if end.is_error {
            return Err(Halt::Stop(match end.text.strip_prefix(DISK_LIMIT) {
                Some(reason) => RunError::new("budget_limited", reason),
                None => RunError::new("workspace_failed", end.text.clone()),
            }));
        }
        serde_json::from_str(&end.text)
            .map_err(|error| Halt::Stop(RunError::new("bug", format!("the result of {key} cannot be read: {error}"))))
    }

    fn begin(&mut self, tool: &str, input: Value) {
        let turn = u32::try_from(self.state.steps.len() + self.effects.len()).unwrap_or(u32::MAX);
        let tool_use = ToolUse { id: format!("step_{turn}"), name: tool.into(), input };
        self.effects.push(Effect::Call(CallPlan {
            turn,
            index: 0,
            tool_use,
            masked: false,
            asked_by: AskedBy::Executor,
        }));
    }

    /// Asks a role. Budgets are checked before every question.
    fn ask(&mut self, key: &str, question: impl FnOnce(&mut Self) -> Flow<Question>) -> Flow<Result<Reply, Failed>> {
        if let Some(step) = self.state.steps.get(key) {
            let end = step.end.as_ref().ok_or(Halt::Pending)?;
            return Ok(Reply::of(&end.text, end.is_error));
        }
        self.guard()?;
        let question = question(self)?;
        let label = match question.role {
            Role::Subagent => question.label,
            role => {
                let attempt: Vec<&str> = key.split('/').skip(2).collect();
                format!("i{:02}-{role}-{}", self.iteration, attempt.join("-"))
            }
        };
        let input = AskInput {
            key: key.into(),
            role: question.role,
            backend: question.backend,
            system: self.prompts.of(question.role).to_owned(),
            prompt: question.prompt,
            mode: question.mode,
            place: question.place,
            label,
            iteration: self.iteration,
            timeout_ms: self.left().map(|left| left.as_millis() as u64),
            call_seconds: self.input.call_seconds,
            not_before: question.not_before,
            continues: question.continues,
            mock_accepts_at: self.input.mock_accepts_at,
            mock_questions: self.input.mock_questions.clone(),
        };
        self.asked += 1;
        self.begin(ASK, serde_json::to_value(input).unwrap_or_default());
        Err(Halt::Pending)
    }

    /// Asks a role until it answers, within the tries that the budget has.
    fn ask_again(&mut self, key: &str, question: impl Fn(&mut Self) -> Flow<Question>) -> Flow<Reply> {
        let mut number = 1;
        loop {
            let place = format!("{key}/a{number}");
            let not_before = (number > 1).then(|| self.retry_at(&format!("{key}/a{}", number - 1), number)).flatten();
            let asked = self.ask(&place, |walk| Ok(Question { not_before, ..question(walk)? }))?;
            match asked {
                Ok(reply) => return Ok(reply),
                Err(failed) if failed.is_final() || number > self.input.budget.max_task_retries => {
                    return Err(Halt::Stop(failed.error));
                }
                Err(_) => number += 1,
            }
        }
    }

    /// Asks a role for an answer of a certain form; once more when it has another form, and then it is an error.
    fn ask_for<T>(
        &mut self,
        key: &str,
        question: impl Fn(&mut Self) -> Flow<Question>,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Flow<T> {
        let first = self.ask_again(key, &question)?;
        let wrong = match parse(&first.output) {
            Ok(value) => return Ok(value),
            Err(wrong) => wrong,
        };
        let again = self.ask_again(&format!("{key}/repair"), |walk| {
            let question = question(walk)?;
            let prompt = format!(
                "{}\n\n# Your last answer\n\n{}\n\n# What is wrong with it\n\n{wrong}\n\nAnswer again, in exactly the form that was asked for, \
                 and with nothing else.",
                question.prompt,
                judge::clipped(&first.output, 8 * 1024)
            );
            Ok(Question { prompt, ..question })
        })?;
        parse(&again.output).map_err(|wrong| {
            let role = question(self).map_or("role", |question| question.role.as_str());
            let message = format!("the {role} gave no valid answer, also when asked again: {wrong}");
            Halt::Stop(RunError::new("bad_answer", message).with_hint("choose another model for this role"))
        })
    }

    /// When a step that failed is tried again: 2, 4, 8 … seconds after its end, at most a minute.
    fn retry_at(&self, key: &str, number: u32) -> Option<Timestamp> {
        let ended = self.state.steps.get(key)?.end.as_ref()?.at;
        let seconds = 2_u64.saturating_pow(number.saturating_sub(1)).min(60);
        Some(ended.after(Duration::from_secs(seconds)))
    }

    /// The time that is left, when it is limited.
    fn left(&self) -> Option<Duration> {
        let limit = Duration::from_secs(self.input.budget.max_seconds?);
        let used = self.state.began.map_or(Duration::ZERO, |began| self.now.since(began));
        Some(limit.saturating_sub(used).max(Duration::from_millis(1)))
    }

    /// Stops a goal whose budget is used up.
    fn guard(&self) -> Flow<()> {
        let budget = &self.input.budget;
        let used = self.state.began.map_or(Duration::ZERO, |began| self.now.since(began));
        let calls = self.state.agent_calls + self.asked;
        let limits = [
            budget
                .max_seconds
                .filter(|limit| used >= Duration::from_secs(*limit))
                .map(|limit| format!("max_seconds ({limit}s)")),
            budget.max_agent_calls.filter(|limit| calls >= *limit).map(|limit| format!("max_agent_calls ({limit})")),
            budget
                .max_tokens
                .filter(|limit| self.state.usage.total() >= *limit)
                .map(|limit| format!("max_tokens ({limit})")),
            budget
                .max_cost
                .filter(|limit| self.state.cost.0 >= *limit)
                .map(|limit| format!("max_cost ({})", drawloom_contract::money::Cost(limit).units())),
        ];
        match (limits.into_iter().flatten().next(), &self.state.unmetered) {
            (Some(limit), _) => Err(limited(&format!("{limit} reached"))),
            (None, Some(backend)) if budget.max_cost.is_some() => {
                Err(limited(&format!("max_cost cannot be kept: a call of {backend} did not report its cost")))
            }
            (None, _) => Ok(()),
        }
    }
}

/// The end of a goal by a guard.
fn limited(reason: &str) -> Halt {
    Halt::Stop(
        RunError::new("budget_limited", reason)
            .with_hint("raise the limit, or continue from the goal's branch with another goal"),
    )
}
