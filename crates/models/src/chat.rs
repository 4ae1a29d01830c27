//! The Chat Completions format, which OpenAI made and many speak: what `openai` and `deepseek` have in common.

pub(crate) mod reader;

use drawloom_contract::{
    choice::Sampling,
    message::{Message, Part, ToolResult, ToolUse},
    model::TurnRequest,
    tool::ToolCard,
};
use serde_json::{Map, Value, json};

use crate::draft::as_object;

/// The body that every server of this format takes: model, messages, tools, a stream with usage at its end. `assistant`
/// may add to what the model said; it is told the message's place.
pub(crate) fn body(
    request: &TurnRequest,
    system_role: &str,
    assistant: &dyn Fn(usize, &mut Map<String, Value>),
) -> Map<String, Value> {
    let mut messages = Vec::new();
    if !request.system.is_empty() {
        messages.push(json!({ "role": system_role, "content": &*request.system }));
    }
    for (index, message) in request.messages.iter().enumerate() {
        match &**message {
            Message::User(parts) => messages.push(json!({ "role": "user", "content": content(parts) })),
            Message::Results(results) => messages.extend(results.iter().map(result)),
            Message::Assistant { text, calls, .. } => {
                let mut said = said(text, calls);
                assistant(index, &mut said);
                messages.push(Value::Object(said));
            }
        }
    }
    let mut body = Map::new();
    body.insert("model".into(), request.model.clone().into());
    body.insert("messages".into(), messages.into());
    body.insert("stream".into(), true.into());
    body.insert("stream_options".into(), json!({ "include_usage": true }));
    if !request.tools.is_empty() {
        body.insert("tools".into(), request.tools.iter().map(tool).collect());
    }
    body
}

/// What the user says: plain text where it is only that, which every server takes.
fn content(parts: &[Part]) -> Value {
    match parts {
        [Part::Text(text)] => text.clone().into(),
        parts => parts
            .iter()
            .map(|part| match part {
                Part::Text(text) => json!({ "type": "text", "text": text }),
                Part::Image { media_type, data } => {
                    json!({ "type": "image_url", "image_url": { "url": format!("data:{media_type};base64,{data}") } })
                }
            })
            .collect(),
    }
}

/// The text of a result. OpenAI's formats have no mark for a failed call, so the text says it.
pub(crate) fn output(result: &ToolResult) -> String {
    if result.is_error { format!("The call failed: {}", result.text) } else { result.text.to_string() }
}

fn result(result: &ToolResult) -> Value {
    json!({ "role": "tool", "tool_call_id": result.id, "content": output(result) })
}

fn said(text: &str, calls: &[ToolUse]) -> Map<String, Value> {
    let mut said = Map::new();
    said.insert("role".into(), "assistant".into());
    let content = if text.is_empty() && !calls.is_empty() { Value::Null } else { text.into() };
    said.insert("content".into(), content);
    if !calls.is_empty() {
        let calls = calls.iter().map(|call| {
            let arguments = as_object(&call.input).to_string();
            json!({ "id": call.id, "type": "function", "function": { "name": call.name, "arguments": arguments } })
        });
        said.insert("tool_calls".into(), calls.collect());
    }
    said
}

fn tool(card: &ToolCard) -> Value {
    json!({
        "type": "function",
        "function": { "name": card.name, "description": card.description, "parameters": *card.input_schema },
    })
}

/// Adds what the format has for picking words.
pub(crate) fn sampling(body: &mut Map<String, Value>, sampling: &Sampling) {
    let numbers = [
        ("temperature", &sampling.temperature),
        ("top_p", &sampling.top_p),
        ("frequency_penalty", &sampling.frequency_penalty),
        ("presence_penalty", &sampling.presence_penalty),
    ];
    for (key, number) in numbers {
        if let Some(number) = number {
            body.insert(key.into(), Value::Number(number.clone()));
        }
    }
}

/// Adds the texts that end a turn.
pub(crate) fn stops(body: &mut Map<String, Value>, sampling: &Sampling) {
    if let Some(stop) = &sampling.stop {
        body.insert("stop".into(), json!(stop));
    }
}
