//! A run's text, rebuilt from its events.

use serde_json::Value;

use crate::events::Event;

/// Follows a run's text through deltas, whole turns and turns taken back. However often the stream was cut and taken up
/// again, `final_text` ends as the run's own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rebuilder {
    turn: u64,
    text: String,
    thinking: String,
    gap: bool,
    last_whole: Option<String>,
}

impl Rebuilder {
    /// Before the first event.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in an event.
    pub fn apply(&mut self, event: &Event) {
        match &*event.name {
            "text" | "thinking" => self.delta(&event.name, &event.json()),
            "message" => {
                let data = event.json();
                self.begin(data["turn"].as_u64().unwrap_or(self.turn));
                self.text = text_of(&data, "text");
                self.thinking = text_of(&data, "thinking");
                self.gap = false;
                self.last_whole = Some(self.text.clone());
            }
            "turn_reset" => {
                self.turn = event.json()["turn"].as_u64().unwrap_or(self.turn);
                self.forget();
            }
            _ => {}
        }
    }

    fn delta(&mut self, name: &str, data: &Value) {
        self.begin(data["turn"].as_u64().unwrap_or(self.turn));
        let whole = if name == "text" { &mut self.text } else { &mut self.thinking };
        let offset = data["offset"].as_u64().and_then(|offset| usize::try_from(offset).ok()).unwrap_or(whole.len());
        if offset > whole.len() || !whole.is_char_boundary(offset) {
            // Pieces before this one went by while nobody listened; the turn's `message` brings them.
            self.gap = true;
            return;
        }
        whole.truncate(offset);
        whole.push_str(data["text"].as_str().unwrap_or_default());
    }

    fn begin(&mut self, turn: u64) {
        if turn != self.turn {
            self.turn = turn;
            self.forget();
        }
    }

    fn forget(&mut self) {
        self.text.clear();
        self.thinking.clear();
        self.gap = false;
    }

    /// The text of the last whole turn: `final_text`, once the run has ended.
    pub fn final_text(&self) -> Option<&str> {
        self.last_whole.as_deref()
    }

    /// The text of the turn in progress, as far as it is known.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The reasoning of the turn in progress, as far as it is known.
    pub fn thinking(&self) -> &str {
        &self.thinking
    }

    /// Whether pieces of the turn in progress are missing until its `message` comes.
    pub fn has_gap(&self) -> bool {
        self.gap
    }
}

fn text_of(data: &Value, key: &str) -> String {
    data[key].as_str().unwrap_or_default().into()
}
