//! A goal at work, for people: its plan, its workers, verification and verdicts, as they come.

use drawloom_contract::ids::RunId;
use drawloom_wire::goals::GoalEvent;
use serde_json::Value;

use super::workers::{Target, Workers};
use crate::{
    commands::Session,
    connect::Connection,
    exit::CommandError,
    output::{Format, Style, count, first_line, fit},
};

/// The longest path in a line.
const LONGEST_PATH: usize = 160;

/// What is shown of a goal while it works.
pub(super) struct View<'a> {
    session: &'a Session,
    workers: Workers<'a>,
    phase: String,
    iteration: u32,
}

impl<'a> View<'a> {
    pub(super) async fn follow(
        session: &'a Session,
        connection: &Connection,
        goal: RunId,
        target: Target,
    ) -> Result<Self, CommandError> {
        let workers = Workers::follow(session, connection, goal, target).await?;
        Ok(Self { session, workers, phase: "intake".into(), iteration: 0 })
    }

    /// Waits for `work`, and shows meanwhile what the workers do.
    pub(super) async fn meanwhile<T>(&mut self, work: impl Future<Output = T>) -> T {
        let head = format!("iteration {} · {}", self.iteration, self.phase);
        self.workers.meanwhile(&head, work).await
    }

    /// Takes in an event, before it is shown.
    pub(super) fn apply(&mut self, event: &GoalEvent) {
        self.iteration = event.iteration;
        if event.kind == "phase_changed" {
            event.data["to"].as_str().unwrap_or_default().clone_into(&mut self.phase);
        }
        self.pause();
    }

    /// Shows an event.
    pub(super) fn show(&mut self, event: &GoalEvent) {
        self.apply(event);
        let output = &self.session.output;
        if output.format() == Format::Human {
            lines(event).iter().for_each(|(style, text)| output.note(output.beside(*style, text)));
        }
    }

    /// Removes what moves, so that something else can be printed.
    pub(super) fn pause(&mut self) {
        self.workers.erase();
    }
}

/// An event in lines.
pub(super) fn lines(event: &GoalEvent) -> Vec<(Style, String)> {
    let data = &event.data;
    let text = |name: &str| data[name].as_str().unwrap_or_default();
    let list = |name: &str| data[name].as_array().cloned().unwrap_or_default();
    match event.kind.as_str() {
        "worktree_ready" => {
            let mut lines = vec![(Style::Dim, format!("branch {} from {}", text("branch"), short(text("base"))))];
            lines.extend(
                list("warnings")
                    .iter()
                    .filter_map(Value::as_str)
                    .map(|warning| (Style::Notice, format!("warning: {warning}"))),
            );
            lines
        }
        "warning" => vec![(Style::Notice, format!("warning: {}", text("message")))],
        "intake_finished" => vec![(Style::Dim, format!("criteria: {}", first_line(text("success_criteria"), 160)))],
        "iteration_started" => {
            vec![(Style::Bold, format!("iteration {} of {}", event.iteration, data["max_iterations"]))]
        }
        "decomposed" => list("subgoals").iter().map(subgoal).collect(),
        "subagent_started" if data["attempt"].as_u64() > Some(1) => {
            vec![(Style::Notice, format!("  {} again (attempt {})", text("id"), data["attempt"]))]
        }
        "subagent_finished" => vec![(Style::Good, format!("  ✓ {}: {}", text("id"), first_line(text("preview"), 100)))],
        "subagent_failed" => vec![(Style::Bad, format!("  ✗ {}: {}", text("id"), first_line(text("error"), 160)))],
        "checkpoint" => {
            let (ignored, left): (Vec<Value>, Vec<Value>) =
                list("left_out").into_iter().partition(|left| left["reason"] == "ignored");
            let path = |left: &Value| fit(left["path"].as_str().unwrap_or_default(), LONGEST_PATH);
            let mut lines: Vec<(Style, String)> = left
                .iter()
                .map(|left| {
                    let reason = left["reason"].as_str().unwrap_or_default();
                    (Style::Notice, format!("    not committed: {} ({reason})", path(left)))
                })
                .collect();
            if let Some(first) = ignored.first() {
                let more = ignored.len() - 1;
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                lines.push((Style::Dim, format!("    not committed: {}{more} (ignored)", path(first))));
            }
            let changed = list("changed").len() as u64 + data["changed_more"].as_u64().unwrap_or_default();
            if changed > 0 {
                lines.insert(
                    0,
                    (
                        Style::Dim,
                        format!("    {}: {changed} file{} changed", text("id"), if changed == 1 { "" } else { "s" }),
                    ),
                );
            }
            lines
        }
        "conflict" => {
            vec![(Style::Notice, format!("  {} conflicts with other workers: {}", text("id"), names(&list("files"))))]
        }
        "verification" => list("results")
            .iter()
            .map(verified)
            .chain(
                list("refusals")
                    .iter()
                    .filter_map(Value::as_str)
                    .map(|refusal| (Style::Bad, format!("  refused: {refusal}"))),
            )
            .chain(
                list("warnings")
                    .iter()
                    .filter_map(Value::as_str)
                    .map(|warning| (Style::Notice, format!("  warning: {warning}"))),
            )
            .collect(),
        "review" => review(data),
        "iteration_finished" => vec![(Style::Dim, format!("  {}", counts(event)))],
        "worktree_finished" if !list("reasons").is_empty() => list("reasons")
            .iter()
            .filter_map(Value::as_str)
            .map(|reason| (Style::Notice, format!("  kept the checkout {}", first_line(reason, 160))))
            .collect(),
        "resumed" => vec![(Style::Notice, "resumed after the server stopped".into())],
        _ => Vec::new(),
    }
}

