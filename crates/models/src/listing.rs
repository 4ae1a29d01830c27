//! What servers say of their models, each in its own way: context, tools, prices. Only reading; `lookup.rs` asks.

use drawloom_contract::{
    model::ListedModel,
    money::{Cost, Price},
};
use serde_json::Value;

/// Which server made a list of models. Three say more at other addresses of theirs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Server {
    /// llama.cpp: `/props` has the context of a slot and what the chat template can do.
    LlamaCpp,
    /// LM Studio: `/api/v1/models`, before 0.4.0 `/api/v0/models`.
    LmStudio,
    /// Ollama: `/api/ps` and `/api/show`. Its list has names only, as that of others: one without `/api/ps` is another.
    Ollama,
    /// vLLM: the list says it all.
    Vllm,
    /// Another: the list says it, or nothing does.
    Other,
}

impl Server {
    /// Which server made this list.
    pub(crate) fn of(list: &Value) -> Self {
        let entries = entries(list, "data");
        let is_owner = |owner: &str| !entries.is_empty() && entries.iter().all(|entry| entry["owned_by"] == owner);
        if is_owner("llamacpp") {
            return Self::LlamaCpp;
        }
        if is_owner("organization_owner") {
            return Self::LmStudio;
        }
        if is_owner("vllm") {
            return Self::Vllm;
        }
        let names_only = entries.iter().all(|entry| entry.as_object().is_some_and(|entry| entry.len() <= 5));
        if names_only && !entries.is_empty() { Self::Ollama } else { Self::Other }
    }

    /// Whether a model has its context only once it was asked.
    pub(crate) fn loads_models(self) -> bool {
        matches!(self, Self::LlamaCpp | Self::LmStudio | Self::Ollama)
    }
}

fn entries<'a>(list: &'a Value, key: &str) -> &'a [Value] {
    list.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn tokens(value: &Value) -> Option<u64> {
    value.as_u64().filter(|tokens| *tokens > 0)
}

/// The models of a list in OpenAI's form. Anthropic adds a title, OpenRouter `context_length`, `supported_parameters` and `pricing`
/// (openrouter.ai/docs: Models API Standard), vLLM `max_model_len` (`ModelCard` in its protocol), llama.cpp `meta.n_ctx`, Groq
/// `context_window`, Mistral `max_context_length`.
pub(crate) fn models(list: &Value) -> Vec<ListedModel> {
    let model = |entry: &Value| {
        let id = entry.get("id")?.as_str()?.to_owned();
        let title = entry.get("display_name").or_else(|| entry.get("name")).and_then(Value::as_str).map(str::to_owned);
        let known = ["context_length", "max_model_len", "context_window", "max_context_length"];
        let context = known.iter().find_map(|key| tokens(&entry[*key])).or_else(|| tokens(&entry["meta"]["n_ctx"]));
        // The provider that is asked first may serve less than the model has.
        let served = tokens(&entry["top_provider"]["context_length"]);
        let parameters = entry["supported_parameters"].as_array();
        Some(ListedModel {
            title: title.filter(|title| *title != id),
            context_tokens: context.map(|context| served.map_or(context, |served| served.min(context))),
            takes_tools: parameters.map(|parameters| parameters.iter().any(|name| name == "tools")),
            price: price(&entry["pricing"]),
            id,
        })
    };
    entries(list, "data").iter().filter_map(model).collect()
}

/// OpenRouter's prices: dollars for one token, as texts.
fn price(pricing: &Value) -> Option<Price> {
    let cost = |key: &str| {
        let dollars: f64 = pricing[key].as_str()?.parse().ok()?;
        // Models that choose another have -1.
        Cost::from_units(dollars * 1_000_000.0).filter(|_| dollars >= 0.0)
    };
    let (input, output) = (cost("prompt")?, cost("completion")?);
    let cache_write = cost("input_cache_write").unwrap_or(input);
    Some(Price { input, output, cache_write, cache_read: cost("input_cache_read").unwrap_or(input) })
}

/// Adds what llama.cpp's `/props` says: the context of one slot, and whether the model's template has tools. Where it has none, the
/// server drops the tools without a word (ggml-org/llama.cpp#27129).
pub(crate) fn add_props(model: &mut ListedModel, props: &Value) {
    model.context_tokens = tokens(&props["default_generation_settings"]["n_ctx"]).or(model.context_tokens);
    model.takes_tools = props["chat_template_caps"]["supports_tools"].as_bool().or(model.takes_tools);
}

/// Whether it is a list of LM Studio's own: it answers 200 also where it has nothing.
pub(crate) fn is_lm_studio(list: &Value) -> bool {
    list["models"].is_array() || list["data"].is_array()
}

/// Adds what LM Studio's own list says (lmstudio.ai/docs/developer/rest/list). It offers tools to every model, so one that was not
/// trained for them may still call some; a model that embeds cannot.
pub(crate) fn add_lm_studio(models: &mut [ListedModel], list: &Value) {
    for model in models.iter_mut() {
        let is_named = |entry: &&Value| entry["key"] == *model.id || entry["id"] == *model.id;
        let is_instance = |entry: &&Value| instances(entry).iter().any(|instance| instance["id"] == *model.id);
        let all = || entries(list, "models").iter().chain(entries(list, "data"));
        let Some(entry) = all().find(is_named).or_else(|| all().find(is_instance)) else { continue };
        let loaded = instances(entry).iter().filter_map(|instance| tokens(&instance["config"]["context_length"])).min();
        model.context_tokens = loaded.or_else(|| tokens(&entry["loaded_context_length"]));
        let capabilities = &entry["capabilities"];
        let is_trained = capabilities["trained_for_tool_use"] == true
            || capabilities.as_array().is_some_and(|names| names.iter().any(|name| name == "tool_use"));
        let embeds = matches!(entry["type"].as_str(), Some("embedding" | "embeddings"));
        model.takes_tools = if embeds { Some(false) } else { is_trained.then_some(true) };
    }
}

