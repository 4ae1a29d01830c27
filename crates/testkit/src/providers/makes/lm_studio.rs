//! LM Studio (lmstudio.ai/docs/developer: OpenAI compatibility, REST v1 and v0). Its OpenAI list has names only
//! (lmstudio-ai/lmstudio-bug-tracker#2139); its own lists have the context of what is loaded (co-l/openfox#49). A model that is not
//! loaded is loaded when it is asked.

use hyper::Method;
use serde_json::{Value, json};

use super::{ServedModel, Ways, find, plain_voice, prompt_tokens};
use crate::providers::{Asked, Refusal, chat};

/// What a model was made for, which is not what it gets.
const MAX_CONTEXT: u64 = 262_144;

pub(super) static WAYS: Ways = Ways {
    is_turn: |path| path == "/v1/chat/completions",
    key_header: None,
    own,
    check,
    prepare: |_, _| {},
    voice: |_, reply| plain_voice(reply, "reasoning_content"),
    error: |refusal| json!({ "error": refusal.message }),
};

fn own(models: &[ServedModel], method: &Method, path: &str, _: &str, _: &Value) -> Option<Result<Value, Refusal>> {
    let all = |entry: &dyn Fn(&ServedModel) -> Value| models.iter().map(entry).collect::<Vec<_>>();
    let answer = match (method, path) {
        (&Method::GET, "/v1/models") => json!({ "object": "list", "data": all(&|model| json!({
            "id": model.id, "object": "model", "owned_by": "organization_owner",
        })) }),
        (&Method::GET, "/api/v1/models") => json!({ "models": all(&|model| {
            let instance = json!({ "id": model.id, "config": { "context_length": model.context, "flash_attention": true } });
            json!({
                "type": "llm", "publisher": "maker", "key": model.id, "display_name": model.id, "architecture": "qwen3",
                "format": "gguf", "max_context_length": MAX_CONTEXT,
                "loaded_instances": if model.is_loaded { vec![instance] } else { vec![] },
                "capabilities": { "vision": false, "trained_for_tool_use": model.takes_tools },
            })
        }) }),
        (&Method::GET, "/api/v0/models") => json!({ "object": "list", "data": all(&|model| json!({
            "id": model.id, "object": "model", "type": "llm", "publisher": "maker", "arch": "qwen3", "max_context_length": MAX_CONTEXT,
            "state": if model.is_loaded { "loaded" } else { "not-loaded" },
            "loaded_context_length": model.is_loaded.then_some(model.context),
            "capabilities": if model.takes_tools { vec!["tool_use"] } else { vec![] },
        })) }),
        // It answers 200 to whatever it does not know.
        (method, path) => json!({ "error": format!("Unexpected endpoint or method. ({method} {path})") }),
    };
    Some(Ok(answer))
}

fn check(models: &[ServedModel], asked: &Asked) -> Result<(), Refusal> {
    let Some(model) = find(models, asked.model()) else {
        return Err(chat::bad(format!("Model \"{}\" not found", asked.model())));
    };
    if prompt_tokens(asked) > model.context {
        let message = "The number of tokens to keep from the initial prompt is greater than the context length. Try to load \
                       the model with a larger context length, or provide a shorter input";
        return Err(chat::bad(message));
    }
    chat::check(asked)
}
