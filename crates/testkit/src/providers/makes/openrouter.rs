//! OpenRouter (openrouter.ai/docs: Models, API reference). A model without tools: evalstate/fast-agent#122.

use hyper::Method;
use serde_json::{Value, json};

use super::{ServedModel, Ways, find, plain_voice, wants_tools};
use crate::providers::{Asked, Refusal, chat};

pub(super) static WAYS: Ways = Ways {
    is_turn: |path| path == "/api/v1/chat/completions",
    key_header: None,
    own,
    check,
    prepare: |_, _| {},
    voice: |_, reply| {
        let mut voice = plain_voice(reply, "reasoning");
        // Comments keep the connection open while a provider is chosen.
        voice.before = vec![": OPENROUTER PROCESSING\n\n".to_owned()];
        voice.count = |usage, [_, _, _, read]| {
            usage["prompt_tokens_details"] = json!({ "cached_tokens": read });
            usage["cost"] = json!(0.000_042);
        };
        voice
    },
    error: |refusal| json!({ "error": { "message": refusal.message, "code": refusal.status } }),
};

fn own(models: &[ServedModel], method: &Method, path: &str, _: &str, _: &Value) -> Option<Result<Value, Refusal>> {
    let entry = |model: &ServedModel| {
        let parameters: &[&str] = if model.takes_tools {
            &["max_tokens", "temperature", "tool_choice", "tools"]
        } else {
            &["max_tokens", "temperature"]
        };
        json!({
            "id": model.id, "canonical_slug": model.id, "name": format!("Maker: {}", model.id), "created": 1_790_000_000,
            "description": "A model.", "context_length": model.context, "supported_parameters": parameters,
            "architecture": { "modality": "text->text", "input_modalities": ["text"], "output_modalities": ["text"], "tokenizer": "Other" },
            "pricing": { "prompt": "0.0000003", "completion": "0.0000012", "request": "0", "image": "0" },
            "top_provider": { "context_length": model.context, "max_completion_tokens": 16_384, "is_moderated": false },
            "per_request_limits": null,
        })
    };
    let is_list = *method == Method::GET && path == "/api/v1/models";
    is_list.then(|| Ok(json!({ "data": models.iter().map(entry).collect::<Vec<_>>() })))
}

fn check(models: &[ServedModel], asked: &Asked) -> Result<(), Refusal> {
    let Some(model) = find(models, asked.model()) else {
        return Err(Refusal::new(400, format!("{} is not a valid model ID", asked.model())));
    };
    if wants_tools(asked) && !model.takes_tools {
        let message = "No endpoints found that support tool use. To learn more about provider routing, visit: \
                       https://openrouter.ai/docs/guides/routing/provider-selection";
        return Err(Refusal::new(404, message));
    }
    chat::check(asked)
}
