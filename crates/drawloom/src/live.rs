//! A run's events, shown to people as they come.

use futures::StreamExt as _;
use serde_json::Value;

use drawloom_wire::{
    events::{Event, Rebuilder},
    runs::RunResult,
};

use crate::{
    backend::Events,
    exit::{CommandError, Exit},
    output::{Format, Output, Style, first_line},
};

/// How much of a tool's input or result is shown.
const GLIMPSE: usize = 100;

/// What of the model's words is shown while it speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Words {
    /// Every piece as it comes.
    AsTheyCome,
    /// Turns, once they are whole.
    WholeTurns,
    /// None: the result comes at the end.
    None,
}

/// Shows events: the model's words on stdout, everything else beside them.
pub(crate) struct Live<'a> {
    output: &'a Output,
    words: Words,
    rebuilder: Rebuilder,
    /// Bytes of the turn's text that are on the screen.
    shown: usize,
}

impl<'a> Live<'a> {
    /// Before the first event.
    pub(crate) fn new(output: &'a Output, words: Words) -> Self {
        Self { output, words, rebuilder: Rebuilder::new(), shown: 0 }
    }

    /// Shows one event: as a line of JSON for programs, in words for people.
    pub(crate) fn show(&mut self, event: &Event) {
        if self.output.format() == Format::Json {
            let mut data = event.json();
            if let (Value::Object(fields), Some(id)) = (&mut data, event.id) {
                fields.insert("seq".into(), id.into());
            }
            return self.output.json_line(&data);
        }
        self.rebuilder.apply(event);
        match &*event.name {
            "text" if self.words == Words::AsTheyCome => self.show_text(),
            "message" => {
                if self.words != Words::None {
                    self.show_text();
                }
                self.end_line();
                self.shown = 0;
            }
            "turn_reset" => {
                self.end_line();
                self.shown = 0;
                let data = event.json();
                let message = data["error"]["message"].as_str().unwrap_or_default();
                self.beside(&format!("the turn failed and its text is taken back: {message}"));
            }
            "tool_call" => {
                let data = event.json();
                let name = data["tool_use"]["name"].as_str().unwrap_or_default();
                let input = first_line(&data["tool_use"]["input"].to_string(), GLIMPSE);
                self.beside(&format!("→ {name} {input}"));
            }
            "tool_result" => {
                let data = event.json();
                let mark = if data["is_error"].as_bool() == Some(true) { "✗" } else { "←" };
                self.beside(&format!("{mark} {}", first_line(data["text"].as_str().unwrap_or_default(), GLIMPSE)));
            }
            "waiting" => self.beside("… waiting"),
            "retry" => {
                let data = event.json();
                self.beside(&format!("trying again, attempt {}", data["retry"]["attempt"]));
            }
            _ => {}
        }
    }

    fn show_text(&mut self) {
        let text = self.rebuilder.text();
        if let Some(new) = text.get(self.shown..)
            && !self.rebuilder.has_gap()
        {
            self.output.write(new);
            self.shown = text.len();
        }
    }

    fn end_line(&self) {
        if self.shown > 0 && !self.rebuilder.text().ends_with('\n') {
            self.output.write("\n");
        }
    }

    fn beside(&self, text: &str) {
        self.output.note(self.output.styled(Style::Dim, text));
    }
}

/// Shows every event until the last one, or until nobody reads any more.
pub(crate) async fn show_all(output: &Output, words: Words, mut events: Events) -> Result<(), CommandError> {
    let mut live = Live::new(output, words);
    while let Some(event) = events.next().await {
        live.show(&event?);
        if output.is_closed() {
            break;
        }
    }
    Ok(())
}

/// How a run ended, in one line beside its text, and the exit code that it means.
pub(crate) fn summary(output: &Output, result: &RunResult) -> Exit {
    let (style, exit) = match result.status {
        drawloom_contract::record::Status::Completed => (Style::Good, Exit::Done),
        _ => (Style::Bad, Exit::Failed),
    };
    let took = result.timings.total_ms.map(|millis| format!(" after {}", duration(millis))).unwrap_or_default();
    let tokens = result.usage.total();
    output.note(format!(
        "{} {}{took}, {tokens} tokens",
        output.styled(style, result.status.as_str()),
        output.styled(Style::Dim, &result.run_id.to_string()),
    ));
    for warning in &result.warnings {
        output.note(format!("warning: {warning}"));
    }
    if let Some(error) = &result.error {
        output.note(format!("error: {} ({})", error.message, error.code));
        if let Some(hint) = &error.hint {
            output.note(format!("hint: {hint}"));
        }
    }
    exit
}

/// Milliseconds as people say them.
pub(crate) fn duration(millis: u64) -> String {
    match millis {
        0..1_000 => format!("{millis} ms"),
        1_000..60_000 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        _ => format!("{} min {} s", millis / 60_000, millis % 60_000 / 1_000),
    }
}
