//! What a batch came to: a table, a summary, and the same for programs.

use std::collections::BTreeMap;

use drawloom_contract::{ids::BatchId, money::Amount, record::Status, usage::Usage};
use drawloom_wire::{batches::BatchStatus, runs::RunResult};
use serde_json::{Value, json};

use crate::output::{ASSUMED, Column, Output, Style, Text, assumed_money, count, duration, first_line};

const COLUMNS: [Column; 7] = [
    Column::new("#").right(),
    Column::new("agent").shrinks_to(6),
    Column::new("status"),
    Column::new("took").right(),
    Column::new("tokens").right().optional(1),
    Column::new("cost").right(),
    Column::new("result").shrinks_to(16),
];

/// A table of runs by index.
pub(crate) fn show(output: &Output, results: &[RunResult], currency: &str) {
    output.table(
        COLUMNS,
        results.iter().enumerate().map(|(place, run)| {
            let result = match (run.error.as_ref().filter(|_| run.status != Status::Cancelled), &run.final_text) {
                (Some(error), _) => Text::new(first_line(&error.message, 70)).style(Style::Bad),
                (None, Some(text)) => Text::new(first_line(text, 70)),
                (None, None) => Text::new(""),
            };
            [
                Text::new(run.index.map_or(place as u64, u64::from).to_string()),
                Text::new(run.agent.to_string()).style(Style::Bold),
                Text::status(run.status),
                Text::new(run.timings.total_ms.map(duration).unwrap_or_default()),
                Text::new(count(run.usage.total())),
                Text::new(run.cost.map(|cost| assumed_money(cost, run.assumed_cost, currency)).unwrap_or_default()),
                result,
            ]
        }),
    );
    tell_cancelled(output, results);
    if results.iter().any(|run| run.cost.is_some() && run.assumed_cost.is_some()) {
        output.note(output.beside(Style::Dim, ASSUMED));
    }
}

/// One line for each reason for which runs were cancelled.
fn tell_cancelled(output: &Output, results: &[RunResult]) {
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for error in results.iter().filter(|run| run.status == Status::Cancelled).filter_map(|run| run.error.as_ref()) {
        *reasons.entry(first_line(&error.message, 120)).or_default() += 1;
    }
    for (reason, runs) in reasons {
        let runs = if runs == 1 { "1 run".to_owned() } else { format!("{runs} runs") };
        output.note(format!("{runs} cancelled: {}", reason.trim_start_matches("the run was cancelled: ")));
    }
}

fn sum(amounts: impl Iterator<Item = Amount>) -> Option<Amount> {
    amounts.reduce(|sum, amount| Amount(sum.0 + amount.0))
}

/// What the whole batch came to.
pub(super) struct Outcome {
    /// The batches of the server, in the order of the runs.
    pub batches: Vec<BatchId>,
    /// The runs that were started, by their place.
    pub results: Vec<RunResult>,
    /// How many of them had ended before this command.
    pub already_done: usize,
    /// Runs that were not started, because the command was interrupted.
    pub not_started: usize,
    /// What cut answers short.
    pub warnings: Vec<String>,
    /// Whether a rerun of the same command continues this one.
    pub is_continued: bool,
}

impl Outcome {
    pub(super) fn is_completed(&self) -> bool {
        self.not_started == 0 && self.results.iter().all(|run| run.status == Status::Completed)
    }

    fn usage(&self) -> Usage {
        self.results.iter().fold(Usage::default(), |mut sum, run| {
            sum += run.usage;
            sum
        })
    }

    pub(super) fn cost(&self) -> Option<Amount> {
        sum(self.results.iter().filter_map(|run| run.cost))
    }

    /// How much of the cost is assumed.
    fn assumed_cost(&self) -> Option<Amount> {
        sum(self.results.iter().filter_map(|run| run.assumed_cost))
    }

    /// For programs: one list of results, in the order of the file.
    pub(super) fn to_json(&self) -> Value {
        let mut value = json!({
            "batch_ids": self.batches,
            "status": BatchStatus::of(self.results.iter().map(|run| run.status)),
            "results": self.results,
            "spawned": self.results.len(),
            "already_done": self.already_done,
            "not_started": self.not_started,
            "usage": self.usage(),
        });
        if let [batch] = self.batches.as_slice() {
            value["batch_id"] = json!(batch);
        }
        if let Some(cost) = self.cost() {
            value["cost"] = json!(cost);
        }
        if let Some(assumed) = self.assumed_cost() {
            value["assumed_cost"] = json!(assumed);
        }
        if !self.warnings.is_empty() {
            value["warnings"] = json!(self.warnings);
        }
        value
    }

    /// A line beside the table, and what to do about runs that did not complete.
    pub(super) fn summary(&self, output: &Output, currency: &str) {
        let total = self.results.len() + self.not_started;
        let completed = self.results.iter().filter(|run| run.status == Status::Completed).count();
        let (mark, style) = if self.is_completed() { ("✓", Style::Good) } else { ("✗", Style::Bad) };
        let mut parts =
            vec![format!("{completed} of {total} completed"), format!("{} tokens", count(self.usage().total()))];
        parts.extend(self.cost().map(|cost| assumed_money(cost, self.assumed_cost(), currency)));
        parts.push(match self.batches.as_slice() {
            [batch] => batch.to_string(),
            several => format!("{} batches", several.len()),
        });
        output.note(format!("{} {}", output.beside(style, mark), output.beside(Style::Dim, &parts.join(" · "))));
        if self.already_done > 0 {
            let done = format!("{} of {total} runs were already done", self.already_done);
            output.note(format!("{done}; --fresh starts all of them again"));
        }
        if self.not_started > 0 && self.is_continued {
            output.note(format!("{} runs were not started: run the same command again to continue", self.not_started));
        }
        if self.is_continued && completed < self.results.len() {
            output.note("--retry-failed starts the runs again that did not complete");
        }
    }
}
