//! Azure OpenAI. A deployment has a name of its own and stands in the path, or in `model` of the newer `/openai/v1`; the key is in
//! `api-key`, and addresses without `api-version` do not exist (learn.microsoft.com/azure/ai-services/openai/reference; openai-node,
//! docs/azure.md). A wrong name: chatboxai/chatbox#861.

use hyper::Method;
use serde_json::{Value, json};

use super::{ServedModel, Ways, find};
use crate::providers::{Asked, Refusal, openai};

pub(super) static WAYS: Ways = Ways {
    is_turn: |path| deployment(path).is_some() || path == "/openai/v1/chat/completions",
    key_header: Some("api-key"),
    own,
    check,
    prepare: |_, _| {},
    voice: |asked, _| {
        let mut voice = openai::voice(asked);
        // What the filter found in the prompt comes first, in a chunk without choices.
        let filters = json!([{ "prompt_index": 0, "content_filter_results": { "hate": { "filtered": false, "severity": "safe" } } }]);
        let first = json!({ "choices": [], "created": 0, "id": "", "model": "", "object": "", "prompt_filter_results": filters });
        voice.before = vec![format!("data: {first}\n\n")];
        voice
    },
    error: |refusal| json!({ "error": { "code": refusal.kind.clone().unwrap_or_else(|| refusal.status.to_string()), "message": refusal.message } }),
};

/// The deployment that a path names.
fn deployment(path: &str) -> Option<&str> {
    path.strip_prefix("/openai/deployments/")?.strip_suffix("/chat/completions")
}

fn has_version(query: &str) -> bool {
    query.split('&').any(|part| part.strip_prefix("api-version=").is_some_and(|version| !version.is_empty()))
}

/// The base models that the resource could deploy, which says nothing of its deployments.
fn own(_: &[ServedModel], method: &Method, path: &str, query: &str, _: &Value) -> Option<Result<Value, Refusal>> {
    let base = |id: &str| {
        json!({
            "id": id, "object": "model", "created_at": 1_744_761_600, "updated_at": 1_744_761_600, "status": "succeeded",
            "lifecycle_status": "generally-available", "deprecation": {},
            "capabilities": { "fine_tune": true, "inference": true, "completion": false, "chat_completion": true, "embeddings": false },
        })
    };
    let is_list = *method == Method::GET && path == "/openai/models" && has_version(query);
    is_list
        .then(|| Ok(json!({ "object": "list", "data": [base("gpt-4.1-2025-04-14"), base("gpt-4.1-mini-2025-04-14")] })))
}

fn check(models: &[ServedModel], asked: &Asked) -> Result<(), Refusal> {
    let name = match deployment(&asked.path) {
        Some(_) if !has_version(&asked.query) => return Err(Refusal::new(404, "Resource not found")),
        Some(name) => name,
        None => asked.model(),
    };
    if find(models, name).is_none() {
        let message = "The API deployment for this resource does not exist. If you created the deployment within the last 5 \
                       minutes, please wait a moment and try again.";
        return Err(Refusal::new(404, message).kind("DeploymentNotFound"));
    }
    openai::check(asked)
}
