//! An answer of the Messages API.

use drawloom_contract::{
    model::{Deltas, Turn},
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

/// A turn while it comes.
#[derive(Default)]
pub(super) struct Messages {
    draft: Draft,
    usage: Usage,
    stop: Option<StopReason>,
    refusal: Option<String>,
    over: bool,
}

impl Reader for Messages {
    fn event(&mut self, event: &Event, deltas: &dyn Deltas) -> Result<Progress, Fault> {
        let event = json(event)?;
        let slot = number(&event, "index").unwrap_or_default();
        match text(&event, "type") {
            "message_start" => self.count(&event["message"]["usage"]),
            "content_block_start" => self.begin(slot, &event["content_block"], deltas),
            "content_block_delta" => self.extend(slot, &event["delta"], deltas),
            "message_delta" => {
                self.count(&event["usage"]);
                self.stop_at(&event["delta"]);
            }
            "message_stop" => {
                self.over = true;
                return Ok(Progress::Over);
            }
            "error" => return Err(Fault::of_event(&event)),
            // `ping`, the ends of blocks, and what is added to the API later.
            _ => {}
        }
        Ok(Progress::Open)
    }

    fn whole(&mut self, answer: &Value, deltas: &dyn Deltas) -> Result<(), Fault> {
        if text(answer, "type") != "message" {
            return Err(Fault::cut("the response is not a message"));
        }
        let blocks = answer["content"].as_array().map(Vec::as_slice).unwrap_or_default();
        for (slot, block) in (0..).zip(blocks) {
            self.begin(slot, block, deltas);
        }
        self.count(&answer["usage"]);
        self.stop_at(answer);
        self.over = true;
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Turn, Fault> {
        if let Some(refusal) = self.refusal {
            return Err(Fault::new(FailKind::Refused, refusal));
        }
        let stop = match self.stop {
            Some(stop) if self.over => stop,
            _ => return Err(Fault::cut("the stream ended without `message_stop`")),
        };
        let ending = if stop == StopReason::MaxTokens { Ending::Clipped } else { Ending::Whole };
        let (text, thoughts, calls) = self.draft.finish(ending);
        let stop_reason = match stop {
            // Some servers say `end_turn` although they call.
            StopReason::EndTurn if !calls.is_empty() => StopReason::ToolUse,
            StopReason::ToolUse if calls.is_empty() => StopReason::EndTurn,
            other => other,
        };
        Ok(Turn { text, thoughts, calls, stop_reason, usage: self.usage, ..Turn::default() })
    }
}

impl Messages {
    /// A block begins; an answer that is not streamed holds it whole.
    fn begin(&mut self, slot: u64, block: &Value, deltas: &dyn Deltas) {
        match text(block, "type") {
            "text" => self.draft.say(text(block, "text"), deltas),
            "thinking" => {
                self.draft.begin_thought(slot);
                self.draft.think(slot, text(block, "thinking"), deltas);
                self.draft.sign(slot, text(block, "signature"));
            }
            "redacted_thinking" => self.draft.seal(slot, text(block, "data")),
            "tool_use" => {
                self.draft.begin_call(slot, text(block, "id"), text(block, "name"));
                if let Some(input) = block["input"].as_object().filter(|input| !input.is_empty()) {
                    self.draft.extend_call(slot, "", "", &Value::Object(input.clone()).to_string());
                }
            }
            // Tools that the provider runs itself, which we do not ask for.
            _ => {}
        }
    }

    fn extend(&mut self, slot: u64, delta: &Value, deltas: &dyn Deltas) {
        match text(delta, "type") {
            "text_delta" => self.draft.say(text(delta, "text"), deltas),
            "thinking_delta" => self.draft.think(slot, text(delta, "thinking"), deltas),
            "signature_delta" => self.draft.sign(slot, text(delta, "signature")),
            "input_json_delta" => self.draft.extend_call(slot, "", "", text(delta, "partial_json")),
            _ => {}
        }
    }

    /// Counts are of the whole turn so far, so the newest are right.
    fn count(&mut self, usage: &Value) {
        let newest = |key, count: &mut u64| *count = number(usage, key).unwrap_or(*count);
        newest("input_tokens", &mut self.usage.input_tokens);
        newest("output_tokens", &mut self.usage.output_tokens);
        newest("cache_creation_input_tokens", &mut self.usage.cache_creation_input_tokens);
        newest("cache_read_input_tokens", &mut self.usage.cache_read_input_tokens);
        let details = &usage["output_tokens_details"];
        self.usage.reasoning_tokens = number(details, "thinking_tokens").unwrap_or(self.usage.reasoning_tokens);
    }

    fn stop_at(&mut self, delta: &Value) {
        self.stop = match text(delta, "stop_reason") {
            "" => self.stop,
            "max_tokens" | "model_context_window_exceeded" => Some(StopReason::MaxTokens),
            "stop_sequence" => Some(StopReason::StopSequence),
            "tool_use" => Some(StopReason::ToolUse),
            "refusal" => {
                let details = &delta["stop_details"];
                let said = [text(details, "explanation"), text(details, "category")];
                let said = said.into_iter().find(|said| !said.is_empty());
                self.refusal = Some(said.unwrap_or("no reason given").to_owned());
                Some(StopReason::EndTurn)
            }
            // `pause_turn` comes only with tools that the provider runs itself: what was said stands.
            _ => Some(StopReason::EndTurn),
        };
    }
}
