//! The events of a run and its children, shown to people as they come: the model's words on stdout, everything else beside them.
//!
//! On a terminal a board below the text has a line for each run that works. It is pure (`team.rs` folds events, `board.rs` makes
//! lines); `screen.rs` draws it.

mod activity;
pub(crate) mod board;
mod describe;
mod screen;
mod team;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, time::Duration};

use futures::StreamExt as _;
use serde_json::Value;
use unicode_width::UnicodeWidthStr as _;

use drawloom_contract::{
    failure::RunError,
    ids::RunId,
    record::Status,
    time::{Clock as _, Timestamp},
};
use drawloom_wire::{
    events::{Event, Rebuilder},
    runs::{Amount, RunResult},
};

use crate::{
    backend::Events,
    clock::SystemClock,
    exit::{CommandError, Exit},
    output::{ASSUMED, Format, Output, Style, assumed_money, count, duration, first_line, fit, shown},
};
use team::{Change, Member};

pub(crate) use activity::{ActivityLines, activity};
pub(crate) use describe::{describe, mark_of, tool_head, tool_line};
pub(crate) use screen::Screen;
pub(crate) use team::{Team, tokens_of};

/// How much of a tool's input or result is shown, in columns, when the width of a line is unknown.
const GLIMPSE: usize = 100;

/// How often the board is drawn.
const TICK: Duration = Duration::from_millis(100);

/// Failed children that the summary of a run names.
const NAMED_FAILURES: usize = 8;

/// What of the model's words is shown while it speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Words {
    /// Every piece as it comes.
    AsTheyCome,
    /// None: the result comes at the end.
    None,
}

/// Whether the model's reasoning is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Thinking {
    /// It is, dimmed.
    Shown,
    /// It is not.
    Hidden,
}

/// In the middle of which line the cursor stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    None,
    OfText,
    OfThought,
}

/// Shows the events of a run and of all runs below it.
pub(crate) struct Live<'a> {
    output: &'a Output,
    /// The run whose words are shown.
    lead: RunId,
    words: Words,
    thinking: Thinking,
    currency: String,
    rebuilder: Rebuilder,
    /// Bytes of the turn's text that are on the screen.
    shown: usize,
    /// Bytes of its reasoning that are.
    thought: usize,
    /// In the middle of which line the cursor stands.
    line: Line,
    /// Calls of the lead that are being made, by number.
    calls: BTreeMap<u64, String>,
    team: Team,
    activity: ActivityLines,
    screen: Screen<'a>,
}

impl<'a> Live<'a> {
    /// Before the first event of the run `lead`.
    pub(crate) fn new(output: &'a Output, lead: RunId, words: Words, thinking: Thinking, currency: String) -> Self {
        Self {
            output,
            lead,
            words,
            thinking,
            currency,
            rebuilder: Rebuilder::new(),
            shown: 0,
            thought: 0,
            line: Line::None,
            calls: BTreeMap::new(),
            team: Team::default(),
            activity: ActivityLines::default(),
            screen: Screen::new(output),
        }
    }

    /// Shows one event of the tree.
    pub(crate) fn show(&mut self, event: &Event, now: Timestamp) {
        let data = event.json();
        let change = self.team.apply(event, &data, now);
        let run = data["run_id"].as_str().and_then(|run| run.parse().ok());
        if event.name == "activity" {
            self.show_activity(run.unwrap_or(self.lead), &data);
        } else if run == Some(self.lead) {
            self.show_lead(event, &data);
        } else if let Some(change) = change {
            self.show_child(change, now);
        }
    }

    /// Shows what a run does now. On a terminal the board has it.
    fn show_activity(&mut self, run: RunId, data: &Value) {
        if !self.output.shows_progress() && self.activity.chooses(run, data) {
            let name = shown(data["agent"].as_str().unwrap_or_default());
            let said = first_line(&format!("{name}: {}", activity(data, &self.currency)), self.width());
            self.note(&format!("→ {}", self.output.beside(Style::Dim, &said)));
        }
    }

    /// Shows what became of a child. On a terminal the board has the others.
    fn show_child(&mut self, change: Change, now: Timestamp) {
        let (Change::Started(run) | Change::Ended(run)) = change;
        let Some(member) = self.team.find(run).cloned() else { return };
        let line = match change {
            Change::Started(_) if self.output.shows_progress() => return,
            Change::Started(_) => {
                let prompt = if member.prompt.is_empty() { String::new() } else { format!(": {}", member.prompt) };
                let said = format!("{} started as {run}{prompt}", shown(&member.agent));
                format!("▶ {}", self.output.beside(Style::Dim, &said))
            }
            Change::Ended(_) if member.ended_with_parent() => return,
            Change::Ended(_) if member.has_failed() => self.failure(&member, self.width()),
            Change::Ended(_) if self.output.shows_progress() => return,
            Change::Ended(_) => {
                let mut figures = vec![duration(member.took(now)), format!("{} tokens", count(member.tokens))];
                let assumed = member.is_assumed.then(Amount::default);
                figures.extend(member.cost.map(|cost| assumed_money(Amount(cost), assumed, &self.currency)));
                let said = format!("{} completed  {}", shown(&member.agent), figures.join(", "));
                format!("{} {}", self.output.beside(Style::Good, "✓"), self.output.beside(Style::Dim, &said))
            }
        };
        self.note(&line);
    }

