//! The Chat Completions format: what OpenAI's and DeepSeek's servers have in common.

use drawloom_contract::time::Timestamp;
use serde_json::{Map, Value, json};

use super::{Asked, Refusal, Reply};

pub(super) fn bad(message: impl Into<String>) -> Refusal {
    Refusal::new(400, message)
}

/// Rejects what every server of this format rejects: calls without results, results without calls.
pub(super) fn check(asked: &Asked) -> Result<(), Refusal> {
    if asked.model().is_empty() {
        return Err(bad("you must provide a model parameter"));
    }
    if asked.messages().is_empty() {
        return Err(bad("Invalid 'messages': empty array. Expected an array with minimum length 1."));
    }
    let mut open: Vec<&str> = Vec::new();
    for (at, message) in asked.messages().iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        if role == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            let Some(found) = open.iter().position(|other| *other == id) else {
                return Err(bad(format!(
                    "Invalid parameter: messages with role 'tool' must be a response to a preceding message with \
                     'tool_calls': messages[{at}] answers {id:?}."
                )));
            };
            open.remove(found);
            continue;
        }
        if !open.is_empty() {
            return Err(unanswered(&open));
        }
        match role {
            "system" | "developer" | "user" => {}
            "assistant" => {
                let calls = message["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
                if calls.is_empty() && !message["content"].is_string() {
                    return Err(bad(format!("Invalid value for 'content' in messages[{at}]: expected a string.")));
                }
                open = calls.iter().filter_map(|call| call["id"].as_str()).collect();
                for call in calls {
                    let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
                    if !serde_json::from_str::<Value>(arguments).is_ok_and(|value| value.is_object()) {
                        return Err(bad(format!("messages[{at}]: the arguments of a call are no JSON object.")));
                    }
                }
            }
            other => return Err(bad(format!("Invalid value: '{other}' in messages[{at}].role."))),
        }
    }
    if open.is_empty() { Ok(()) } else { Err(unanswered(&open)) }
}

fn unanswered(ids: &[&str]) -> Refusal {
    bad(format!(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The \
         following tool_call_ids did not have response messages: {}",
        ids.join(", ")
    ))
}

/// Rejects fields that the server does not know.
pub(super) fn check_fields(asked: &Asked, fields: &[&str]) -> Result<(), Refusal> {
    let body = asked.body.as_object().ok_or_else(|| bad("the body is not a JSON object"))?;
    match body.keys().find(|key| !fields.contains(&key.as_str())) {
        Some(key) => Err(bad(format!("Unrecognized request argument supplied: {key}"))),
        None => Ok(()),
    }
}

/// How a server speaks.
pub(super) struct Voice {
    /// The reasoning, which comes before the text, for servers that show it.
    pub(super) reasoning: Option<String>,
    /// Under which name it is sent.
    pub(super) reasoning_key: &'static str,
    pub(super) calls: Calls,
    /// What a stream begins with.
    pub(super) before: Vec<String>,
    /// Whether it says what a turn took.
    pub(super) counts: bool,
    /// Whether the model thinks, shown or not; absent for servers that do not count reasoning apart.
    pub(super) thinks: Option<bool>,
    /// Adds the server's own counts of tokens.
    pub(super) count: fn(&mut Value, [u64; 4]),
}

/// How calls of tools are streamed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Calls {
    /// The name first, then the arguments in pieces.
    InPieces,
    /// Each in one chunk.
    Whole,
}

fn call(asked: &Asked, index: usize, name: &str, arguments: &str) -> Value {
    json!({
        "id": format!("call_{:08}_{index}", asked.number), "type": "function",
        "function": { "name": name, "arguments": arguments },
    })
}

fn finish(reply: &Reply) -> &str {
    reply.stop.as_deref().unwrap_or(if reply.calls.is_empty() { "stop" } else { "tool_calls" })
}

