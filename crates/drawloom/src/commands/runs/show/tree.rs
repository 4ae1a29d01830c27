//! The runs below a run, as a tree.

use std::collections::BTreeMap;

use unicode_width::UnicodeWidthStr as _;

use drawloom_contract::ids::RunId;
use drawloom_wire::runs::{Amount, Include, ListRuns, RunResult};

use super::{CANCELLED, PARENT_ENDED, Shown, USUAL_WIDTH};
use crate::{
    connect::Connection,
    exit::CommandError,
    output::{Output, Style, assumed_money, columns, count, duration, first_line},
};

/// Runs of a tree that are shown at most.
const MOST_RUNS: usize = 500;

/// Columns of a prompt: with fewer it is left out, more are cut.
const LEAST_PROMPT: usize = 8;
const MOST_PROMPT: usize = 40;

/// The runs below a run, by parent.
#[derive(Default)]
pub(super) struct Tree {
    children: BTreeMap<RunId, Vec<RunResult>>,
    size: usize,
    /// Whether some are left out.
    cut: bool,
}

impl Tree {
    pub(super) async fn read(connection: &Connection, top: RunId) -> Result<Self, CommandError> {
        let mut tree = Self::default();
        let mut open = vec![top];
        while let Some(parent) = open.pop() {
            let include = vec![Include::Prompt, Include::ShortId];
            let ask = ListRuns { parent_run_id: Some(parent), limit: Some(200), include, ..ListRuns::default() };
            let page = connection.backend.call(&ask).await?;
            tree.cut |= page.next.is_some() || tree.size + page.runs.len() > MOST_RUNS;
            let mut children = page.runs;
            // In the order of the spawns, other than in a list; ids of one moment have no order.
            children.sort_by_key(|run| (run.parent_call, run.parent_index, run.run_id));
            children.truncate(MOST_RUNS - tree.size);
            tree.size += children.len();
            open.extend(children.iter().map(|child| child.run_id));
            if !children.is_empty() {
                tree.children.insert(parent, children);
            }
        }
        Ok(tree)
    }

    pub(super) fn runs(&self) -> impl Iterator<Item = &RunResult> {
        self.children.values().flatten()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.children.is_empty()
    }

    pub(super) fn is_cut(&self) -> bool {
        self.cut
    }

    /// Tokens, money and assumed money of a run and all that is shown below it.
    fn sums(&self, run: &RunResult) -> (u64, Option<Amount>, Option<Amount>) {
        let below = self.children.get(&run.run_id).into_iter().flatten().map(|child| self.sums(child));
        below.fold((run.usage.total(), run.cost, run.assumed_cost), |(tokens, cost, assumed), more| {
            (tokens.saturating_add(more.0), add(cost, more.1), add(assumed, more.2))
        })
    }
}

fn add(one: Option<Amount>, other: Option<Amount>) -> Option<Amount> {
    match (one, other) {
        (Some(Amount(one)), Some(Amount(other))) => Some(Amount(one + other)),
        (one, other) => one.or(other),
    }
}

/// The beginning of a run's prompt after two spaces, in at most `room` columns; nothing where it would say nothing.
fn quoted(run: &RunResult, room: usize) -> String {
    let prompt = run.prompt.as_deref().map(str::trim).filter(|prompt| !prompt.is_empty());
    let room = room.saturating_sub(4);
    match prompt.filter(|_| room >= LEAST_PROMPT) {
        Some(prompt) => format!("  \"{}\"", first_line(prompt, room.min(MOST_PROMPT))),
        None => String::new(),
    }
}

impl Shown {
    pub(super) fn show_branch(&self, output: &Output, run: &RunResult, before: &str, below: &str) {
        let (tokens, cost, assumed) = self.tree.sums(run);
        let is_top = run.run_id == self.run.run_id;
        let mut figures = vec![self.status(output, run)];
        figures.extend(run.timings.total_ms.map(duration));
        figures.push(format!("{} tokens", count(tokens)));
        figures.extend(cost.map(|cost| assumed_money(cost, assumed, &self.currency)));
        if self.tree.children.contains_key(&run.run_id) {
            let last = figures.last_mut().expect("there are tokens");
            last.push_str(" with children");
        }
        figures.extend(run.retry_of.map(|_| "a retry".to_owned()));
        let name = output.styled(Style::Bold, run.agent.as_str());
        let line = format!("{}{name}  {}", output.styled(Style::Dim, before), figures.join(", "));
        let id = run.short_id.clone().unwrap_or_else(|| run.run_id.to_string());
        let plain = before.width() + run.agent.as_str().width() + 2 + columns(&figures.join(", ")) + 2 + id.width();
        let width = output.width().unwrap_or(USUAL_WIDTH);
        match (is_top, plain <= width) {
            (true, _) => output.line(line),
            (false, true) => {
                let prompt = quoted(run, width - plain);
                output.line(format!("{line}  {}{prompt}", output.styled(Style::Dim, &id)));
            }
            (false, false) => {
                output.line(line);
                let prompt = quoted(run, width.saturating_sub(below.width() + 2 + id.width()));
                output.line(format!("{}{prompt}", output.styled(Style::Dim, &format!("{below}  {id}"))));
            }
        }
        if let Some(error) =
            run.error.as_ref().filter(|error| !is_top && error.code != CANCELLED && error.code != PARENT_ENDED)
        {
            let width = output.width().unwrap_or(USUAL_WIDTH).saturating_sub(below.chars().count() + 2);
            let text = first_line(&format!("{} ({})", error.message, error.code), width);
            output.line(format!("{}  {}", output.styled(Style::Dim, below), output.styled(Style::Bad, &text)));
        }
        if let Some(retry) = run.retried_as.filter(|_| !is_top) {
            output.line(output.styled(Style::Dim, &format!("{below}  retried as {retry}")));
        }
        let children = self.tree.children.get(&run.run_id).map(Vec::as_slice).unwrap_or_default();
        for (place, child) in children.iter().enumerate() {
            let (branch, onward) = if place + 1 == children.len() { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            self.show_branch(output, child, &format!("{below}{branch}"), &format!("{below}{onward}"));
        }
    }
}
