//! An answer of the Responses API.

use std::collections::HashMap;

use drawloom_contract::{
    model::{Deltas, Turn},
    record::StopReason,
    usage::Usage,
};
use drawloom_net::sse::Event;
use serde_json::{Value, json};

use super::request::Echo;
use crate::{
    draft::{Draft, Ending},
    fault::{FailKind, Fault},
    intake::{Progress, Reader, json, number, text},
};

/// A turn while it comes.
#[derive(Default)]
pub(super) struct Response {
    draft: Draft,
    usage: Usage,
    refusal: String,
    /// For each item, what of it came in pieces; the number of parts of its reasoning.
    items: HashMap<u64, Item>,
    end: Option<End>,
}

#[derive(Debug, Default)]
struct Item {
    came: bool,
    parts: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Completed,
    OutOfTokens,
    Filtered,
}

impl Response {
    fn item(&mut self, event: &Value) -> (u64, &mut Item) {
        let slot = number(event, "output_index").unwrap_or_default();
        (slot, self.items.entry(slot).or_default())
    }

    fn begin(&mut self, slot: u64, item: &Value) {
        match text(item, "type") {
            "function_call" if self.draft.call_id(slot).is_none() => {
                self.draft.begin_call(slot, text(item, "call_id"), text(item, "name"));
            }
            "reasoning" if !self.draft.has_thought(slot) => self.draft.begin_thought(slot),
            _ => {}
        }
    }

    fn think(&mut self, event: &Value, part: u64, deltas: &dyn Deltas) {
        let piece = text(event, "delta");
        let (slot, item) = self.item(event);
        let new_part = item.came && part > item.parts;
        (item.came, item.parts) = (true, part.max(item.parts));
        if new_part {
            self.draft.think(slot, "\n\n", deltas);
        }
        self.draft.think(slot, piece, deltas);
    }

    /// Takes a whole item. What came of it in pieces before is not taken twice.
    fn whole_item(&mut self, slot: u64, item: &Value, deltas: &dyn Deltas) {
        self.begin(slot, item);
        let came = self.items.entry(slot).or_default().came;
        self.items.entry(slot).or_default().came = true;
        let parts = |key: &str| item[key].as_array().cloned().unwrap_or_default();
        match text(item, "type") {
            "message" => {
                if !came {
                    for part in parts("content") {
                        self.draft.say(text(&part, "text"), deltas);
                        self.refusal.push_str(text(&part, "refusal"));
                    }
                }
                if let Some(echo) = Echo::of(item) {
                    self.draft.seal(slot, &echo.sealed());
                }
            }
            "reasoning" => {
                if !came {
                    let texts: Vec<String> = [parts("summary"), parts("content")]
                        .concat()
                        .iter()
                        .map(|part| text(part, "text").to_owned())
                        .filter(|text| !text.is_empty())
                        .collect();
                    self.draft.think(slot, &texts.join("\n\n"), deltas);
                }
                if let Some(echo) = Echo::of(item) {
                    self.draft.seal_thought(slot, echo.sealed());
                }
            }
            // The arguments of the whole item hold, however many pieces came.
            "function_call" => self.draft.set_arguments(slot, text(item, "arguments")),
            _ => {}
        }
    }

    /// `input_tokens` of the API includes cached tokens, ours does not. Reasoning tokens are part of the output tokens in both.
    fn count(&mut self, usage: &Value) {
        let Some(input) = number(usage, "input_tokens") else { return };
        let details = &usage["input_tokens_details"];
        let cached = number(details, "cached_tokens").unwrap_or(0);
        let written = number(details, "cache_write_tokens").unwrap_or(0);
        self.usage = Usage {
            input_tokens: input.saturating_sub(cached).saturating_sub(written),
            output_tokens: number(usage, "output_tokens").unwrap_or(0),
            cache_creation_input_tokens: written,
            cache_read_input_tokens: cached,
            reasoning_tokens: number(&usage["output_tokens_details"], "reasoning_tokens").unwrap_or(0),
        };
    }

