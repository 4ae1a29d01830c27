//! Anthropic's Messages API: what it rejects, and how it speaks.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{Asked, Refusal, Reply, asked::blocks, proof::proof};

/// Everything that a request may hold.
const FIELDS: &[&str] = &[
    "model",
    "messages",
    "max_tokens",
    "system",
    "stream",
    "temperature",
    "top_p",
    "top_k",
    "stop_sequences",
    "tools",
    "tool_choice",
    "thinking",
    "output_config",
    "metadata",
    "service_tier",
    "cache_control",
];

/// Families that think unless they are told not to.
const THINKERS: &[&str] = &["claude-fable", "claude-mythos", "claude-opus-5", "claude-sonnet-5", "claude-haiku-5"];

/// The proof that a thought is this model's and unchanged.
fn signature(model: &str, thought: &str) -> String {
    format!("sig{}", proof(model, thought))
}

fn sealed(model: &str, seed: &str) -> String {
    format!("{seed}.{}", signature(model, seed))
}

fn bad(message: impl Into<String>) -> Refusal {
    Refusal::new(400, message)
}

/// Rejects what the real API rejects.
pub(super) fn check(asked: &Asked) -> Result<(), Refusal> {
    let body = &asked.body;
    if asked.header("anthropic-version").is_none() {
        return Err(bad("anthropic-version: header is required"));
    }
    for key in body.as_object().ok_or_else(|| bad("the body is not a JSON object"))?.keys() {
        if !FIELDS.contains(&key.as_str()) {
            return Err(bad(format!("{key}: Extra inputs are not permitted")));
        }
    }
    if asked.model().is_empty() {
        return Err(bad("model: Field required"));
    }
    let Some(max_tokens) = body["max_tokens"].as_u64() else { return Err(bad("max_tokens: Field required")) };
    check_thinking(asked, max_tokens)?;
    check_messages(asked)?;
    let marks = body.to_string().matches("\"cache_control\":{").count();
    if marks > 4 {
        return Err(bad(format!("A maximum of 4 blocks with cache_control may be provided. Found {marks}.")));
    }
    Ok(())
}

fn check_thinking(asked: &Asked, max_tokens: u64) -> Result<(), Refusal> {
    let body = &asked.body;
    let budget = body["thinking"]["budget_tokens"].as_u64();
    match body["thinking"]["type"].as_str() {
        None | Some("adaptive" | "disabled") => return Ok(()),
        Some("enabled") => {}
        Some(other) => return Err(bad(format!("thinking.type: {other} is none of the types"))),
    }
    match budget {
        None => return Err(bad("thinking.enabled.budget_tokens: Field required")),
        Some(..1024) => {
            return Err(bad("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"));
        }
        Some(budget) if budget >= max_tokens => {
            return Err(bad("`max_tokens` must be greater than `thinking.budget_tokens`."));
        }
        Some(_) => {}
    }
    if body["temperature"].as_f64().is_some_and(|temperature| temperature != 1.0) {
        return Err(bad("`temperature` may only be set to 1 when thinking is enabled."));
    }
    if !body["top_k"].is_null() {
        return Err(bad("`top_k` must be unset when thinking is enabled."));
    }
    // The turn that goes on must begin with a thought.
    let messages = asked.messages();
    let goes_on = messages.last().is_some_and(|last| has(last, "tool_result"));
    let turn = messages.iter().enumerate().rev().find(|(_, message)| message["role"] == "assistant");
    if let (true, Some((at, turn))) = (goes_on, turn) {
        let first = blocks(&turn["content"]).first().and_then(|block| block["type"].as_str()).unwrap_or("text");
        if !["thinking", "redacted_thinking"].contains(&first) {
            return Err(bad(format!(
                "messages.{at}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `{first}`. When \
                 `thinking` is enabled, a final `assistant` message must start with a thinking block."
            )));
        }
    }
    Ok(())
}

fn has(message: &Value, kind: &str) -> bool {
    blocks(&message["content"]).iter().any(|block| block["type"] == kind)
}

fn ids<'a>(message: &'a Value, kind: &str, key: &str) -> Vec<&'a str> {
    let found = blocks(&message["content"]).iter().filter(|block| block["type"] == kind);
    found.filter_map(|block| block[key].as_str()).collect()
}

