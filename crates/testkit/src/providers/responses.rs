//! OpenAI's Responses API, asked without state: what it rejects, and how it speaks.
//!
//! Each rule says where it was seen: `sdk` is the request types of OpenAI's official Python SDK, `guide` its documentation, and a
//! repository with a number an issue that shows the real server's words.

use std::collections::HashSet;

use drawloom_contract::time::Timestamp;
use serde_json::{Value, json};

use super::{Asked, Refusal, Reply, chat::bad, proof::proof};

/// sdk: `ResponseCreateParams`, without tools of the provider's own and without what needs stored responses.
const FIELDS: &[&str] = &[
    "model",
    "input",
    "instructions",
    "store",
    "stream",
    "stream_options",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "parallel_tool_calls",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "include",
    "user",
    "previous_response_id",
    "background",
];

/// sdk: the types of items, and what each may hold.
const ITEMS: &[(&str, &[&str])] = &[
    ("message", &["type", "id", "role", "content", "status", "phase"]),
    ("reasoning", &["type", "id", "summary", "content", "encrypted_content", "status"]),
    ("function_call", &["type", "id", "call_id", "name", "arguments", "status", "namespace", "caller", "async"]),
    ("function_call_output", &["type", "id", "call_id", "output", "status", "caller"]),
    ("item_reference", &["type", "id"]),
];

/// Whether a model thinks before it answers.
fn reasons(model: &str) -> bool {
    let families = ["o1", "o3", "o4", "gpt-5", "gpt-6"];
    families.iter().any(|family| model.starts_with(family)) && !model.contains("-chat")
}

fn thinks(asked: &Asked) -> bool {
    reasons(asked.model()) && asked.body["reasoning"]["effort"] != "none"
}

/// A reasoning item, encrypted: the server stores nothing and recognizes its own items by the proof. Clients never see the thought.
fn sealed(model: &str, id: &str, summary: &str, hidden: &str) -> String {
    format!("gAAA{}{hidden}==", proof(model, &format!("{id} {summary} {hidden}")))
}

/// Whether the content of a reasoning item is this model's own and unchanged.
fn is_own(model: &str, item: &Value, content: &str) -> bool {
    // The proof has 16 digits.
    let hidden = content.get("gAAA".len() + 16..content.len().saturating_sub(2)).unwrap_or_default();
    content == sealed(model, item["id"].as_str().unwrap_or_default(), &summary_of(item), hidden)
}

fn summary_of(item: &Value) -> String {
    let parts = item["summary"].as_array().map(Vec::as_slice).unwrap_or_default();
    parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
}

fn unknown(place: &str) -> Refusal {
    bad(format!("Unknown parameter: '{place}'.")).kind("unknown_parameter")
}

fn too_long(place: &str, most: usize, length: usize) -> Refusal {
    bad(format!("Invalid '{place}': string too long. Expected a string with maximum length {most}, but got a string with length {length} instead."))
        .kind("string_above_max_length")
}

/// Rejects what the real API rejects.
pub(super) fn check(asked: &Asked) -> Result<(), Refusal> {
    let body = asked.body.as_object().ok_or_else(|| bad("the body is not a JSON object"))?;
    if let Some(key) = body.keys().find(|key| !FIELDS.contains(&key.as_str())) {
        return Err(unknown(key));
    }
    if asked.model().is_empty() {
        return Err(bad("Missing required parameter: 'model'.").kind("missing_required_parameter"));
    }
    check_settings(asked)?;
    check_tools(&asked.body)?;
    let items = asked.items();
    for (at, item) in items.iter().enumerate() {
        check_item(at, item)?;
    }
    check_reasoning(asked, items)?;
    check_calls(items)
}