    fn over(&mut self, answer: &Value) -> Result<(), Fault> {
        self.count(&answer["usage"]);
        self.end = Some(match text(answer, "status") {
            "incomplete" if text(&answer["incomplete_details"], "reason") == "content_filter" => End::Filtered,
            "incomplete" => End::OutOfTokens,
            "completed" | "" => End::Completed,
            "failed" => return Err(Fault::of_event(answer)),
            other => return Err(Fault::new(FailKind::Unavailable, format!("the response ended as {other:?}"))),
        });
        Ok(())
    }
}

impl Reader for Response {
    fn event(&mut self, event: &Event, deltas: &dyn Deltas) -> Result<Progress, Fault> {
        // Some servers end the stream as Chat Completions does.
        if event.data.trim().is_empty() || event.data.trim() == "[DONE]" {
            return Ok(Progress::Open);
        }
        let event = json(event)?;
        match text(&event, "type") {
            "response.output_item.added" => {
                let slot = self.item(&event).0;
                self.begin(slot, &event["item"]);
            }
            "response.output_item.done" => {
                let slot = self.item(&event).0;
                self.whole_item(slot, &event["item"], deltas);
            }
            "response.output_text.delta" => {
                self.item(&event).1.came = true;
                self.draft.say(text(&event, "delta"), deltas);
            }
            "response.refusal.delta" => {
                self.item(&event).1.came = true;
                self.refusal.push_str(text(&event, "delta"));
            }
            "response.reasoning_summary_text.delta" => {
                self.think(&event, number(&event, "summary_index").unwrap_or(0), deltas);
            }
            "response.reasoning_text.delta" => self.think(&event, number(&event, "content_index").unwrap_or(0), deltas),
            "response.function_call_arguments.delta" => {
                let slot = self.item(&event).0;
                self.draft.extend_call(slot, "", "", text(&event, "delta"));
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                self.over(&event["response"])?;
                return Ok(Progress::Over);
            }
            // Its code and message stand beside its type, which says only that it is an error.
            "error" if event.get("error").is_none_or(Value::is_null) => {
                let error = json!({ "error": { "code": event["code"], "message": event["message"] } });
                return Err(Fault::of_event(&error));
            }
            "error" => return Err(Fault::of_event(&event)),
            "" if event.get("error").is_some_and(|error| !error.is_null()) => return Err(Fault::of_event(&event)),
            // The ends of parts, tools of the provider's own, and what is added to the API later.
            _ => {}
        }
        Ok(Progress::Open)
    }

    fn whole(&mut self, answer: &Value, deltas: &dyn Deltas) -> Result<(), Fault> {
        let Some(items) = answer["output"].as_array() else { return Err(Fault::cut("the response has no output")) };
        for (slot, item) in (0..).zip(items) {
            self.whole_item(slot, item, deltas);
        }
        self.over(answer)
    }

    fn finish(self: Box<Self>) -> Result<Turn, Fault> {
        let Some(end) = self.end else { return Err(Fault::cut("the stream ended without `response.completed`")) };
        if !self.refusal.is_empty() {
            return Err(Fault::new(FailKind::Refused, self.refusal));
        }
        if end == End::Filtered {
            return Err(Fault::new(FailKind::Refused, "the response was stopped by the provider's content filter"));
        }
        let clipped = end == End::OutOfTokens;
        let (text, mut thoughts, calls) = self.draft.finish(if clipped { Ending::Clipped } else { Ending::Whole });
        thoughts.retain(|thought| !thought.text.is_empty() || thought.sealed.is_some());
        let stop_reason = match (clipped, calls.is_empty()) {
            (true, _) => StopReason::MaxTokens,
            (false, true) => StopReason::EndTurn,
            (false, false) => StopReason::ToolUse,
        };
        Ok(Turn { text, thoughts, calls, stop_reason, usage: self.usage, ..Turn::default() })
    }
}
