//! A turn while it is being put together from pieces.

use std::collections::HashMap;

use drawloom_contract::{
    message::{Thought, ToolUse},
    model::{DeltaKind, Deltas},
};
use serde_json::{Map, Value};

/// Text, thoughts and calls so far. Pieces find their place by the provider's own number, the slot.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    text: String,
    thoughts: Vec<Thought>,
    calls: Vec<CallDraft>,
    /// The newest thought and the newest call of each slot: without them, finding a piece's place would take longer the
    /// longer the turn is.
    thoughts_by_slot: HashMap<u64, usize>,
    calls_by_slot: HashMap<u64, usize>,
}

#[derive(Debug)]
struct CallDraft {
    slot: u64,
    id: String,
    name: String,
    /// The arguments, as JSON text.
    raw: String,
}

/// How whole the last piece is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The model came to its end.
    Whole,
    /// It ran into its output limit: its last call may lack a part.
    Clipped,
}

impl Draft {
    /// Adds to the text.
    pub(crate) fn say(&mut self, piece: &str, deltas: &dyn Deltas) {
        if !piece.is_empty() {
            self.text.push_str(piece);
            deltas.push(DeltaKind::Text, piece);
        }
    }

    /// Whether nothing came at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty() && self.thoughts.is_empty() && self.calls.is_empty()
    }

    /// Whether anything was thought.
    pub(crate) fn has_thoughts(&self) -> bool {
        !self.thoughts.is_empty()
    }

    /// Begins a thought at `slot`, where the turn now is.
    pub(crate) fn begin_thought(&mut self, slot: u64) {
        let begun = !self.text.is_empty() || !self.calls.is_empty();
        let place = if begun { u32::try_from(self.calls.len() + 1).unwrap_or(u32::MAX) } else { 0 };
        self.thoughts_by_slot.insert(slot, self.thoughts.len());
        self.thoughts.push(Thought { place, ..Thought::default() });
    }

    /// Adds a thought that the provider keeps to itself.
    pub(crate) fn seal(&mut self, slot: u64, data: &str) {
        self.begin_thought(slot);
        if let Some(thought) = self.thoughts.last_mut() {
            thought.sealed = Some(data.to_owned());
        }
    }

    /// Adds what the provider wants back to the thought at `slot`, which begins when it is not there.
    pub(crate) fn seal_thought(&mut self, slot: u64, data: String) {
        self.thought(slot).sealed = Some(data);
    }

    /// Whether a thought began at `slot`.
    pub(crate) fn has_thought(&self, slot: u64) -> bool {
        self.thoughts_by_slot.contains_key(&slot)
    }

    /// Adds to the thought at `slot`, which begins when it is not there.
    pub(crate) fn think(&mut self, slot: u64, piece: &str, deltas: &dyn Deltas) {
        if !piece.is_empty() {
            self.thought(slot).text.push_str(piece);
            deltas.push(DeltaKind::Thinking, piece);
        }
    }

    /// Adds to the signature of the thought at `slot`.
    pub(crate) fn sign(&mut self, slot: u64, piece: &str) {
        if !piece.is_empty() {
            self.thought(slot).signature.get_or_insert_default().push_str(piece);
        }
    }

    fn thought(&mut self, slot: u64) -> &mut Thought {
        let at = match self.thoughts_by_slot.get(&slot) {
            Some(at) => *at,
            None => {
                self.begin_thought(slot);
                self.thoughts.len() - 1
            }
        };
        &mut self.thoughts[at]
    }

    /// Whether a call began at `slot`, and under which id.
    pub(crate) fn call_id(&self, slot: u64) -> Option<&str> {
        self.calls_by_slot.get(&slot).and_then(|at| self.calls.get(*at)).map(|call| call.id.as_str())
    }

    /// The slot of the last call.
    pub(crate) fn last_slot(&self) -> Option<u64> {
        self.calls.last().map(|call| call.slot)
    }

    /// Begins a call at `slot`.
    pub(crate) fn begin_call(&mut self, slot: u64, id: &str, name: &str) {
        self.calls_by_slot.insert(slot, self.calls.len());
        self.calls.push(CallDraft { slot, id: id.to_owned(), name: name.to_owned(), raw: String::new() });
    }

    /// Adds to the call at `slot`; what belongs to no call is dropped.
    pub(crate) fn extend_call(&mut self, slot: u64, id: &str, name: &str, arguments: &str) {
        if let Some(call) = self.calls_by_slot.get(&slot).and_then(|at| self.calls.get_mut(*at)) {
            if call.id.is_empty() {
                call.id.push_str(id);
            }
            if call.name.is_empty() {
                call.name.push_str(name);
            }
            call.raw.push_str(arguments);
        }
    }

    /// Sets the arguments of the call at `slot`.
    pub(crate) fn set_arguments(&mut self, slot: u64, arguments: &str) {
        if let Some(call) = self.calls_by_slot.get(&slot).and_then(|at| self.calls.get_mut(*at)) {
            arguments.clone_into(&mut call.raw);
        }
    }

    /// Whether no call breaks off in the middle.
    pub(crate) fn has_whole_calls(&self) -> bool {
        self.calls.iter().all(|call| call.raw.trim().is_empty() || is_json(&call.raw))
    }

    /// The whole: text, thoughts, calls.
    pub(crate) fn finish(mut self, ending: Ending) -> (String, Vec<Thought>, Vec<ToolUse>) {
        if ending == Ending::Clipped && self.calls.last().is_some_and(|call| !is_json(&call.raw)) {
            self.calls.pop();
        }
        let calls = self
            .calls
            .into_iter()
            .map(|call| ToolUse { id: call.id, name: call.name, input: input(call.raw) })
            .collect();
        (self.text, self.thoughts, calls)
    }
}