/// What an iteration came to, in numbers.
fn counts(event: &GoalEvent) -> String {
    let data = &event.data;
    let number = |name: &str| data[name].as_u64().unwrap_or_default();
    let mut parts = vec![format!("{} of {} subgoals done", number("subgoals_ok"), number("subgoals_total"))];
    if data["verification_ok"] == false {
        parts.push("verification failed".into());
    }
    if number("agent_calls") > 0 {
        parts.push(format!("{} calls so far", number("agent_calls")));
    }
    if number("tokens") > 0 {
        parts.push(format!("{} tokens", count(number("tokens"))));
    }
    if let Some(cost) = data["cost"].as_f64().filter(|cost| *cost > 0.0) {
        parts.push(format!("cost {cost:.2}"));
    }
    parts.join(" · ")
}

fn short(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}

fn names(list: &[Value]) -> String {
    list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
}

fn subgoal(subgoal: &Value) -> (Style, String) {
    let needs = subgoal["depends_on"].as_array().filter(|needs| !needs.is_empty());
    let needs = needs.map(|needs| format!(" (after {})", names(needs))).unwrap_or_default();
    let description = first_line(subgoal["description"].as_str().unwrap_or_default(), 100);
    (Style::Plain, format!("  • {}: {description}{needs}", subgoal["id"].as_str().unwrap_or_default()))
}

fn verified(result: &Value) -> (Style, String) {
    let name = result["name"].as_str().unwrap_or_default();
    match result["ok"].as_bool() {
        Some(true) => (Style::Good, format!("  verify ✓ {name}")),
        _ => {
            let how = match (result["exit_code"].as_i64(), result["error"].as_str()) {
                (Some(code), _) => format!("exit {code}"),
                (None, Some(error)) => first_line(error, 120),
                (None, None) => "no exit code".into(),
            };
            (Style::Bad, format!("  verify ✗ {name} ({how})"))
        }
    }
}

fn review(data: &Value) -> Vec<(Style, String)> {
    let passed = data["gates_passed"] == true && data["goal_complete"] == true;
    let verdict = match (data["gates_passed"] == true, data["goal_complete"] == true) {
        (true, true) => "accepted",
        (true, false) => "good, but not complete",
        (false, _) => "rejected",
    };
    let style = if passed { Style::Good } else { Style::Notice };
    let issues = data["issues"].as_array().cloned().unwrap_or_default();
    let issues = issues
        .iter()
        .filter_map(Value::as_str)
        .map(|issue| (Style::Plain, format!("    - {}", first_line(issue, 200))));
    std::iter::once((style, format!("  review: {verdict}"))).chain(issues).collect()
}
