//! vLLM (vllm-project/vllm: `ModelCard` and `serving_chat.py`). It rejects a request whose prompt and `max_tokens` do not fit together
//! (#20409, #33425), another model's name (#3485), and tools unless it was started with a parser for them (#9986).

use hyper::Method;
use serde_json::{Value, json};

use super::{ServedModel, Ways, find, plain_voice, prompt_tokens, wants_tools};
use crate::providers::{Asked, Refusal, chat};

pub(super) static WAYS: Ways = Ways {
    is_turn: |path| path == "/v1/chat/completions",
    key_header: None,
    own,
    check,
    prepare: |_, _| {},
    voice: |_, reply| plain_voice(reply, "reasoning_content"),
    error: |refusal| {
        let kind = if refusal.status == 404 { "NotFoundError" } else { "BadRequestError" };
        json!({ "error": { "message": refusal.message, "type": kind, "param": null, "code": refusal.status } })
    },
};

fn own(models: &[ServedModel], method: &Method, path: &str, _: &str, _: &Value) -> Option<Result<Value, Refusal>> {
    let entry = |model: &ServedModel| {
        json!({
            "id": model.id, "object": "model", "created": 1_790_000_000, "owned_by": "vllm", "root": model.id, "parent": null,
            "max_model_len": model.context,
            "permission": [{ "id": "modelperm-1", "object": "model_permission", "allow_sampling": true, "organization": "*" }],
        })
    };
    let is_list = *method == Method::GET && path == "/v1/models";
    is_list.then(|| Ok(json!({ "object": "list", "data": models.iter().map(entry).collect::<Vec<_>>() })))
}

fn check(models: &[ServedModel], asked: &Asked) -> Result<(), Refusal> {
    let Some(model) = find(models, asked.model()) else {
        return Err(Refusal::new(404, format!("The model `{}` does not exist.", asked.model())));
    };
    if wants_tools(asked) && !model.takes_tools {
        let message = "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set";
        return Err(chat::bad(message));
    }
    let limit = asked.body["max_tokens"].as_u64().or_else(|| asked.body["max_completion_tokens"].as_u64()).unwrap_or(0);
    let tokens = prompt_tokens(asked);
    if tokens + limit > model.context {
        return Err(chat::bad(format!(
            "This model's maximum context length is {} tokens. However, you requested {} tokens ({tokens} in the messages, \
             {limit} in the completion). Please reduce the length of the messages or completion.",
            model.context,
            tokens + limit
        )));
    }
    chat::check(asked)
}