fn check_settings(asked: &Asked) -> Result<(), Refusal> {
    let body = &asked.body;
    let unsupported = |key: &str| {
        bad(format!("Unsupported parameter: '{key}' is not supported with this model.")).kind("unsupported_parameter")
    };
    // guide, conversation state: what was not stored cannot be referred to.
    if body["previous_response_id"].is_string() {
        return Err(bad("Previous response with id not found.").kind("previous_response_not_found"));
    }
    // guide, reasoning: a model that reasons takes no sampling; one that does not takes no settings of reasoning.
    let encrypted =
        body["include"].as_array().is_some_and(|list| list.iter().any(|one| one == "reasoning.encrypted_content"));
    if reasons(asked.model()) {
        for key in ["temperature", "top_p", "top_logprobs"] {
            if !body[key].is_null() && body[key] != 1 {
                return Err(unsupported(key));
            }
        }
    } else if !body["reasoning"]["effort"].is_null() || !body["reasoning"]["summary"].is_null() {
        return Err(unsupported("reasoning.effort"));
    } else if encrypted {
        // OpenHands/software-agent-sdk 1208.
        return Err(bad("Encrypted content is not supported with this model."));
    }
    let efforts = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];
    if body["reasoning"]["effort"].as_str().is_some_and(|effort| !efforts.contains(&effort)) {
        return Err(bad("Invalid value for 'reasoning.effort'.").kind("invalid_value"));
    }
    for key in body["reasoning"].as_object().into_iter().flat_map(|reasoning| reasoning.keys()) {
        if !["effort", "summary", "generate_summary", "context", "mode"].contains(&key.as_str()) {
            return Err(unknown(&format!("reasoning.{key}")));
        }
    }
    // vectorize-io/hindsight 58.
    if let Some(most @ ..16) = body["max_output_tokens"].as_u64() {
        return Err(bad(format!(
            "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got {most} instead."
        ))
        .kind("integer_below_min_value"));
    }
    // vybestack/llxprt-code 2135.
    match body["prompt_cache_key"].as_str().map(str::len) {
        Some(length @ 65..) => Err(too_long("prompt_cache_key", 64, length)),
        _ => Ok(()),
    }
}

/// sdk: `FunctionToolParam`. Its name is at the top, unlike in Chat Completions.
fn check_tools(body: &Value) -> Result<(), Refusal> {
    for (at, tool) in body["tools"].as_array().into_iter().flatten().enumerate() {
        if tool["name"].as_str().is_none_or(str::is_empty) {
            return Err(
                bad(format!("Missing required parameter: 'tools[{at}].name'.")).kind("missing_required_parameter")
            );
        }
        let fields = ["type", "name", "description", "parameters", "strict"];
        for key in tool.as_object().into_iter().flat_map(|tool| tool.keys()) {
            if !fields.contains(&key.as_str()) {
                return Err(unknown(&format!("tools[{at}].{key}")));
            }
        }
    }
    Ok(())
}

fn check_item(at: usize, item: &Value) -> Result<(), Refusal> {
    let place = format!("input[{at}]");
    let kind = item["type"].as_str().unwrap_or("message");
    let Some((_, fields)) = ITEMS.iter().find(|(known, _)| *known == kind) else {
        return Err(bad(format!("Invalid value: '{kind}'.")).kind("invalid_value"));
    };
    for key in item.as_object().into_iter().flat_map(|item| item.keys()) {
        if !fields.contains(&key.as_str()) {
            return Err(unknown(&format!("{place}.{key}")));
        }
    }
    let text = |key: &str| {
        item[key].as_str().ok_or_else(|| {
            bad(format!("Missing required parameter: '{place}.{key}'.")).kind("missing_required_parameter")
        })
    };
    match kind {
        "message" => check_message(&place, item),
        "reasoning" if !item["summary"].is_array() => {
            Err(bad(format!("Missing required parameter: '{place}.summary'.")).kind("missing_required_parameter"))
        }
        "function_call" => {
            text("name")?;
            let arguments = text("arguments")?;
            if !serde_json::from_str::<Value>(arguments).is_ok_and(|value| value.is_object()) {
                return Err(bad(format!("{place}: the arguments of a call are no JSON object.")));
            }
            // AnswerDotAI/fastllm 45.
            match text("call_id")?.len() {
                length @ 65.. => Err(too_long(&format!("{place}.call_id"), 64, length)),
                _ => Ok(()),
            }
        }
        "function_call_output" if !item["output"].is_string() && !item["output"].is_array() => {
            Err(bad(format!("Missing required parameter: '{place}.output'.")).kind("missing_required_parameter"))
        }
        // anomalyco/opencode 8987: without a store there is nothing to refer to.
        "item_reference" => Err(bad(format!(
            "Item with id '{}' not found. Items are not persisted when `store` is set to false.",
            text("id")?
        ))),
        _ => Ok(()),
    }
}

