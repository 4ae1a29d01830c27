//! Where a goal stands, in one line for those who wait for it.

use crate::{Story, result::GoalStatus};

impl Story {
    /// Subgoals of this iteration whose workers are at work, in the order of the plan.
    pub fn at_work(&self) -> Vec<String> {
        let place = format!("i{}", self.iteration());
        let Some(plan) = self.state.notes.get(&format!("{place}/plan")) else { return Vec::new() };
        let ids = plan.data["subgoals"].as_array().into_iter().flatten().filter_map(|subgoal| subgoal["id"].as_str());
        let is_at_work = |id: &&str| {
            let prefix = format!("{place}/w/{id}/");
            let mut steps = self.state.steps.range(prefix.clone()..).take_while(|(key, _)| key.starts_with(&prefix));
            steps.any(|(_, step)| step.input.get("role").is_some() && step.end.is_none())
        };
        ids.filter(is_at_work).map(str::to_owned).collect()
    }

    /// `iteration 1 of 4, execute: 2 workers at work (s1, s2)`
    pub fn progress(&self) -> String {
        let GoalStatus { phase, iteration, stop_reason, .. } = self.status();
        let most = match &self.state.input {
            Some(Ok(input)) => format!(" of {}", input.budget.max_iterations),
            _ => String::new(),
        };
        let mut text = if iteration == 0 { phase } else { format!("iteration {iteration}{most}, {phase}") };
        let at_work = if stop_reason.is_none() { self.at_work() } else { Vec::new() };
        match at_work.len() {
            0 => {}
            1 => text += &format!(": 1 worker at work ({})", at_work[0]),
            count => text += &format!(": {count} workers at work ({})", at_work.join(", ")),
        }
        text + &stop_reason.map(|reason| format!(", {reason}")).unwrap_or_default()
    }
}
