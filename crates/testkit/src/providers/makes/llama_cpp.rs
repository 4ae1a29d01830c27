//! llama.cpp's server, as a build of October 2026 answered (package xllamacpp with SmolLM2). It serves one model under any name; where
//! the model's template has no tools, it drops them without a word (ggml-org/llama.cpp#27129).

use hyper::Method;
use serde_json::{Value, json};

use super::{ServedModel, Ways, plain_voice, prompt_tokens};
use crate::providers::{Asked, Refusal, chat};

pub(super) static WAYS: Ways = Ways {
    is_turn: |path| matches!(path, "/v1/chat/completions" | "/chat/completions"),
    key_header: None,
    own,
    check,
    prepare: |models, asked| {
        if models.first().is_some_and(|model| !model.takes_tools)
            && let Some(body) = asked.body.as_object_mut()
        {
            body.remove("tools");
        }
    },
    voice: |_, reply| plain_voice(reply, "reasoning_content"),
    error: |refusal| {
        let kind = refusal.kind.as_deref().unwrap_or(if refusal.status == 404 {
            "not_found_error"
        } else {
            "invalid_request_error"
        });
        json!({ "error": { "code": refusal.status, "message": refusal.message, "type": kind } })
    },
};

fn own(models: &[ServedModel], method: &Method, path: &str, _: &str, _: &Value) -> Option<Result<Value, Refusal>> {
    let model = models.first()?;
    let answer = match (method, path) {
        (&Method::GET, "/health") => json!({ "status": "ok" }),
        (&Method::GET, "/v1/models" | "/models") => json!({
            "models": [{ "name": model.id, "model": model.id, "type": "model", "capabilities": ["completion"], "details": { "format": "gguf" } }],
            "object": "list",
            "data": [{
                "id": model.id, "aliases": [model.id], "tags": [], "object": "model", "created": 1_795_123_273, "owned_by": "llamacpp",
                "architecture": { "input_modalities": ["text"], "output_modalities": ["text"] },
                // Of all slots together; `/props` has that of one.
                "meta": { "vocab_type": 2, "n_vocab": 49_152, "n_ctx": model.context * 4, "n_ctx_train": 131_072, "n_params": 134_515_008 },
            }],
        }),
        (&Method::GET, "/props") => json!({
            "default_generation_settings": { "n_ctx": model.context, "params": { "temperature": 0.8 } },
            "total_slots": 4, "model_alias": model.id, "model_path": model.id, "modalities": { "vision": false, "audio": false },
            "chat_template": "{% for message in messages %}…{% endfor %}",
            "chat_template_caps": {
                "supports_tools": model.takes_tools, "supports_tool_calls": model.takes_tools,
                "supports_parallel_tool_calls": false, "supports_system_role": true, "supports_string_content": true,
            },
            "build_info": "b10423-a94d563ed", "is_sleeping": false,
        }),
        _ => return None,
    };
    Some(Ok(answer))
}

fn check(models: &[ServedModel], asked: &Asked) -> Result<(), Refusal> {
    let (context, tokens) = (models.first().map_or(0, |model| model.context), prompt_tokens(asked));
    if tokens > context {
        let message = format!(
            "request ({tokens} tokens) exceeds the available context size ({context} tokens), try increasing it"
        );
        return Err(chat::bad(message).kind("exceed_context_size_error"));
    }
    chat::check(asked)
}