fn usage(asked: &Asked, reply: &Reply, voice: &Voice) -> Value {
    let reckoned = || [asked.body.to_string().len() as u64 / 4, reply.text.len() as u64 / 4 + 1, 0, 0];
    let tokens = reply.usage.unwrap_or_else(reckoned);
    let [input, output, write, read] = tokens;
    let prompt = input + write + read;
    let mut usage = json!({ "prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output });
    if let Some(thinks) = voice.thinks {
        let reasoning = if thinks { reply.reasoning_tokens(output) } else { 0 };
        usage["completion_tokens_details"] = json!({ "reasoning_tokens": reasoning });
    }
    (voice.count)(&mut usage, tokens);
    usage
}

fn envelope(asked: &Asked, object: &str, now: Timestamp) -> Value {
    json!({
        "id": format!("chatcmpl-{:016}", asked.number), "object": object, "created": now.as_millis() / 1000,
        "model": asked.model(), "system_fingerprint": "fp_loom",
    })
}

/// The whole answer.
pub(super) fn whole(asked: &Asked, reply: &Reply, voice: &Voice, now: Timestamp) -> Value {
    let mut message = Map::new();
    message.insert("role".into(), "assistant".into());
    let content = if reply.text.is_empty() { Value::Null } else { reply.text.as_str().into() };
    message.insert("content".into(), content);
    message.insert("refusal".into(), Value::Null);
    if let Some(reasoning) = &voice.reasoning {
        message.insert(voice.reasoning_key.into(), reasoning.as_str().into());
    }
    if !reply.calls.is_empty() {
        let calls = reply.calls.iter().enumerate().map(|(index, (name, raw))| call(asked, index, name, raw));
        message.insert("tool_calls".into(), calls.collect());
    }
    let mut answer = envelope(asked, "chat.completion", now);
    answer["choices"] = json!([{ "index": 0, "message": message, "logprobs": null, "finish_reason": finish(reply) }]);
    if voice.counts {
        answer["usage"] = usage(asked, reply, voice);
    }
    answer
}

/// The answer as a stream.
pub(super) fn stream(asked: &Asked, reply: &Reply, voice: &Voice, now: Timestamp) -> Vec<String> {
    let mut deltas = vec![(json!({ "role": "assistant", "content": "", "refusal": null }), Value::Null)];
    if let Some(reasoning) = &voice.reasoning {
        let pieces = reply.cut(reasoning);
        deltas.extend(pieces.iter().map(|t| (json!({ voice.reasoning_key: t, "content": null }), Value::Null)));
    }
    deltas.extend(reply.cut(&reply.text).iter().map(|t| (json!({ "content": t }), Value::Null)));
    for (index, (name, raw)) in reply.calls.iter().enumerate() {
        let is_whole = voice.calls == Calls::Whole;
        let mut begin = call(asked, index, name, if is_whole { raw } else { "" });
        begin["index"] = json!(index);
        deltas.push((json!({ "tool_calls": [begin] }), Value::Null));
        for piece in reply.cut(if is_whole { "" } else { raw }) {
            let more = json!({ "index": index, "function": { "arguments": piece } });
            deltas.push((json!({ "tool_calls": [more] }), Value::Null));
        }
    }
    deltas.push((json!({}), finish(reply).into()));
    let counted = voice.counts && asked.body["stream_options"]["include_usage"] == true;
    let base = envelope(asked, "chat.completion.chunk", now);
    let chunks = deltas.into_iter().map(|(delta, finish)| {
        let mut chunk = base.clone();
        chunk["choices"] = json!([{ "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish }]);
        if counted {
            chunk["usage"] = Value::Null;
        }
        format!("data: {chunk}\n\n")
    });
    let mut events: Vec<String> = voice.before.iter().cloned().chain(chunks).collect();
    if counted {
        let mut last = base;
        last["choices"] = json!([]);
        last["usage"] = usage(asked, reply, voice);
        events.push(format!("data: {last}\n\n"));
    }
    events.push("data: [DONE]\n\n".to_owned());
    events
}

/// An error's body.
pub(super) fn error(refusal: &Refusal) -> Value {
    let kind = match refusal.status {
        401 | 404 => "invalid_request_error",
        429 => "requests",
        500.. => "server_error",
        _ => "invalid_request_error",
    };
    let code = refusal.kind.clone().or_else(|| (refusal.status == 429).then(|| "rate_limit_exceeded".to_owned()));
    json!({ "error": { "message": refusal.message, "type": kind, "param": null, "code": code } })
}

/// The list of models.
pub(super) fn models(ids: &[&str]) -> Value {
    let models =
        ids.iter().map(|id| json!({ "id": id, "object": "model", "created": 1_790_000_000, "owned_by": "loom" }));
    json!({ "object": "list", "data": models.collect::<Vec<_>>() })
}