fn is_json(raw: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(raw).is_ok()
}

/// The input that `raw` spells. What is no JSON stays text, so that the tool refuses it and the model can do better.
fn input(raw: String) -> Value {
    if raw.trim().is_empty() {
        return Value::Object(Map::new());
    }
    match serde_json::from_str(&raw) {
        Ok(Value::Null) => Value::Object(Map::new()),
        Ok(value) => value,
        Err(_) => Value::String(raw),
    }
}

/// An input as an object, which is all that the APIs take back.
pub(crate) fn as_object(input: &Value) -> Value {
    match input {
        Value::Object(_) => input.clone(),
        other => Value::Object(Map::from_iter([("invalid_input".to_owned(), other.clone())])),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct NoDeltas;

    impl Deltas for NoDeltas {
        fn push(&self, _: DeltaKind, _: &str) {}
    }

    #[test]
    fn thoughts_know_where_they_stand() {
        let mut draft = Draft::default();
        draft.think(0, "first", &NoDeltas);
        draft.say("text", &NoDeltas);
        draft.seal(2, "sealed");
        draft.begin_call(3, "a", "Read");
        draft.think(4, "second", &NoDeltas);
        draft.begin_call(5, "b", "Read");
        let (_, thoughts, _) = draft.finish(Ending::Whole);
        assert_eq!(thoughts.iter().map(|thought| thought.place).collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn arguments_that_are_no_json_stay_text_and_a_clipped_call_is_dropped() {
        let draft = |raw: &str| {
            let mut draft = Draft::default();
            draft.begin_call(0, "a", "Read");
            draft.extend_call(0, "", "", raw);
            draft
        };
        let whole = |raw: &str| draft(raw).finish(Ending::Whole).2.remove(0).input;
        assert_eq!(whole(""), json!({}));
        assert_eq!(whole("null"), json!({}));
        assert_eq!(whole(r#"{"path": "#), json!(r#"{"path": "#));
        assert_eq!(whole(&"[".repeat(100_000)), json!("[".repeat(100_000)));
        assert_eq!(draft(r#"{"path": "#).finish(Ending::Clipped).2, []);
        assert_eq!(draft("").finish(Ending::Clipped).2, []);
        assert_eq!(draft("{}").finish(Ending::Clipped).2.len(), 1);
        assert_eq!(as_object(&json!("[1")), json!({ "invalid_input": "[1" }));
    }
}