fn check_messages(asked: &Asked) -> Result<(), Refusal> {
    let messages = asked.messages();
    if messages.first().is_none_or(|first| first["role"] != "user") {
        return Err(bad("messages: first message must use the \"user\" role"));
    }
    if messages.last().is_some_and(|last| last["role"] == "assistant") {
        return Err(bad("This model does not support assistant message prefill."));
    }
    let mut seen = HashSet::new();
    let mut open: Vec<&str> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        if !["user", "assistant"].contains(&role) {
            return Err(bad(format!("messages.{at}.role: Input should be 'user' or 'assistant'")));
        }
        let results = ids(message, "tool_result", "tool_use_id");
        if let Some(stray) = results.iter().find(|id| !open.contains(id)) {
            return Err(bad(format!(
                "messages.{at}: unexpected `tool_use_id` found in `tool_result` blocks: {stray}. Each `tool_result` \
                 block must have a corresponding `tool_use` block in the previous message."
            )));
        }
        if let Some(lost) = open.iter().find(|id| !results.contains(id)) {
            return Err(bad(format!(
                "messages.{}: `tool_use` ids were found without `tool_result` blocks immediately after: {lost}.",
                at - 1
            )));
        }
        open = ids(message, "tool_use", "id");
        if let Some(twice) = open.iter().find(|id| !seen.insert(**id)) {
            return Err(bad(format!("messages.{at}: `tool_use` ids must be unique: {twice}")));
        }
        for (index, block) in blocks(&message["content"]).iter().enumerate() {
            check_block(asked.model(), role, block)
                .map_err(|problem| bad(format!("messages.{at}.content.{index}: {problem}")))?;
        }
        if message["content"] == "" || message["content"] == json!([]) {
            return Err(bad(format!("messages.{at}: all messages must have non-empty content")));
        }
    }
    Ok(())
}

fn check_block(model: &str, role: &str, block: &Value) -> Result<(), String> {
    let kind = block["type"].as_str().unwrap_or_default();
    let fits = match role {
        "user" => ["text", "image", "tool_result"].contains(&kind),
        _ => ["text", "thinking", "redacted_thinking", "tool_use"].contains(&kind),
    };
    if !fits {
        return Err(format!("`{kind}` is no block of a message of role `{role}`"));
    }
    let text = |key: &str| block[key].as_str().unwrap_or_default();
    match kind {
        "text" if text("text").trim().is_empty() => Err("text content blocks must contain non-whitespace text".into()),
        "thinking" if text("signature") != signature(model, text("thinking")) => {
            Err("Invalid `signature` in `thinking` block".into())
        }
        "redacted_thinking" => match text("data").rsplit_once('.') {
            Some((seed, proof)) if proof == signature(model, seed) => Ok(()),
            _ => Err("Invalid `data` in `redacted_thinking` block".into()),
        },
        "tool_use" if !block["input"].is_object() => Err("tool_use.input: Input should be a valid dictionary".into()),
        "tool_use" if text("id").is_empty() || text("id").contains(|c: char| !is_id(c)) => {
            Err("tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'".into())
        }
        "image" if text("type").is_empty() || block["source"]["media_type"].as_str().is_none() => {
            Err("image.source.media_type: Field required".into())
        }
        _ => Ok(()),
    }
}