    /// A child that failed, with its reason.
    fn failure(&self, member: &Member, width: usize) -> String {
        let end = member.end.as_ref();
        let status = end.map_or("failed", |end| end.status.as_str()).replace('_', " ");
        let reason = end.and_then(|end| end.reason.as_deref()).map(|reason| format!(": {reason}")).unwrap_or_default();
        let said = format!("✗ {} {status}{reason}", shown(&member.agent));
        self.output.beside(Style::Bad, &first_line(&said, width))
    }

    fn show_lead(&mut self, event: &Event, data: &Value) {
        self.rebuilder.apply(event);
        match &*event.name {
            "thinking" if self.thinking == Thinking::Shown => self.show_thought(),
            "text" if self.words == Words::AsTheyCome => self.show_text(),
            "message" => {
                if self.thinking == Thinking::Shown {
                    self.show_thought();
                }
                if self.words == Words::AsTheyCome {
                    self.show_text();
                }
                self.end_line();
                (self.shown, self.thought) = (0, 0);
            }
            "turn_reset" => {
                self.end_line();
                (self.shown, self.thought) = (0, 0);
            }
            "tool_call" => {
                let call = data["call"].as_u64().unwrap_or_default();
                self.calls.insert(call, tool_head(&data["tool_use"], self.width()));
            }
            "tool_result" => {
                let head = data["call"].as_u64().and_then(|call| self.calls.remove(&call)).unwrap_or_default();
                let (mark, style) = mark_of(data);
                let line = fit(&tool_line(&head, data), self.width());
                self.note(&format!("{} {}", self.output.beside(style, mark), self.output.beside(Style::Dim, &line)));
                if data["is_error"].as_bool() == Some(true) {
                    let said = first_line(data["text"].as_str().unwrap_or_default(), self.width());
                    self.note(&format!("  {}", self.output.beside(Style::Bad, &said)));
                }
            }
            _ => {}
        }
        // What else deserves a line of its own.
        let line = match &*event.name {
            "waiting" if data["on"].is_string() => true,
            "turn_reset" | "retry" | "provider_fallback" => true,
            name => drawloom_contract::record::Notice::ALL.iter().any(|notice| notice.as_str() == name),
        };
        if line && let Some((mark, text)) = describe(event, "") {
            let text = first_line(&text, self.width());
            self.note(&format!(
                "{} {}",
                self.output.beside(Style::Notice, mark),
                self.output.beside(Style::Dim, &text)
            ));
        }
    }

    /// Draws the board, unless the model is in the middle of a line.
    pub(crate) fn draw(&mut self, now: Timestamp) {
        if self.line == Line::None && self.output.shows_progress() && self.team.lead().is_some() {
            let lines = board::lines(&self.team, self.screen.size(), now, &self.currency);
            self.screen.draw(&lines);
        }
    }

    /// Lets go of the screen.
    pub(crate) fn end(&mut self) {
        self.end_line();
        self.screen.erase();
    }

    /// The child runs that did not complete, each with its reason and its id.
    pub(crate) fn tell_failures(&self) {
        let failed: Vec<&Member> = self.team.children().filter(|member| member.has_failed()).collect();
        for member in failed.iter().take(NAMED_FAILURES) {
            self.output.note(format!("  {}", self.failure(member, self.width().saturating_sub(2))));
            self.output.note(self.output.beside(Style::Dim, &format!("    drawloom runs show {}", member.run)));
        }
        if failed.len() > NAMED_FAILURES {
            let more = failed.len() - NAMED_FAILURES;
            self.output.note(format!("  + {more} more"));
        }
    }

    fn width(&self) -> usize {
        let columns = match self.output.shows_progress() {
            true => Some(self.screen.size().columns),
            false => self.output.width(),
        };
        columns.map_or(GLIMPSE, |width| width.saturating_sub(2))
    }

    fn show_text(&mut self) {
        let text = self.rebuilder.text();
        if let Some(new) = text.get(self.shown..).filter(|new| !new.is_empty())
            && !self.rebuilder.has_gap()
        {
            let (new, length) = (shown(new), text.len());
            if self.line == Line::OfThought {
                self.end_line();
            }
            self.screen.erase();
            self.output.write(&new);
            self.line = if new.ends_with('\n') { Line::None } else { Line::OfText };
            self.shown = length;
        }
    }

    fn show_thought(&mut self) {
        let text = self.rebuilder.thinking();
        if let Some(new) = text.get(self.thought..).filter(|new| !new.is_empty()) {
            let (new, length) = (shown(new), text.len());
            self.screen.erase();
            self.line = if self.output.think(&new) { Line::OfThought } else { Line::None };
            self.thought = length;
        }
    }

    fn end_line(&mut self) {
        match std::mem::replace(&mut self.line, Line::None) {
            Line::None => {}
            Line::OfText => self.output.write("\n"),
            Line::OfThought => self.output.note(""),
        }
    }

