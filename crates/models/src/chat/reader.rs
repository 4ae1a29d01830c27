//! An answer in the Chat Completions format.

use drawloom_contract::{
    message::Thought,
    model::{Deltas, Turn},
    money::Cost,
    record::StopReason,
    usage::Usage,
};
use drawloom_net::sse::Event;
use serde_json::Value;

use crate::{
    draft::{Draft, Ending},
    fault::{FailKind, Fault},
    intake::{Progress, Reader, json, number, text},
};

/// The slot of the only thought; slots of calls are counted apart.
const THOUGHT: u64 = 0;

/// What a turn without reasoning means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reasoning {
    /// Nothing.
    Optional,
    /// The model thought nothing: an empty thought says so, because the provider wants it back.
    Expected,
}

/// A turn while it comes.
pub(crate) struct Completion {
    reasoning: Reasoning,
    draft: Draft,
    usage: Usage,
    cost: Option<Cost>,
    refusal: String,
    finish: Option<String>,
    /// `[DONE]` came.
    done: bool,
}

impl Completion {
    pub(crate) fn new(reasoning: Reasoning) -> Self {
        Self {
            reasoning,
            draft: Draft::default(),
            usage: Usage::default(),
            cost: None,
            refusal: String::new(),
            finish: None,
            done: false,
        }
    }

    fn choice(&mut self, choice: &Value, said: &Value, deltas: &dyn Deltas) {
        // The name differs from server to server.
        let thought = [text(said, "reasoning_content"), text(said, "reasoning")];
        if let Some(thought) = thought.into_iter().find(|thought| !thought.is_empty()) {
            self.draft.think(THOUGHT, thought, deltas);
        }
        self.draft.say(text(said, "content"), deltas);
        self.refusal.push_str(text(said, "refusal"));
        for call in said["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default() {
            self.call(call);
        }
        if let Some(finish) = choice["finish_reason"].as_str() {
            self.finish = Some(finish.to_owned());
        }
    }

    /// A piece of a call. It belongs to the call at its index; servers that leave the index out, or use it twice, begin
    /// another call with another id.
    fn call(&mut self, call: &Value) {
        let function = &call["function"];
        let (id, name) = (text(call, "id"), text(function, "name"));
        let next = || self.draft.last_slot().map_or(0, |slot| slot.saturating_add(1));
        let known = number(call, "index").filter(|slot| self.draft.call_id(*slot).is_some());
        let open = match number(call, "index") {
            Some(_) => known,
            None => self.draft.last_slot(),
        };
        let slot = match open {
            Some(slot) if id.is_empty() || self.draft.call_id(slot).is_none_or(|old| old.is_empty() || old == id) => {
                slot
            }
            Some(_) => {
                let slot = next();
                self.draft.begin_call(slot, id, name);
                slot
            }
            None => {
                let slot = number(call, "index").unwrap_or_else(next);
                self.draft.begin_call(slot, id, name);
                slot
            }
        };
        match &function["arguments"] {
            Value::String(piece) => self.draft.extend_call(slot, id, name, piece),
            Value::Object(whole) => self.draft.extend_call(slot, id, name, &Value::Object(whole.clone()).to_string()),
            _ => self.draft.extend_call(slot, id, name, ""),
        }
    }

    /// Tokens read from the cache are counted apart from those read anew.
    fn count(&mut self, usage: &Value) {
        let Some(prompt) = number(usage, "prompt_tokens") else { return };
        let details = &usage["prompt_tokens_details"];
        let cached = number(usage, "prompt_cache_hit_tokens").or_else(|| number(details, "cached_tokens")).unwrap_or(0);
        let written = number(details, "cache_write_tokens").unwrap_or(0);
        let fresh = prompt.saturating_sub(cached).saturating_sub(written);
        self.usage = Usage {
            input_tokens: number(usage, "prompt_cache_miss_tokens").unwrap_or(fresh),
            output_tokens: number(usage, "completion_tokens").unwrap_or(0),
            cache_creation_input_tokens: written,
            cache_read_input_tokens: cached,
            reasoning_tokens: number(&usage["completion_tokens_details"], "reasoning_tokens").unwrap_or(0),
        };
        self.cost = usage["cost"].as_f64().and_then(Cost::from_units);
    }
}

impl Reader for Completion {
    fn event(&mut self, event: &Event, deltas: &dyn Deltas) -> Result<Progress, Fault> {
        match event.data.trim() {
            "[DONE]" => {
                self.done = true;
                return Ok(Progress::Over);
            }
            "" => return Ok(Progress::Open),
            _ => {}
        }
        let chunk = json(event)?;
        if event.name == "error" || chunk.get("error").is_some_and(|error| !error.is_null()) {
            return Err(Fault::of_event(&chunk));
        }
        self.count(&chunk["usage"]);
        if let Some(choice) = chunk["choices"].get(0) {
            self.choice(choice, &choice["delta"], deltas);
        }
        Ok(Progress::Open)
    }

    fn whole(&mut self, answer: &Value, deltas: &dyn Deltas) -> Result<(), Fault> {
        let Some(choice) = answer["choices"].get(0) else { return Err(Fault::cut("the response has no choices")) };
        self.count(&answer["usage"]);
        self.choice(choice, &choice["message"], deltas);
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Turn, Fault> {
        let finish = match self.finish.take() {
            Some(finish) => finish,
            // Some servers leave the reason out; that they are done is enough, if they said something whole.
            None if self.done && !self.draft.is_empty() && self.draft.has_whole_calls() => "stop".to_owned(),
            None => return Err(Fault::cut("the stream ended without a `finish_reason`")),
        };
        if !self.refusal.is_empty() {
            return Err(Fault::new(FailKind::Refused, self.refusal));
        }
        match finish.as_str() {
            "content_filter" => {
                return Err(Fault::new(FailKind::Refused, "the response was stopped by the provider's content filter"));
            }
            "insufficient_system_resource" => {
                return Err(Fault::new(FailKind::Overloaded, "the provider ran out of capacity during the response"));
            }
            "error" => {
                return Err(Fault::new(FailKind::Unavailable, "the provider failed during the response"));
            }
            _ => {}
        }
        let clipped = finish == "length";
        let silent = self.reasoning == Reasoning::Expected && !self.draft.has_thoughts();
        let (text, mut thoughts, calls) = self.draft.finish(if clipped { Ending::Clipped } else { Ending::Whole });
        if silent {
            thoughts.push(Thought::default());
        }
        let stop_reason = match (clipped, calls.is_empty()) {
            (true, _) => StopReason::MaxTokens,
            (false, true) => StopReason::EndTurn,
            (false, false) => StopReason::ToolUse,
        };
        Ok(Turn { text, thoughts, calls, stop_reason, usage: self.usage, cost: self.cost, ..Turn::default() })
    }
}
