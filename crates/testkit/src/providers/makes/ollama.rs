//! Ollama (ollama/ollama: openai/openai.go, docs/api.md). Its list has names only; the context of a loaded model is in `/api/ps`
//! (ollama/ollama#11331), what a model can do in `/api/show`. A model without tools: ollama/ollama#11131, louisho5/picobot#6.

use hyper::Method;
use serde_json::{Value, json};

use super::{ServedModel, Ways, plain_voice, wants_tools};
use crate::providers::{
    Asked, Refusal,
    chat::{self, Calls},
};

pub(super) static WAYS: Ways = Ways {
    is_turn: |path| path == "/v1/chat/completions",
    key_header: None,
    own,
    check,
    prepare: |_, _| {},
    voice: |_, reply| {
        let mut voice = plain_voice(reply, "reasoning");
        voice.calls = Calls::Whole;
        voice.count = |_, _| {};
        voice
    },
    error: |refusal| json!({ "error": { "message": refusal.message, "type": "api_error", "param": null, "code": null } }),
};

/// A name without a tag means `latest`.
fn find<'a>(models: &'a [ServedModel], name: &str) -> Option<&'a ServedModel> {
    models.iter().find(|model| model.id == name || model.id.strip_suffix(":latest") == Some(name))
}

fn own(models: &[ServedModel], method: &Method, path: &str, _: &str, body: &Value) -> Option<Result<Value, Refusal>> {
    let all = |entry: &dyn Fn(&ServedModel) -> Value| models.iter().map(entry).collect::<Vec<_>>();
    let file = |model: &ServedModel| {
        json!({
            "name": model.id, "model": model.id, "size": 5_137_025_024_u64, "digest": "2ae6f6dd7a3d",
            "details": { "format": "gguf", "family": "llama", "parameter_size": "8.0B", "quantization_level": "Q4_K_M" },
        })
    };
    let answer = match (method, path) {
        (&Method::GET, "/v1/models") => json!({ "object": "list", "data": all(&|model| json!({
            "id": model.id, "object": "model", "created": 1_790_000_000, "owned_by": "library",
        })) }),
        (&Method::GET, "/api/version") => json!({ "version": "0.34.2" }),
        (&Method::GET, "/api/tags") => json!({ "models": all(&file) }),
        (&Method::GET, "/api/ps") => {
            let running = models.iter().filter(|model| model.is_loaded).map(|model| {
                let mut entry = file(model);
                entry["context_length"] = json!(model.context);
                entry["size_vram"] = json!(5_137_025_024_u64);
                entry
            });
            json!({ "models": running.collect::<Vec<_>>() })
        }
        (&Method::POST, "/api/show") => {
            let name = body["model"].as_str().unwrap_or_default();
            let Some(model) = find(models, name) else {
                return Some(Err(Refusal::new(404, format!("model '{name}' not found"))));
            };
            let capabilities: &[&str] = if model.takes_tools { &["completion", "tools"] } else { &["completion"] };
            json!({
                "capabilities": capabilities, "parameters": "stop                           \"<|eot_id|>\"",
                "details": { "format": "gguf", "family": "llama" },
                // What it was trained with, which is not what it gets.
                "model_info": { "general.architecture": "llama", "llama.context_length": 131_072 },
            })
        }
        _ => return None,
    };
    Some(Ok(answer))
}

fn check(models: &[ServedModel], asked: &Asked) -> Result<(), Refusal> {
    let Some(model) = find(models, asked.model()) else {
        return Err(Refusal::new(404, format!("model '{}' not found", asked.model())));
    };
    if wants_tools(asked) && !model.takes_tools {
        return Err(chat::bad(format!("registry.ollama.ai/library/{} does not support tools", model.id)));
    }
    let is_empty = |message: &&Value| message["content"].is_null() && message["tool_calls"].is_null();
    if asked.messages().iter().any(|message| is_empty(&message)) {
        return Err(chat::bad("invalid message content type: <nil>"));
    }
    chat::check(asked)
}
