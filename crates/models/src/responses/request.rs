//! A turn, as the Responses API wants it asked.
//!
//! Items carry no ids: the provider stored none of them, and an item of another provider has none that it would take. Only reasoning goes
//! back as it came.

use std::borrow::Cow;

use drawloom_contract::{
    ids::Digest,
    message::{Message, Part, Thought, ToolResult, ToolUse},
    model::TurnRequest,
    tool::ToolCard,
};
use serde_json::{Map, Value, json};

use crate::{
    chat,
    config::{Options, Summary},
    draft::as_object,
    known::{Known, SamplingSupport, Thinking},
};

/// The fewest output tokens that the API takes.
const LEAST_OUTPUT: u32 = 16;

/// The longest id of a call that the API takes.
const LONGEST_ID: usize = 64;

pub(super) fn write(request: &TurnRequest, known: &Known, options: &Options) -> Value {
    let thinks = known.thinking != Thinking::Never;
    let mut body = Map::new();
    body.insert("model".into(), request.model.clone().into());
    if !request.system.is_empty() {
        body.insert("instructions".into(), (*request.system).into());
    }
    body.insert("input".into(), input(request, thinks).into());
    body.insert("store".into(), false.into());
    body.insert("stream".into(), true.into());
    body.insert("max_output_tokens".into(), request.max_tokens.max(LEAST_OUTPUT).into());
    if known.cache {
        // Turns of one tree begin alike; a common key leads them to the same cache.
        body.insert("prompt_cache_key".into(), request.root.to_string().into());
    }
    if !request.tools.is_empty() {
        body.insert("tools".into(), request.tools.iter().map(tool).collect());
        if let Some(parallel) = known.parallel_calls {
            body.insert("parallel_tool_calls".into(), parallel.into());
        }
    }
    if thinks {
        body.insert("include".into(), json!(["reasoning.encrypted_content"]));
        let mut reasoning = Map::new();
        if let Some(effort) = request.effort {
            reasoning.insert("effort".into(), effort.as_str().into());
        }
        if let Some(summary) = options.reasoning_summary.unwrap_or(Summary::Auto).name() {
            reasoning.insert("summary".into(), summary.into());
        }
        if !reasoning.is_empty() {
            body.insert("reasoning".into(), reasoning.into());
        }
    } else if known.thinking_disabled {
        body.insert("reasoning".into(), json!({ "effort": "none" }));
    }
    if known.sampling != SamplingSupport::None {
        let sampling = &request.sampling;
        for (key, number) in [("temperature", &sampling.temperature), ("top_p", &sampling.top_p)] {
            if let Some(number) = number {
                body.insert(key.into(), Value::Number(number.clone()));
            }
        }
    }
    Value::Object(body)
}

fn input(request: &TurnRequest, thinks: bool) -> Vec<Value> {
    let mut items = Vec::new();
    for message in &request.messages {
        match &**message {
            Message::User(parts) => items.push(json!({ "type": "message", "role": "user", "content": content(parts) })),
            Message::Results(results) => items.extend(results.iter().map(result)),
            Message::Assistant { text, thoughts, calls } => {
                said(&mut items, text, if thinks { thoughts } else { &[] }, calls);
            }
        }
    }
    items
}

/// What the user says: plain text where it is only that.
fn content(parts: &[Part]) -> Value {
    match parts {
        [Part::Text(text)] => text.clone().into(),
        parts => parts
            .iter()
            .map(|part| match part {
                Part::Text(text) => json!({ "type": "input_text", "text": text }),
                Part::Image { media_type, data } => {
                    let url = format!("data:{media_type};base64,{data}");
                    json!({ "type": "input_image", "image_url": url, "detail": "auto" })
                }
            })
            .collect(),
    }
}

fn result(result: &ToolResult) -> Value {
    json!({ "type": "function_call_output", "call_id": id(&result.id), "output": chat::output(result) })
}

/// What the model said: its reasoning at its places, its text, its calls. Reasoning must be followed by what it led to, so the reasoning
/// of a call that never came whole is left out.
fn said(items: &mut Vec<Value>, text: &str, thoughts: &[Thought], calls: &[ToolUse]) {
    let echoes: Vec<(u32, Value)> =
        thoughts.iter().filter_map(|thought| Some((thought.place, Echo::read(thought.sealed.as_ref()?)?.0))).collect();
    let at = |wanted: u32| {
        echoes
            .iter()
            .filter(move |(place, item)| *place == wanted && item["type"] == "reasoning")
            .map(|(_, item)| item.clone())
    };
    let leads_somewhere = !text.is_empty() || !calls.is_empty();
    if leads_somewhere {
        items.extend(at(0));
    }
    if !text.is_empty() || !leads_somewhere {
        let mut message = json!({ "type": "message", "role": "assistant", "content": text });
        let phase = echoes.iter().find_map(|(_, item)| item.get("phase").filter(|_| item["type"] == "message"));
        if let (Some(phase), Some(message)) = (phase, message.as_object_mut()) {
            message.insert("phase".into(), phase.clone());
        }
        items.push(message);
    }
    for (place, call) in (1..).zip(calls) {
        items.extend(at(place));
        let arguments = as_object(&call.input).to_string();
        items.push(json!({
            "type": "function_call", "call_id": id(&call.id), "name": call.name, "arguments": arguments,
        }));
    }
}

/// What an item of an answer leaves to be sent back: reasoning whole, of a message only what is not its text. It is kept as a sealed
/// thought.
pub(super) struct Echo(Value);

impl Echo {
    /// Of an item of an answer, if it leaves anything.
    pub(super) fn of(item: &Value) -> Option<Self> {
        match item["type"].as_str() {
            // Without its content the provider would not know it again.
            Some("reasoning") if item["encrypted_content"].is_string() || item["content"].is_array() => {
                Some(Self(item.clone()))
            }
            Some("message") => item["phase"].as_str().map(|phase| Self(json!({ "type": "message", "phase": phase }))),
            _ => None,
        }
    }

    pub(super) fn sealed(&self) -> String {
        self.0.to_string()
    }

    fn read(sealed: &str) -> Option<Self> {
        serde_json::from_str::<Value>(sealed).ok().filter(Value::is_object).map(Self)
    }
}

/// A call's id, in the length that the API takes.
fn id(id: &str) -> Cow<'_, str> {
    match id.len() <= LONGEST_ID {
        true => id.into(),
        false => Digest::of(id.as_bytes()).to_string().chars().take(LONGEST_ID).collect(),
    }
}

fn tool(card: &ToolCard) -> Value {
    json!({
        "type": "function", "name": card.name, "description": card.description, "parameters": *card.input_schema, "strict": false,
    })
}
