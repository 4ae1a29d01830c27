//! OpenAI's own rules.

use serde_json::{Value, json};

use super::{
    Asked, Refusal,
    chat::{self, Calls, Voice, bad},
};

/// What a request may hold, as far as we know it.
const FIELDS: &[&str] = &[
    "model",
    "messages",
    "stream",
    "stream_options",
    "max_tokens",
    "max_completion_tokens",
    "temperature",
    "top_p",
    "frequency_penalty",
    "presence_penalty",
    "seed",
    "stop",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "reasoning_effort",
    "n",
    "user",
    "store",
    "metadata",
    "response_format",
    "service_tier",
];

/// Whether a model thinks before it answers.
fn reasons(model: &str) -> bool {
    let families = ["o1", "o3", "o4", "gpt-5", "gpt-6"];
    families.iter().any(|family| model.starts_with(family)) && !model.contains("-chat")
}

/// Rejects what the real API rejects.
pub(super) fn check(asked: &Asked) -> Result<(), Refusal> {
    chat::check_fields(asked, FIELDS)?;
    let body = &asked.body;
    let unsupported = |key: &str| bad(format!("Unsupported parameter: '{key}' is not supported with this model."));
    if reasons(asked.model()) {
        for key in ["max_tokens", "temperature", "top_p", "frequency_penalty", "presence_penalty", "stop"] {
            if !body[key].is_null() && body[key] != 1 {
                return Err(unsupported(key).kind("unsupported_parameter"));
            }
        }
    } else if !body["reasoning_effort"].is_null() {
        return Err(unsupported("reasoning_effort").kind("unsupported_parameter"));
    }
    if body["stop"].as_array().is_some_and(|stop| stop.len() > 4) {
        return Err(bad("Invalid 'stop': array too long. Expected an array with maximum length 4."));
    }
    chat::check(asked)
}

/// This API keeps reasoning to itself.
pub(super) fn voice(asked: &Asked) -> Voice {
    Voice {
        reasoning: None,
        reasoning_key: "reasoning_content",
        calls: Calls::InPieces,
        before: Vec::new(),
        counts: true,
        thinks: Some(reasons(asked.model()) && asked.body["reasoning_effort"] != "none"),
        count: |usage, [_, _, write, read]| {
            usage["prompt_tokens_details"] =
                json!({ "cached_tokens": read, "cache_write_tokens": write, "audio_tokens": 0 });
        },
    }
}

pub(super) fn models() -> Value {
    chat::models(&["gpt-6-sol", "gpt-4.1"])
}