/// sdk: `EasyInputMessageParam` and `ResponseOutputMessageParam`.
fn check_message(place: &str, item: &Value) -> Result<(), Refusal> {
    let role = item["role"].as_str().unwrap_or_default();
    if !["user", "assistant", "system", "developer"].contains(&role) {
        return Err(bad(format!(
            "Invalid value: '{role}'. Supported values are: 'assistant', 'system', 'developer', and 'user'."
        ))
        .kind("invalid_value"));
    }
    let parts = match &item["content"] {
        Value::String(_) => return Ok(()),
        Value::Array(parts) => parts,
        _ => {
            return Err(
                bad(format!("Missing required parameter: '{place}.content'.")).kind("missing_required_parameter")
            );
        }
    };
    let kinds: &[&str] =
        if role == "assistant" { &["output_text", "refusal"] } else { &["input_text", "input_image", "input_file"] };
    for (part, value) in parts.iter().enumerate() {
        let kind = value["type"].as_str().unwrap_or_default();
        if !kinds.contains(&kind) {
            return Err(bad(format!("Invalid value: '{kind}' in {place}.content[{part}].")).kind("invalid_value"));
        }
        let url = value["image_url"].as_str().unwrap_or_default();
        if kind == "input_image" && !(url.starts_with("data:image/") || url.starts_with("https://")) {
            return Err(bad(format!("Invalid '{place}.content[{part}].image_url'.")).kind("invalid_value"));
        }
    }
    Ok(())
}

/// Reasoning is this model's own and unchanged, and stands before what it led to.
fn check_reasoning(asked: &Asked, items: &[Value]) -> Result<(), Refusal> {
    for (at, item) in items.iter().enumerate() {
        let id = item["id"].as_str().unwrap_or_default();
        let is_reasoning = item["type"] == "reasoning";
        if is_reasoning {
            match item["encrypted_content"].as_str() {
                // can1357/oh-my-pi 41.
                None => {
                    return Err(bad(format!(
                        "Item with id '{id}' not found. Items are not persisted when `store` is set to false. Try again with `store` \
                         set to true, or remove this item from your input."
                    )));
                }
                // openai/codex 8145.
                Some(content) if !is_own(asked.model(), item, content) => {
                    return Err(
                        bad("The encrypted content gAAA...== could not be verified.").kind("invalid_encrypted_content")
                    );
                }
                Some(_) => {}
            }
            // continuedev/continue 8933.
            let next = items.get(at + 1);
            let leads = next.is_some_and(|next| {
                ["reasoning", "function_call"].iter().any(|kind| next["type"] == *kind) || next["role"] == "assistant"
            });
            if !leads {
                return Err(bad(format!(
                    "Item '{id}' of type 'reasoning' was provided without its required following item."
                )));
            }
        }
        // earendil-works/pi 886, continuedev/continue 11994: an item that is named wants the reasoning that led to it.
        let named = [("fc_", "function_call"), ("msg_", "message")].into_iter().find_map(|(prefix, kind)| {
            let (reasoning, _) = id.strip_prefix(prefix)?.split_once('_')?;
            Some((kind, format!("rs_{reasoning}_0")))
        });
        if let Some((kind, reasoning)) = named.filter(|(kind, _)| item["type"] == *kind && id.ends_with("_r"))
            && !items[..at].iter().any(|before| before["id"] == reasoning.as_str())
        {
            return Err(bad(format!(
                "Item '{id}' of type '{kind}' was provided without its required 'reasoning' item: '{reasoning}'."
            )));
        }
    }
    Ok(())
}

