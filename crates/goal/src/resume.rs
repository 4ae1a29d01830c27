//! Going on from a goal that has ended: another goal with the same task, the same base and what is left of the budget, or more.

use std::time::Duration;

use drawloom_contract::{ids::RunId, record::Status};

use crate::{
    Story,
    request::{Budget, Continues, GoalInput, Interaction},
};

/// What the next goal may use, where that is not what is left.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct More {
    pub max_iterations: Option<u32>,
    pub max_seconds: Option<u64>,
    pub max_agent_calls: Option<u32>,
    pub max_tokens: Option<u64>,
    /// In billionths of the currency.
    pub max_cost: Option<u64>,
}

/// Why a goal cannot go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CannotGoOn {
    /// It has not ended, or cannot be read.
    NotEnded,
    /// It is done, and nothing was said that would change that.
    Completed,
    /// Its workers changed the user's checkout itself.
    InPlace,
    /// A limit is used up, and no more was given: its name.
    UsedUp(&'static str),
}

impl Story {
    /// The goal that goes on from this one, which is the run `run`.
    pub fn continued(&self, run: RunId, more: &More, say: Option<&str>) -> Result<GoalInput, CannotGoOn> {
        let (Some(Ok(input)), Some(outcome)) = (&self.state.input, self.outcome()) else {
            return Err(CannotGoOn::NotEnded);
        };
        let say = say.map(str::trim).filter(|text| !text.is_empty());
        if outcome.status == Status::Completed && say.is_none() {
            return Err(CannotGoOn::Completed);
        }
        if input.is_in_place() {
            return Err(CannotGoOn::InPlace);
        }
        let mut next = input.clone();
        next.budget = self.budget_left(&input.budget, more)?;
        let brief = self.state.notes.get("intake/end").map(|noted| &noted.data);
        let told = |name: &str| brief.and_then(|data| data[name].as_str()).unwrap_or_default().to_owned();
        if next.success_criteria.trim().is_empty() {
            next.success_criteria = told("success_criteria");
        }
        (next.interaction, next.confirm_plan) = (Interaction::Auto, false);
        if let Some(workspace) = &mut next.workspace {
            (workspace.uncommitted, workspace.continues) = (false, self.prepared().map(|_| run.to_string()));
        }
        next.continues = Some(Continues { run, feedback: self.feedback(say), clarifications: told("clarifications") });
        Ok(next)
    }

    /// What the loop would have told next, and what the user says.
    fn feedback(&self, say: Option<&str>) -> String {
        let ended = (1..=self.iteration()).rev().find_map(|number| self.state.notes.get(&format!("i{number}/end")));
        let last = ended.and_then(|noted| noted.data["feedback"].as_str()).filter(|text| !text.is_empty());
        let mut sections = Vec::new();
        if let Some(say) = say {
            sections.push(format!("## The user says\n{say}"));
        }
        sections.extend(last.map(str::to_owned));
        if sections.is_empty() {
            sections.push("An earlier run of this goal was stopped. Find out what is missing and finish it.".into());
        }
        sections.join("\n\n")
    }

    fn budget_left(&self, budget: &Budget, more: &More) -> Result<Budget, CannotGoOn> {
        let done = (1..=self.iteration()).filter(|number| self.state.notes.contains_key(&format!("i{number}/end")));
        let used = self.used_time();
        let (usage, cost) = self.spent();
        let left = |name, more: Option<u64>, limit: Option<u64>, used: u64| match (more, limit) {
            (Some(more), _) => Ok(Some(more)),
            (None, None) => Ok(None),
            (None, Some(limit)) => match limit.saturating_sub(used) {
                0 => Err(CannotGoOn::UsedUp(name)),
                left => Ok(Some(left)),
            },
        };
        let count = |value: Option<u64>| value.map(|value| u32::try_from(value).unwrap_or(u32::MAX));
        let iterations = left(
            "max_iterations",
            more.max_iterations.map(u64::from),
            Some(budget.max_iterations.into()),
            done.count() as u64,
        )?;
        let calls = left(
            "max_agent_calls",
            more.max_agent_calls.map(u64::from),
            budget.max_agent_calls.map(u64::from),
            self.state.agent_calls.into(),
        )?;
        Ok(Budget {
            max_iterations: count(iterations).unwrap_or(budget.max_iterations),
            max_seconds: left("max_seconds", more.max_seconds, budget.max_seconds, used.as_secs())?,
            max_agent_calls: count(calls),
            max_tokens: left("max_tokens", more.max_tokens, budget.max_tokens, usage.total())?,
            max_cost: left("max_cost", more.max_cost, budget.max_cost, cost.0)?,
            ..budget.clone()
        })
    }

    /// How long it took, or has taken until the last record.
    pub fn used_time(&self) -> Duration {
        match (self.state.began, self.last) {
            (Some(began), Some(last)) => last.since(began),
            _ => Duration::ZERO,
        }
    }

    /// The goal that this one goes on from.
    pub fn continues(&self) -> Option<RunId> {
        let input = self.state.input.as_ref()?.as_ref().ok()?;
        Some(input.continues.as_ref()?.run)
    }
}
