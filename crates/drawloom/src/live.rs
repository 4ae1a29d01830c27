//! A run's events, shown to people as they come: the model's words on stdout, everything else beside them.

mod describe;

use std::collections::BTreeMap;

use futures::StreamExt as _;
use indicatif::ProgressBar;
use serde_json::Value;

use drawloom_contract::record::Status;
use drawloom_wire::{
    events::{Event, Rebuilder},
    runs::RunResult,
};

use crate::{
    backend::Events,
    exit::{CommandError, Exit},
    output::{Format, Output, Style, count, duration, first_line, money, shown},
};

pub(crate) use describe::{clock_of, describe, tool_head, tool_line};

/// How much of a tool's input or result is shown, in columns, when the width of a line is unknown.
const GLIMPSE: usize = 100;

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

/// Shows the events of one run.
pub(crate) struct Live<'a> {
    output: &'a Output,
    words: Words,
    thinking: Thinking,
    rebuilder: Rebuilder,
    /// Bytes of the turn's text that are on the screen.
    shown: usize,
    /// Bytes of its reasoning that are.
    thought: usize,
    /// In the middle of which line the cursor stands.
    line: Line,
    /// Calls that are being made, by number.
    calls: BTreeMap<u64, String>,
    spinner: Option<ProgressBar>,
}

impl<'a> Live<'a> {
    /// Before the first event.
    pub(crate) fn new(output: &'a Output, words: Words, thinking: Thinking) -> Self {
        Self {
            output,
            words,
            thinking,
            rebuilder: Rebuilder::new(),
            shown: 0,
            thought: 0,
            line: Line::None,
            calls: BTreeMap::new(),
            spinner: None,
        }
    }

    /// Shows one event.
    pub(crate) fn show(&mut self, event: &Event) {
        self.rebuilder.apply(event);
        let data = event.json();
        match &*event.name {
            "started" | "retry" => self.busy("asking the model"),
            "thinking" if self.thinking == Thinking::Shown => self.show_thought(),
            "thinking" => self.busy("the model thinks"),
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
                self.busy_with_calls();
            }
            "tool_result" => {
                let head = data["call"].as_u64().and_then(|call| self.calls.remove(&call)).unwrap_or_default();
                let (mark, style) = match data["is_error"].as_bool() {
                    Some(true) => ("✗", Style::Bad),
                    _ => ("✓", Style::Good),
                };
                let line = tool_line(&head, &data);
                self.note(&format!("{} {}", self.output.beside(style, mark), self.output.beside(Style::Dim, &line)));
                if data["is_error"].as_bool() == Some(true) {
                    let said = first_line(data["text"].as_str().unwrap_or_default(), self.width());
                    self.note(&format!("  {}", self.output.beside(Style::Bad, &said)));
                }
                self.busy_with_calls();
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
        if event.name == "waiting" {
            let text = describe(event, "").map(|(_, text)| text).unwrap_or_default();
            self.busy(&text);
        }
    }

    /// Lets go of the screen.
    pub(crate) fn end(&mut self) {
        self.end_line();
        self.clear();
    }

    fn width(&self) -> usize {
        self.output.width().map_or(GLIMPSE, |width| width.saturating_sub(2))
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
            self.clear();
            self.output.write(&new);
            self.line = if new.ends_with('\n') { Line::None } else { Line::OfText };
            self.shown = length;
        }
    }

    fn show_thought(&mut self) {
        let text = self.rebuilder.thinking();
        if let Some(new) = text.get(self.thought..).filter(|new| !new.is_empty()) {
            let (new, length) = (shown(new), text.len());
            self.clear();
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
        self.clear();
        self.output.note(text);
    }

    fn busy_with_calls(&mut self) {
        match self.calls.len() {
            0 => self.busy("asking the model"),
            1 => {
                let head = self.calls.values().next().cloned().unwrap_or_default();
                self.busy(&head);
            }
            more => {
                let heads: Vec<&str> = self.calls.values().map(String::as_str).collect();
                let text = format!("{more} calls: {}", heads.join("; "));
                self.busy(&text);
            }
        }
    }

    fn busy(&mut self, with: &str) {
        if self.line != Line::None || !self.output.shows_progress() {
            return;
        }
        let output = self.output;
        self.spinner.get_or_insert_with(|| output.spinner()).set_message(with.to_owned());
    }

    fn clear(&mut self) {
        if let Some(spinner) = self.spinner.take() {
            spinner.finish_and_clear();
        }
    }
}

/// Shows every event until the last one, or until the output is closed.
pub(crate) async fn show_all(live: &mut Live<'_>, mut events: Events) -> Result<(), CommandError> {
    while let Some(event) = events.next().await {
        live.show(&event?);
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
    let (mark, style, exit) = match result.status {
        Status::Completed => ("✓", Style::Good, Exit::Done),
        Status::Cancelled => ("✗", Style::Notice, Exit::Failed),
        _ => ("✗", Style::Bad, Exit::Failed),
    };
    if output.format() == Format::Json {
        return exit;
    }
    let status = output.beside(style, &format!("{mark} {}", result.status.as_str()));
    output.note(format!("{status}  {}", output.beside(Style::Dim, &figures(result, currency))));
    for warning in &result.warnings {
        output.note(format!("{} {}", output.beside(Style::Notice, "warning:"), shown(warning)));
    }
    if let Some(error) = &result.error {
        output.note(format!("{} {} ({})", output.beside(Style::Bad, "error:"), shown(&error.message), error.code));
        if let Some(hint) = &error.hint {
            output.note(format!("{} {}", output.beside(Style::Notice, "hint:"), shown(hint)));
        }
    }
    exit
}

/// What a run took: time, tokens, money, and its id for later.
fn figures(result: &RunResult, currency: &str) -> String {
    let mut parts = Vec::new();
    parts.extend(result.timings.total_ms.map(duration));
    let usage = &result.usage;
    parts.push(format!("{} tokens ({} out)", count(usage.total()), count(usage.output_tokens)));
    parts.extend(result.cost.map(|cost| money(cost, currency)));
    if let Some(tree) = result.tree.filter(|tree| tree.tokens > usage.total()) {
        parts.push(format!("with all below it {} tokens", count(tree.tokens)));
        parts.extend(Some(tree.cost).filter(|cost| cost.0.0 > 0).map(|cost| money(cost, currency)));
    }
    parts.push(result.run_id.to_string());
    parts.join(" · ")
}