/// Each call has one output after it, and each output a call before it (RooCodeInc/Roo-Code 12248, continuedev/continue 10092).
fn check_calls(items: &[Value]) -> Result<(), Refusal> {
    let mut open: HashSet<&str> = HashSet::new();
    for item in items {
        let id = item["call_id"].as_str().unwrap_or_default();
        match item["type"].as_str() {
            Some("function_call") => _ = open.insert(id),
            Some("function_call_output") if !open.remove(id) => {
                return Err(bad(format!("No tool call found for function call output with call_id {id}.")));
            }
            _ => {}
        }
    }
    match open.iter().min() {
        Some(id) => Err(bad(format!("No tool output found for function call {id}."))),
        None => Ok(()),
    }
}

/// The items of an answer.
fn output(asked: &Asked, reply: &Reply) -> Vec<Value> {
    let (model, number) = (asked.model(), asked.number);
    let thinks = thinks(asked);
    let shows = !asked.body["reasoning"]["summary"].is_null();
    let encrypted = asked.body["include"].to_string().contains("reasoning.encrypted_content");
    let mut items = Vec::new();
    let thoughts = [
        reply.thinking.as_ref().map(|text| if shows { (text.as_str(), "") } else { ("", "") }),
        reply.sealed.as_ref().map(|hidden| ("", hidden.as_str())),
    ];
    for (shown, hidden) in thoughts.into_iter().flatten().filter(|_| thinks) {
        let id = format!("rs_{number:08}_{}", items.len());
        let summary = if shown.is_empty() { json!([]) } else { json!([{ "type": "summary_text", "text": shown }]) };
        let content = encrypted.then(|| sealed(model, &id, shown, hidden));
        items.push(json!({ "id": id, "type": "reasoning", "summary": summary, "encrypted_content": content }));
    }
    // Items that reasoning led to are named so.
    let led = if items.is_empty() { "" } else { "_r" };
    // A limit that falls into the reasoning leaves nothing else.
    let is_cut = reply.stop.as_deref() == Some("max_output_tokens") && !items.is_empty();
    if !reply.text.is_empty() || (reply.calls.is_empty() && !is_cut) {
        let phase = if reply.calls.is_empty() { "final_answer" } else { "commentary" };
        let content = json!([{ "type": "output_text", "text": reply.text, "annotations": [], "logprobs": [] }]);
        let mut item = json!({
            "id": format!("msg_{number:08}_0{led}"), "type": "message", "role": "assistant", "status": "completed", "content": content,
        });
        // sdk: `ResponseOutputMessage.phase`; only of newer models.
        if reasons(model) {
            item["phase"] = phase.into();
        }
        items.push(item);
    }
    for (index, (name, arguments)) in reply.calls.iter().enumerate() {
        items.push(json!({
            "id": format!("fc_{number:08}_{index}{led}"), "type": "function_call", "status": "completed",
            "call_id": format!("call_r{number:08}_{index}"), "name": name, "arguments": arguments,
        }));
    }
    items
}

fn usage(asked: &Asked, reply: &Reply) -> Value {
    let reckoned = || [asked.body.to_string().len() as u64 / 4, reply.text.len() as u64 / 4 + 1, 0, 0];
    let [input, output, write, read] = reply.usage.unwrap_or_else(reckoned);
    let reasoning = if thinks(asked) { reply.reasoning_tokens(output) } else { 0 };
    json!({
        "input_tokens": input + write + read, "input_tokens_details": { "cached_tokens": read, "cache_write_tokens": write },
        "output_tokens": output, "output_tokens_details": { "reasoning_tokens": reasoning }, "total_tokens": input + write + read + output,
    })
}

fn envelope(asked: &Asked, now: Timestamp, status: &str, output: &[Value]) -> Value {
    json!({
        "id": format!("resp_{:016}", asked.number), "object": "response", "created_at": now.as_millis() / 1000, "status": status,
        "model": asked.model(), "output": output, "error": null, "incomplete_details": null, "instructions": asked.body["instructions"],
        "metadata": {}, "parallel_tool_calls": true, "temperature": 1.0, "top_p": 1.0, "tool_choice": "auto",
        "tools": asked.body.get("tools").cloned().unwrap_or_else(|| json!([])), "usage": null, "store": asked.body["store"],
    })
}