    fn note(&mut self, text: &str) {
        self.end_line();
        self.screen.erase();
        self.output.note(text);
    }
}

/// Shows every event until the last one, or until the output is closed.
pub(crate) async fn show_all(live: &mut Live<'_>, mut events: Events) -> Result<(), CommandError> {
    let clock = SystemClock;
    let mut due = clock.now();
    loop {
        let event = tokio::select! {
            // A board that is due is drawn also while events come without a pause.
            biased;
            () = clock.sleep_until(due), if live.output.shows_progress() => {
                live.draw(clock.wall());
                due = clock.now().after(TICK);
                continue;
            }
            event = events.next() => event,
        };
        let Some(event) = event else { break };
        live.show(&event?, clock.wall());
        if live.output.is_closed() {
            break;
        }
    }
    live.end();
    Ok(())
}

/// An event for programs: its data on one line, with its number.
pub(crate) fn event_json(event: &Event) -> Value {
    let mut data = event.json();
    if let (Value::Object(fields), Some(id)) = (&mut data, event.id) {
        fields.insert("seq".into(), id.into());
    }
    data
}

/// How a run ended, in one line beside its text, and the exit code that it means.
pub(crate) fn summary(output: &Output, result: &RunResult, currency: &str) -> Exit {
    let failed = result.tree.map_or(0, |tree| tree.failed_children);
    let (mark, style, exit) = match result.status {
        Status::Completed if failed > 0 => ("!", Style::Notice, Exit::Done),
        Status::Completed => ("✓", Style::Good, Exit::Done),
        Status::Cancelled => ("✗", Style::Notice, Exit::Failed),
        _ => ("✗", Style::Bad, Exit::Failed),
    };
    if output.format() == Format::Json {
        return exit;
    }
    let over = match (failed, result.tree.map_or(0, |tree| tree.children)) {
        // Its child runs ended with it.
        (0, _) | (_, 0) => String::new(),
        _ if result.status == Status::Cancelled => String::new(),
        (1, 1) => ", but its child run failed".to_owned(),
        (failed, children) => format!(", but {failed} of {children} child runs failed"),
    };
    let status = format!("{mark} {}{over}", result.status.as_str().replace('_', " "));
    let (first, more) = break_up(&figures(result, currency), status.width() + 2, output.width());
    output.note(format!("{}  {}", output.beside(style, &status), output.beside(Style::Dim, &first)));
    more.iter().for_each(|line| output.note(format!("  {}", output.beside(Style::Dim, line))));
    for warning in &result.warnings {
        output.note(format!("{} {}", output.beside(Style::Notice, "warning:"), shown(warning)));
    }
    // The status says that it was cancelled; the error is worth a line when it says more.
    let says_more = |error: &RunError| error.code != "cancelled" || error.message.contains(": ");
    if let Some(error) = result.error.as_ref().filter(|error| says_more(error)) {
        output.note(format!("{} {} ({})", output.beside(Style::Bad, "error:"), shown(&error.message), error.code));
        if let Some(hint) = &error.hint {
            output.note(format!("{} {}", output.beside(Style::Notice, "hint:"), shown(hint)));
        }
    }
    if result.assumed_cost.is_some() || result.tree.is_some_and(|tree| tree.assumed_cost.is_some()) {
        output.note(output.beside(Style::Dim, ASSUMED));
    }
    exit
}

/// What a run took: time, tokens, money, and its id for later.
fn figures(result: &RunResult, currency: &str) -> Vec<String> {
    let mut parts = Vec::new();
    parts.extend(result.timings.total_ms.map(duration));
    let usage = &result.usage;
    // Tokens without a price are estimated as well.
    let mark = if result.assumed_cost.is_some() { "~" } else { "" };
    parts.push(format!("{mark}{} tokens ({} out)", count(usage.total()), count(usage.output_tokens)));
    parts.extend(result.cost.map(|cost| assumed_money(cost, result.assumed_cost, currency)));
    if let Some(tree) = result.tree.filter(|tree| tree.children > 0) {
        let children = if tree.children == 1 { "1 child".to_owned() } else { format!("{} children", tree.children) };
        let cost = Some(tree.cost).filter(|cost| cost.0.0 > 0);
        let cost = cost.map(|cost| format!(", {}", assumed_money(cost, tree.assumed_cost, currency)));
        parts.push(format!("total incl. {children}: {} tokens{}", count(tree.tokens), cost.unwrap_or_default()));
    }
    parts.push(result.run_id.to_string());
    parts
}

/// Parts in lines of at most `width` columns, of which the first has `before` columns less.
fn break_up(parts: &[String], before: usize, width: Option<usize>) -> (String, Vec<String>) {
    let mut lines = vec![String::new()];
    for part in parts {
        let used = if lines.len() == 1 { before } else { 2 };
        let line = lines.last_mut().expect("there is always a line");
        let separator = if line.is_empty() { "" } else { " · " };
        match width.is_none_or(|width| used + line.width() + separator.width() + part.width() <= width) {
            true => line.extend([separator, part]),
            false => lines.push(part.clone()),
        }
    }
    let first = lines.remove(0);
    (first, lines)
}
