//! A turn, as the Messages API wants it asked.

use drawloom_contract::{
    choice::{Effort, Sampling},
    message::{Message, Part, Thought, ToolResult, ToolUse},
    model::TurnRequest,
};
use serde_json::{Map, Value, json};

use crate::{
    draft::as_object,
    known::{Known, SamplingSupport, Thinking},
};

/// Thinking with a budget needs at least this many tokens, and leaves at least as many for the answer.
const LEAST_BUDGET: u32 = 1024;

/// Lets models of the fourth generation think between tool calls; later ones always do.
const INTERLEAVED: (&str, &str) = ("anthropic-beta", "interleaved-thinking-2025-05-14");

/// How a request has the model think.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// As it does when nothing is said: an effort may be named.
    Unspecified(Option<Effort>),
    /// With this many tokens.
    Budget(u32),
    /// As much as it finds right for that effort.
    Adaptive(Effort),
}

/// The body and the headers that only this request needs.
pub(super) fn write(request: &TurnRequest, known: &Known) -> (Value, Vec<(&'static str, String)>) {
    let mode = mode(request, known);
    let mut body = Map::new();
    body.insert("model".into(), request.model.clone().into());
    body.insert("max_tokens".into(), request.max_tokens.into());
    body.insert("stream".into(), true.into());
    if !request.system.is_empty() {
        let mut system = json!({ "type": "text", "text": &*request.system });
        mark(&mut system, known);
        body.insert("system".into(), json!([system]));
    }
    if !request.tools.is_empty() {
        body.insert("tools".into(), tools(request, known));
        if known.parallel_calls == Some(false) {
            body.insert("tool_choice".into(), json!({ "type": "auto", "disable_parallel_tool_use": true }));
        }
    } else if let Some(tools) = bygone_tools(request) {
        body.insert("tools".into(), tools);
        body.insert("tool_choice".into(), json!({ "type": "none" }));
    }
    body.insert("messages".into(), messages(request, known, mode).into());
    let mut headers = Vec::new();
    match mode {
        Mode::Unspecified(None) if known.thinking_disabled => {
            body.insert("thinking".into(), json!({ "type": "disabled" }));
        }
        Mode::Unspecified(None) => {}
        Mode::Unspecified(Some(effort)) => {
            body.insert("output_config".into(), json!({ "effort": effort.as_str() }));
        }
        Mode::Budget(tokens) => {
            body.insert("thinking".into(), json!({ "type": "enabled", "budget_tokens": tokens }));
            if known.listed && !request.tools.is_empty() {
                headers.push((INTERLEAVED.0, INTERLEAVED.1.to_owned()));
            }
        }
        Mode::Adaptive(effort) => {
            // Without `display` newer models keep what they think to themselves.
            body.insert("thinking".into(), json!({ "type": "adaptive", "display": "summarized" }));
            body.insert("output_config".into(), json!({ "effort": effort.as_str() }));
        }
    }
    sampling(&mut body, &request.sampling, known, mode);
    (Value::Object(body), headers)
}

fn mode(request: &TurnRequest, known: &Known) -> Mode {
    match (known.thinking, request.effort) {
        (Thinking::Never, _) | (_, None) | (Thinking::Budget, Some(Effort::Low)) => Mode::Unspecified(None),
        (Thinking::Adaptive, Some(Effort::Low)) => Mode::Unspecified(Some(Effort::Low)),
        (Thinking::Adaptive | Thinking::Always | Thinking::NotWithTools, Some(effort)) => Mode::Adaptive(effort),
        (Thinking::Budget, Some(effort)) => {
            let wish = if effort == Effort::High { 8192 } else { 2048 };
            let budget = wish.min(request.max_tokens.saturating_sub(LEAST_BUDGET));
            let fits = budget >= LEAST_BUDGET && loop_begins_with_thought(request);
            if fits { Mode::Budget(budget) } else { Mode::Unspecified(None) }
        }
    }
}

/// Whether the turn that this request goes on with, if any, begins with a thought. The API demands that of a tool loop
/// whose request turns thinking on with a budget: after a change of models it stays off until the user speaks again.
fn loop_begins_with_thought(request: &TurnRequest) -> bool {
    for message in request.messages.iter().rev() {
        match &**message {
            Message::Results(_) => {}
            Message::User(_) => return true,
            Message::Assistant { thoughts, .. } => {
                return thoughts.iter().any(|thought| thought.place == 0 && is_replayable(thought));
            }
        }
    }
    true
}

/// A thought without the provider's proof would be rejected.
fn is_replayable(thought: &Thought) -> bool {
    thought.signature.is_some() || thought.sealed.is_some()
}

/// Tools keep their order: what stands before a breakpoint must not change from turn to turn. The breakpoint is on the
/// last one.
fn tools(request: &TurnRequest, known: &Known) -> Value {
    let mut tools: Vec<Value> = request
        .tools
        .iter()
        .map(|card| json!({ "name": card.name, "description": card.description, "input_schema": *card.input_schema }))
        .collect();
    if let Some(last) = tools.last_mut() {
        mark(last, known);
    }
    tools.into()
}

/// A history with calls wants tools on offer, also in a last turn that must make none: the names that were called.
fn bygone_tools(request: &TurnRequest) -> Option<Value> {
    let mut names: Vec<&str> = Vec::new();
    for message in &request.messages {
        if let Message::Assistant { calls, .. } = &**message {
            for call in calls {
                if !names.contains(&call.name.as_str()) {
                    names.push(&call.name);
                }
            }
        }
    }
    let tool = |name: &&str| json!({ "name": name, "input_schema": { "type": "object" } });
    (!names.is_empty()).then(|| names.iter().map(tool).collect())
}

/// Ends a prefix that the provider should remember. At most four are allowed: the last tool, the system prompt, and the
/// ends of the two newest messages of ours. The newest is what the next turn will find; the one before it is what this
/// turn finds, however many blocks came since.
fn mark(block: &mut Value, known: &Known) {
    if let (true, Some(block)) = (known.cache, block.as_object_mut()) {
        block.insert("cache_control".into(), json!({ "type": "ephemeral" }));
    }
}

fn messages(request: &TurnRequest, known: &Known, mode: Mode) -> Vec<Value> {
    // A model that thinks only when told to is not shown thoughts when it is not told to.
    let with_thoughts = match (known.thinking, mode) {
        (Thinking::Never, _) | (Thinking::Budget, Mode::Unspecified(_)) => false,
        (Thinking::Budget | Thinking::Adaptive | Thinking::Always | Thinking::NotWithTools, _) => true,
    };
    let mut turns: Vec<(&str, Vec<Value>)> = Vec::new();
    for message in &request.messages {
        let (role, blocks) = match &**message {
            Message::User(parts) => ("user", parts.iter().filter_map(part).collect()),
            Message::Results(results) => ("user", results.iter().map(result).collect()),
            Message::Assistant { text, thoughts, calls } => {
                ("assistant", said(text, if with_thoughts { thoughts } else { &[] }, calls))
            }
        };
        // Results and what the user says after them are one message.
        match turns.last_mut() {
            Some((last, before)) if *last == role => before.extend(blocks),
            _ => turns.push((role, blocks)),
        }
    }
    for (_, blocks) in &mut turns {
        if blocks.is_empty() {
            blocks.push(json!({ "type": "text", "text": "(nothing)" }));
        }
    }
    for (_, blocks) in turns.iter_mut().rev().filter(|(role, _)| *role == "user").take(2) {
        if let Some(last) = blocks.last_mut() {
            mark(last, known);
        }
    }
    turns.into_iter().map(|(role, content)| json!({ "role": role, "content": content })).collect()
}

/// A part of what the user says; the API takes no text without a word.
fn part(part: &Part) -> Option<Value> {
    match part {
        Part::Text(text) if text.trim().is_empty() => None,
        Part::Text(text) => Some(json!({ "type": "text", "text": text })),
        Part::Image { media_type, data } => Some(json!({
            "type": "image", "source": { "type": "base64", "media_type": media_type, "data": &**data },
        })),
    }
}

fn result(result: &ToolResult) -> Value {
    let mut block = json!({ "type": "tool_result", "tool_use_id": id(&result.id), "content": &*result.text });
    if result.is_error
        && let Some(block) = block.as_object_mut()
    {
        block.insert("is_error".into(), true.into());
    }
    block
}

/// What the model said: thoughts at their places, its text, its calls.
fn said(text: &str, thoughts: &[Thought], calls: &[ToolUse]) -> Vec<Value> {
    let count = u32::try_from(calls.len()).unwrap_or(u32::MAX);
    let at = |wanted: &dyn Fn(u32) -> bool| {
        thoughts.iter().filter(|thought| wanted(thought.place)).filter_map(thought).collect::<Vec<_>>()
    };
    // A message cannot end with a thought: what comes before a call that is not there comes before the text.
    let mut blocks = at(&|place| place == 0 || place > count);
    if !text.trim().is_empty() {
        blocks.push(json!({ "type": "text", "text": text }));
    }
    for (index, call) in (1..).zip(calls) {
        blocks.extend(at(&|place| place == index));
        blocks.push(json!({
            "type": "tool_use", "id": id(&call.id), "name": call.name, "input": as_object(&call.input),
        }));
    }
    // Neither can it be a thought alone.
    if text.is_empty() && calls.is_empty() { Vec::new() } else { blocks }
}

fn thought(thought: &Thought) -> Option<Value> {
    match (&thought.sealed, &thought.signature) {
        (Some(data), _) => Some(json!({ "type": "redacted_thinking", "data": data })),
        (None, Some(signature)) => {
            Some(json!({ "type": "thinking", "thinking": thought.text, "signature": signature }))
        }
        (None, None) => None,
    }
}

/// A call's id in the letters that the API takes; those of other providers may hold others.
fn id(id: &str) -> String {
    id.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' }).collect()
}

/// `frequency_penalty`, `presence_penalty` and `seed` are not of this API and are left out.
fn sampling(body: &mut Map<String, Value>, sampling: &Sampling, known: &Known, mode: Mode) {
    if let Some(stop) = &sampling.stop {
        body.insert("stop_sequences".into(), json!(stop));
    }
    if known.sampling == SamplingSupport::None || !matches!(mode, Mode::Unspecified(_)) {
        return;
    }
    if let Some(temperature) = &sampling.temperature {
        body.insert("temperature".into(), Value::Number(temperature.clone()));
    }
    let both = known.sampling == SamplingSupport::One && sampling.temperature.is_some();
    if let Some(top_p) = sampling.top_p.as_ref().filter(|_| !both) {
        body.insert("top_p".into(), Value::Number(top_p.clone()));
    }
    if let Some(top_k) = sampling.top_k {
        body.insert("top_k".into(), top_k.into());
    }
}