/// The whole answer.
pub(super) fn whole(asked: &Asked, reply: &Reply, now: Timestamp) -> Value {
    let reason = reply.stop.as_deref().filter(|stop| ["max_output_tokens", "content_filter"].contains(stop));
    let mut answer =
        envelope(asked, now, if reason.is_some() { "incomplete" } else { "completed" }, &output(asked, reply));
    answer["usage"] = usage(asked, reply);
    if let Some(reason) = reason {
        answer["incomplete_details"] = json!({ "reason": reason });
    }
    answer
}

/// The answer as a stream.
pub(super) fn stream(asked: &Asked, reply: &Reply, now: Timestamp) -> Vec<String> {
    let mut events = vec![
        json!({ "type": "response.created", "response": envelope(asked, now, "in_progress", &[]) }),
        json!({ "type": "response.in_progress", "response": envelope(asked, now, "in_progress", &[]) }),
    ];
    for (index, item) in output(asked, reply).iter().enumerate() {
        item_events(&mut events, reply, index, item);
    }
    let last = whole(asked, reply, now);
    let name = if last["status"] == "incomplete" { "response.incomplete" } else { "response.completed" };
    events.push(json!({ "type": name, "response": last }));
    let numbered = events.into_iter().enumerate().map(|(number, mut event)| {
        event["sequence_number"] = json!(number);
        format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default())
    });
    numbered.collect()
}

fn item_events(events: &mut Vec<Value>, reply: &Reply, index: usize, item: &Value) {
    let id = &item["id"];
    let at = |name: &str, mut event: Value| {
        event["type"] = format!("response.{name}").into();
        event["output_index"] = json!(index);
        event
    };
    let mut begun = item.clone();
    for (key, empty) in
        [("summary", json!([])), ("content", json!([])), ("arguments", json!("")), ("encrypted_content", json!(""))]
    {
        if !item[key].is_null() {
            begun[key] = empty;
        }
    }
    if item["status"].is_string() {
        begun["status"] = "in_progress".into();
    }
    events.push(at("output_item.added", json!({ "item": begun })));
    match item["type"].as_str() {
        Some("reasoning") => {
            for part in item["summary"].as_array().into_iter().flatten() {
                let empty = json!({ "type": "summary_text", "text": "" });
                events.push(at(
                    "reasoning_summary_part.added",
                    json!({ "item_id": id, "summary_index": 0, "part": empty }),
                ));
                for piece in reply.cut(part["text"].as_str().unwrap_or_default()) {
                    events.push(at(
                        "reasoning_summary_text.delta",
                        json!({ "item_id": id, "summary_index": 0, "delta": piece }),
                    ));
                }
                events.push(at(
                    "reasoning_summary_text.done",
                    json!({ "item_id": id, "summary_index": 0, "text": part["text"] }),
                ));
                events.push(at(
                    "reasoning_summary_part.done",
                    json!({ "item_id": id, "summary_index": 0, "part": part }),
                ));
            }
        }
        Some("function_call") => {
            for piece in reply.cut(item["arguments"].as_str().unwrap_or_default()) {
                events.push(at("function_call_arguments.delta", json!({ "item_id": id, "delta": piece })));
            }
            let done = json!({ "item_id": id, "name": item["name"], "arguments": item["arguments"] });
            events.push(at("function_call_arguments.done", done));
        }
        _ => {
            let part = &item["content"][0];
            let mut empty = part.clone();
            empty["text"] = "".into();
            events.push(at("content_part.added", json!({ "item_id": id, "content_index": 0, "part": empty })));
            for piece in reply.cut(part["text"].as_str().unwrap_or_default()) {
                let delta = json!({ "item_id": id, "content_index": 0, "delta": piece, "logprobs": [] });
                events.push(at("output_text.delta", delta));
            }
            let done = json!({ "item_id": id, "content_index": 0, "text": part["text"], "logprobs": [] });
            events.push(at("output_text.done", done));
            events.push(at("content_part.done", json!({ "item_id": id, "content_index": 0, "part": part })));
        }
    }
    events.push(at("output_item.done", json!({ "item": item })));
}
