//! DeepSeek's own rules: a turn that called tools wants its reasoning back. Unlike the real server, this one also knows
//! its own reasoning by a mark at its end, and rejects any other.

use drawloom_contract::time::Timestamp;
use serde_json::{Value, json};

use super::{
    Asked, Refusal, Reply,
    chat::{self, Calls, Voice, bad},
    proof::proof,
};

const FIELDS: &[&str] = &[
    "model",
    "messages",
    "stream",
    "stream_options",
    "max_tokens",
    "temperature",
    "top_p",
    "frequency_penalty",
    "presence_penalty",
    "stop",
    "tools",
    "tool_choice",
    "thinking",
    "reasoning_effort",
    "response_format",
    "logprobs",
    "top_logprobs",
];

/// Ends with whose it is. What is before may have been masked, which the real server does not see either.
fn mark(model: &str, thought: &str) -> String {
    format!("{thought} [{}]", proof(model, "reasoning"))
}

/// Whether `reasoning` is this model's own; nothing at all always is.
fn is_own(model: &str, reasoning: &str) -> bool {
    reasoning.is_empty() || reasoning.rsplit_once(" [").is_some_and(|(thought, _)| mark(model, thought) == reasoning)
}

fn thinks(asked: &Asked) -> bool {
    asked.body["thinking"]["type"] != "disabled" && asked.model() != "deepseek-chat"
}

/// Rejects what the real API rejects.
pub(super) fn check(asked: &Asked) -> Result<(), Refusal> {
    chat::check_fields(asked, FIELDS)?;
    chat::check(asked)?;
    let mut turns: Vec<&Value> = Vec::new();
    let mut called = false;
    let thinks = thinks(asked);
    for message in asked.messages().iter().chain([&json!({ "role": "user" })]) {
        if message["role"] == "user" {
            let missing = turns.iter().any(|turn| !turn["reasoning_content"].is_string());
            if thinks && called && missing {
                return Err(bad("The reasoning_content in the thinking mode must be passed back to the API."));
            }
            (turns, called) = (Vec::new(), false);
        }
        if message["role"] != "assistant" {
            continue;
        }
        turns.push(message);
        called |= !message["tool_calls"].is_null();
        let reasoning = message["reasoning_content"].as_str().unwrap_or_default();
        if !is_own(asked.model(), reasoning) {
            return Err(bad("The reasoning_content is not of this model."));
        }
    }
    Ok(())
}

fn voice(asked: &Asked, reply: &Reply) -> Voice {
    let reasoning = reply.thinking.as_deref().filter(|_| thinks(asked)).map(|thought| mark(asked.model(), thought));
    Voice {
        reasoning,
        reasoning_key: "reasoning_content",
        calls: Calls::InPieces,
        before: Vec::new(),
        counts: true,
        thinks: Some(thinks(asked)),
        count: |usage, [input, _, write, read]| {
            usage["prompt_cache_hit_tokens"] = json!(read);
            usage["prompt_cache_miss_tokens"] = json!(input + write);
            usage["prompt_tokens_details"] = json!({ "cached_tokens": read });
        },
    }
}

pub(super) fn whole(asked: &Asked, reply: &Reply, now: Timestamp) -> Value {
    chat::whole(asked, reply, &voice(asked, reply), now)
}

pub(super) fn stream(asked: &Asked, reply: &Reply, now: Timestamp) -> Vec<String> {
    chat::stream(asked, reply, &voice(asked, reply), now)
}

pub(super) fn models() -> Value {
    chat::models(&["deepseek-flash", "deepseek-v4-pro"])
}