fn is_id(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

fn thinks(asked: &Asked) -> bool {
    match asked.body["thinking"]["type"].as_str() {
        Some(kind) => kind != "disabled",
        None => THINKERS.iter().any(|family| asked.model().starts_with(family)),
    }
}

/// The blocks of a turn, whole.
fn content(asked: &Asked, reply: &Reply) -> Vec<Value> {
    let model = asked.model();
    let mut content = Vec::new();
    if thinks(asked) {
        if let Some(text) = &reply.thinking {
            content.push(json!({ "type": "thinking", "thinking": text, "signature": signature(model, text) }));
        }
        if let Some(seed) = &reply.sealed {
            content.push(json!({ "type": "redacted_thinking", "data": sealed(model, seed) }));
        }
    }
    if !reply.text.is_empty() {
        content.push(json!({ "type": "text", "text": reply.text }));
    }
    for (index, (name, arguments)) in reply.calls.iter().enumerate() {
        let input: Value = serde_json::from_str(arguments).unwrap_or_else(|_| json!({}));
        let id = format!("toolu_{:08}_{index}", asked.number);
        content.push(json!({ "type": "tool_use", "id": id, "name": name, "input": input }));
    }
    content
}

fn stop_reason(reply: &Reply) -> &str {
    reply.stop.as_deref().unwrap_or(if reply.calls.is_empty() { "end_turn" } else { "tool_use" })
}

fn usage(asked: &Asked, reply: &Reply) -> [u64; 4] {
    let reckoned = || [asked.body.to_string().len() as u64 / 4, reply.text.len() as u64 / 4 + 1, 0, 0];
    reply.usage.unwrap_or_else(reckoned)
}

/// The whole answer.
pub(super) fn whole(asked: &Asked, reply: &Reply) -> Value {
    let [input, output, write, read] = usage(asked, reply);
    json!({
        "id": format!("msg_{:016}", asked.number), "type": "message", "role": "assistant", "model": asked.model(),
        "content": content(asked, reply), "stop_reason": stop_reason(reply), "stop_sequence": null,
        "usage": {
            "input_tokens": input, "output_tokens": output, "cache_creation_input_tokens": write,
            "cache_read_input_tokens": read, "service_tier": "standard", "output_tokens_details": details(asked, reply),
        },
    })
}

/// How many of the output tokens were thought, when the model thinks.
fn details(asked: &Asked, reply: &Reply) -> Value {
    match thinks(asked) {
        true => json!({ "thinking_tokens": reply.reasoning_tokens(usage(asked, reply)[1]) }),
        false => Value::Null,
    }
}

fn event(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

/// The answer as a stream.
pub(super) fn stream(asked: &Asked, reply: &Reply) -> Vec<String> {
    let mut message = whole(asked, reply);
    message["content"] = json!([]);
    message["stop_reason"] = Value::Null;
    message["usage"]["output_tokens"] = json!(1);
    message["usage"]["output_tokens_details"] = Value::Null;
    let mut events = vec![event("message_start", &json!({ "type": "message_start", "message": message }))];
    for (index, mut block) in content(asked, reply).into_iter().enumerate() {
        let mut deltas = Vec::new();
        let mut empty = |key: &str| block[key].as_str().map(str::to_owned).inspect(|_| block[key] = json!(""));
        if let Some(thinking) = empty("thinking") {
            deltas.extend(reply.cut(&thinking).iter().map(|t| json!({ "type": "thinking_delta", "thinking": t })));
            let signature = empty("signature").unwrap_or_default();
            deltas.push(json!({ "type": "signature_delta", "signature": signature }));
        } else if let Some(text) = empty("text") {
            deltas.extend(reply.cut(&text).iter().map(|t| json!({ "type": "text_delta", "text": t })));
        } else if block["type"] == "tool_use" {
            block["input"] = json!({});
            let calls = index + reply.calls.len() - content(asked, reply).len();
            let raw = &reply.calls[calls].1;
            deltas.push(json!({ "type": "input_json_delta", "partial_json": "" }));
            deltas.extend(reply.cut(raw).iter().map(|t| json!({ "type": "input_json_delta", "partial_json": t })));
        }
        let start = json!({ "type": "content_block_start", "index": index, "content_block": block });
        events.push(event("content_block_start", &start));
        if index == 0 {
            events.push(event("ping", &json!({ "type": "ping" })));
        }
        for delta in deltas {
            let delta = json!({ "type": "content_block_delta", "index": index, "delta": delta });
            events.push(event("content_block_delta", &delta));
        }
        events.push(event("content_block_stop", &json!({ "type": "content_block_stop", "index": index })));
    }
    let end = json!({
        "type": "message_delta", "delta": { "stop_reason": stop_reason(reply), "stop_sequence": null },
        "usage": { "output_tokens": usage(asked, reply)[1], "output_tokens_details": details(asked, reply) },
    });
    events.push(event("message_delta", &end));
    events.push(event("message_stop", &json!({ "type": "message_stop" })));
    events
}

/// An error's body.
pub(super) fn error(refusal: &Refusal) -> Value {
    let kind = refusal.kind.as_deref().unwrap_or(match refusal.status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    });
    json!({ "type": "error", "error": { "type": kind, "message": refusal.message }, "request_id": "req_0" })
}

/// The list of models.
pub(super) fn models() -> Value {
    let model = |id: &str, title: &str| {
        json!({
            "type": "model", "id": id, "display_name": title, "created_at": "2026-09-22T00:00:00Z", "lifecycle": "active",
        })
    };
    json!({
        "data": [model("claude-opus-5-5", "Claude Opus 5.5"), model("claude-sonnet-4-5", "Claude Sonnet 4.5")],
        "has_more": false, "first_id": "claude-opus-5-5", "last_id": "claude-sonnet-4-5",
    })
}