fn instances(entry: &Value) -> &[Value] {
    entries(entry, "loaded_instances")
}

/// Adds what Ollama's `/api/show` and `/api/ps` say (docs/api.md of ollama/ollama; `context_length` since ollama/ollama#11331). The
/// context is the one that the model was loaded with, or that its file sets: what it was trained with is often far more, and Ollama
/// cuts off what does not fit without a word.
pub(crate) fn add_ollama(model: &mut ListedModel, show: &Value, running: &Value) {
    let is_it = |name: &Value| {
        name.as_str().is_some_and(|name| name == model.id || name.strip_suffix(":latest") == Some(&model.id))
    };
    let loaded = entries(running, "models").iter().find(|entry| is_it(&entry["model"]) || is_it(&entry["name"]));
    let parameters = show["parameters"].as_str().unwrap_or_default();
    let set = parameters.lines().find_map(|line| line.trim().strip_prefix("num_ctx")?.trim().parse().ok());
    model.context_tokens = loaded.and_then(|entry| tokens(&entry["context_length"])).or(set);
    let capabilities = show["capabilities"].as_array();
    model.takes_tools = capabilities.map(|names| names.iter().any(|name| name == "tools"));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn named(id: &str) -> ListedModel {
        ListedModel { id: id.into(), ..ListedModel::default() }
    }

    #[test]
    fn the_smaller_context_of_openrouter_counts_and_its_prices_are_per_million() {
        let entry = json!({
            "id": "maker/model", "name": "Maker: Model", "context_length": 262_144, "top_provider": { "context_length": 131_072 },
            "supported_parameters": ["temperature", "tools"], "pricing": { "prompt": "0.0000003", "completion": "0.0000012" },
        });
        let auto = json!({ "id": "openrouter/auto", "context_length": 2_000_000, "pricing": { "prompt": "-1", "completion": "-1" } });
        let found = models(&json!({ "data": [entry, auto] }));
        assert_eq!((found[0].context_tokens, found[0].takes_tools), (Some(131_072), Some(true)));
        let price = found[0].price.expect("a price");
        assert_eq!((price.input, price.output), (Cost(300_000_000), Cost(1_200_000_000)));
        assert_eq!((found[1].price, found[1].takes_tools), (None, None));
    }

    #[test]
    fn a_list_with_only_names_may_be_ollamas() {
        let list = |entry: Value| json!({ "object": "list", "data": [entry] });
        let plain = json!({ "id": "a", "object": "model", "created": 1, "owned_by": "library" });
        assert_eq!(Server::of(&list(plain)), Server::Ollama);
        assert_eq!(Server::of(&list(json!({ "id": "a", "owned_by": "llamacpp" }))), Server::LlamaCpp);
        assert_eq!(Server::of(&list(json!({ "id": "a", "owned_by": "organization_owner" }))), Server::LmStudio);
        let vllm =
            json!({ "id": "a", "object": "model", "created": 1, "owned_by": "vllm", "root": "a", "max_model_len": 8 });
        assert_eq!(Server::of(&list(vllm)), Server::Vllm);
        assert_eq!(Server::of(&json!({ "error": "no" })), Server::Other);
    }

    #[test]
    fn ollamas_context_is_the_one_it_was_loaded_with() {
        let show = json!({
            "capabilities": ["completion"], "parameters": "stop    \"x\"\nnum_ctx    8192",
            "model_info": { "llama.context_length": 131_072 },
        });
        let mut model = named("llama3.2");
        add_ollama(&mut model, &show, &json!({ "models": [] }));
        assert_eq!((model.context_tokens, model.takes_tools), (Some(8_192), Some(false)));
        let running =
            json!({ "models": [{ "name": "llama3.2:latest", "model": "llama3.2:latest", "context_length": 4_096 }] });
        add_ollama(&mut model, &show, &running);
        assert_eq!(model.context_tokens, Some(4_096));
        add_ollama(&mut model, &json!({ "capabilities": ["completion", "tools"] }), &json!({}));
        assert_eq!((model.context_tokens, model.takes_tools), (None, Some(true)));
    }

    #[test]
    fn lm_studios_context_is_that_of_what_is_loaded_in_both_of_its_lists() {
        let new = json!({ "models": [
            { "type": "llm", "key": "qwen", "max_context_length": 262_144, "capabilities": { "trained_for_tool_use": true },
              "loaded_instances": [{ "id": "qwen:2", "config": { "context_length": 16_384 } }] },
            { "type": "embedding", "key": "nomic", "loaded_instances": [] },
        ] });
        let mut models = [named("qwen"), named("qwen:2"), named("nomic"), named("other")];
        add_lm_studio(&mut models, &new);
        let found = models.map(|model| (model.context_tokens, model.takes_tools));
        assert_eq!(found, [(Some(16_384), Some(true)), (Some(16_384), Some(true)), (None, Some(false)), (None, None)]);
        let old = json!({ "data": [
            { "id": "qwen", "type": "llm", "state": "loaded", "max_context_length": 262_144, "loaded_context_length": 8_192,
              "capabilities": ["tool_use"] },
        ] });
        let mut models = [named("qwen")];
        add_lm_studio(&mut models, &old);
        assert_eq!((models[0].context_tokens, models[0].takes_tools), (Some(8_192), Some(true)));
    }
}
