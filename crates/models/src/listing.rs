//! What servers say of their models, each in its own way: context, tools, prices. Only reading; `lookup.rs` asks.

use std::collections::{HashMap, HashSet};

use drawloom_contract::{
    model::ListedModel,
    money::{Cost, Price},
};

use crate::json::{Json, MOST_ITEMS};

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
    pub(crate) fn of(list: Json<'_>) -> Self {
        let entries = list.get("data").items();
        let is_owner =
            |owner: &str| !entries.is_empty() && entries.iter().all(|entry| entry.get("owned_by").is_text(owner));
        if is_owner("llamacpp") {
            return Self::LlamaCpp;
        }
        if is_owner("organization_owner") {
            return Self::LmStudio;
        }
        if is_owner("vllm") {
            return Self::Vllm;
        }
        let names_only = entries.iter().all(|entry| entry.keys().is_some_and(|keys| keys <= 5));
        if names_only && !entries.is_empty() { Self::Ollama } else { Self::Other }
    }

    /// Whether a model has its context only once it was asked.
    pub(crate) fn loads_models(self) -> bool {
        matches!(self, Self::LlamaCpp | Self::LmStudio | Self::Ollama)
    }
}

/// Fewer tokens than this are no context: a server that says so does not know it.
const LEAST_CONTEXT: u64 = 256;

fn tokens(value: Json<'_>) -> Option<u64> {
    value.number().filter(|tokens| *tokens >= LEAST_CONTEXT)
}

fn has(names: Json<'_>, name: &str) -> bool {
    names.items().iter().any(|entry| entry.is_text(name))
}

/// The models of a list in OpenAI's form, each once. Anthropic adds a title, OpenRouter `context_length`, `supported_parameters` and
/// `pricing` (openrouter.ai/docs: Models API Standard), vLLM `max_model_len` (`ModelCard` in its protocol), llama.cpp `meta.n_ctx`, Groq
/// `context_window`, Mistral `max_context_length`.
pub(crate) fn models(list: Json<'_>) -> Vec<ListedModel> {
    let mut seen = HashSet::new();
    let model = |entry: Json<'_>| {
        let id = entry.get("id").text()?;
        if !seen.insert(id.clone()) {
            return None;
        }
        let title = ["display_name", "name"].iter().find_map(|key| entry.get(key).text());
        let known = ["context_length", "max_model_len", "context_window", "max_context_length"];
        let context =
            known.iter().find_map(|key| tokens(entry.get(key))).or_else(|| tokens(entry.get("meta").get("n_ctx")));
        // The provider that is asked first may serve less than the model has.
        let served = tokens(entry.get("top_provider").get("context_length"));
        let parameters = entry.get("supported_parameters");
        Some(ListedModel {
            title: title.filter(|title| *title != id),
            context_tokens: context.map(|context| served.map_or(context, |served| served.min(context))),
            takes_tools: parameters.is_array().then(|| has(parameters, "tools")),
            price: price(entry.get("pricing")),
            id,
        })
    };
    list.get("data").items().into_iter().filter_map(model).collect()
}

/// OpenRouter's prices: dollars for one token, as texts.
fn price(pricing: Json<'_>) -> Option<Price> {
    let cost = |key: &str| {
        let dollars: f64 = pricing.get(key).text()?.parse().ok()?;
        // Models that choose another have -1.
        Cost::from_units(dollars * 1_000_000.0).filter(|_| dollars >= 0.0)
    };
    let (input, output) = (cost("prompt")?, cost("completion")?);
    let cache_write = cost("input_cache_write").unwrap_or(input);
    Some(Price { input, output, cache_write, cache_read: cost("input_cache_read").unwrap_or(input) })
}

/// Adds what llama.cpp's `/props` says: the context of one slot, and whether the model's template has tools. Where it has none, the
/// server drops the tools without a word (ggml-org/llama.cpp#27129).
pub(crate) fn add_props(model: &mut ListedModel, props: Json<'_>) {
    model.context_tokens = tokens(props.get("default_generation_settings").get("n_ctx")).or(model.context_tokens);
    model.takes_tools = props.get("chat_template_caps").get("supports_tools").truth().or(model.takes_tools);
}

/// Whether it is a list of LM Studio's own: it answers 200 also where it has nothing.
pub(crate) fn is_lm_studio(list: Json<'_>) -> bool {
    list.get("models").is_array() || list.get("data").is_array()
}

/// Adds what LM Studio's own list says (lmstudio.ai/docs/developer/rest/list). A model is called by its name, or by that of a loaded
/// instance.
pub(crate) fn add_lm_studio(models: &mut [ListedModel], list: Json<'_>) {
    let wanted: HashSet<&str> = models.iter().map(|model| &*model.id).collect();
    let (mut by_name, mut by_instance) = (HashMap::new(), HashMap::new());
    let all = ["models", "data"].into_iter().flat_map(|key| list.get(key).items());
    for entry in all.take(MOST_ITEMS) {
        let instances = entry.get("loaded_instances").items();
        let is_wanted = |name: &String| wanted.contains(&**name);
        let names: Vec<String> =
            ["key", "id"].iter().filter_map(|key| entry.get(key).text()).filter(is_wanted).collect();
        let called: Vec<String> = instances.iter().filter_map(|one| one.get("id").text()).filter(is_wanted).collect();
        if names.is_empty() && called.is_empty() {
            continue;
        }
        let described = describe(entry, &instances);
        for name in names {
            by_name.entry(name).or_insert(described);
        }
        for name in called {
            by_instance.entry(name).or_insert(described);
        }
    }
    for model in models {
        if let Some(described) = by_name.get(&model.id).or_else(|| by_instance.get(&model.id)) {
            (model.context_tokens, model.takes_tools) = *described;
        }
    }
}

/// Context and tools. LM Studio offers tools to every model, so one that was not trained for them may still call some; a model that
/// embeds cannot.
fn describe(entry: Json<'_>, instances: &[Json<'_>]) -> (Option<u64>, Option<bool>) {
    let loaded = instances.iter().filter_map(|one| tokens(one.get("config").get("context_length"))).min();
    let capabilities = entry.get("capabilities");
    let is_trained = capabilities.get("trained_for_tool_use").truth() == Some(true) || has(capabilities, "tool_use");
    let embeds = ["embedding", "embeddings"].iter().any(|kind| entry.get("type").is_text(kind));
    let takes_tools = if embeds { Some(false) } else { is_trained.then_some(true) };
    (loaded.or_else(|| tokens(entry.get("loaded_context_length"))), takes_tools)
}

/// What Ollama's `/api/ps` says: the models that are loaded, under each of their names, with the context that they have (`context_length`
/// since ollama/ollama#11331). None, when it is not Ollama's.
pub(crate) fn running(list: Json<'_>) -> Option<HashMap<String, Option<u64>>> {
    let entries = list.get("models");
    let mut running = HashMap::new();
    for entry in entries.items() {
        let context = tokens(entry.get("context_length"));
        for name in ["model", "name"].iter().filter_map(|key| entry.get(key).text()) {
            let short = name.strip_suffix(":latest").map(str::to_owned);
            for name in short.into_iter().chain([name]) {
                running.entry(name).or_insert(context);
            }
        }
    }
    entries.is_array().then_some(running)
}

/// Adds what Ollama's `/api/show` says (docs/api.md of ollama/ollama). The context is the one that the model was loaded with, or that its
/// file sets: what it was trained with is often far more, and Ollama cuts off what does not fit without a word.
pub(crate) fn add_ollama(model: &mut ListedModel, show: Json<'_>, running: &HashMap<String, Option<u64>>) {
    let parameters = show.get("parameters").text().unwrap_or_default();
    let set = parameters.lines().find_map(|line| line.trim().strip_prefix("num_ctx")?.trim().parse().ok());
    let loaded = running.get(&model.id).copied().flatten();
    model.context_tokens = loaded.or(set.filter(|tokens| *tokens >= LEAST_CONTEXT));
    let capabilities = show.get("capabilities");
    model.takes_tools = capabilities.is_array().then(|| has(capabilities, "tools"));
}

#[cfg(test)]
mod tests {
    use serde_json::{
        Value, json,
        value::{RawValue, to_raw_value},
    };

    use super::*;

    fn raw(value: Value) -> Box<RawValue> {
        to_raw_value(&value).expect("a value is JSON")
    }

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
        let found = models((&*raw(json!({ "data": [entry, auto] }))).into());
        assert_eq!((found[0].context_tokens, found[0].takes_tools), (Some(131_072), Some(true)));
        let price = found[0].price.expect("a price");
        assert_eq!((price.input, price.output), (Cost(300_000_000), Cost(1_200_000_000)));
        assert_eq!((found[1].price, found[1].takes_tools), (None, None));
    }

    #[test]
    fn a_list_with_only_names_may_be_ollamas() {
        let of = |entry: Value| Server::of((&*raw(json!({ "object": "list", "data": [entry] }))).into());
        let plain = json!({ "id": "a", "object": "model", "created": 1, "owned_by": "library" });
        assert_eq!(of(plain), Server::Ollama);
        assert_eq!(of(json!({ "id": "a", "owned_by": "llamacpp" })), Server::LlamaCpp);
        assert_eq!(of(json!({ "id": "a", "owned_by": "organization_owner" })), Server::LmStudio);
        let vllm =
            json!({ "id": "a", "object": "model", "created": 1, "owned_by": "vllm", "root": "a", "max_model_len": 8 });
        assert_eq!(of(vllm), Server::Vllm);
        assert_eq!(Server::of((&*raw(json!({ "error": "no" }))).into()), Server::Other);
    }

    /// Context and tools of a model, from `/api/show` and `/api/ps`.
    fn ollama(show: Value, ps: Value) -> (Option<u64>, Option<bool>) {
        let mut model = named("llama3.2");
        let running = running((&*raw(ps)).into()).unwrap_or_default();
        add_ollama(&mut model, (&*raw(show)).into(), &running);
        (model.context_tokens, model.takes_tools)
    }

    #[test]
    fn ollamas_context_is_the_one_it_was_loaded_with() {
        let show = json!({
            "capabilities": ["completion"], "parameters": "stop    \"x\"\nnum_ctx    8192",
            "model_info": { "llama.context_length": 131_072 },
        });
        assert_eq!(ollama(show.clone(), json!({ "models": [] })), (Some(8_192), Some(false)));
        let ps =
            json!({ "models": [{ "name": "llama3.2:latest", "model": "llama3.2:latest", "context_length": 4_096 }] });
        assert_eq!(ollama(show, ps).0, Some(4_096));
        assert_eq!(ollama(json!({ "capabilities": ["completion", "tools"] }), json!({})), (None, Some(true)));
        assert!(running((&*raw(json!({ "error": "no" }))).into()).is_none());
    }

    #[test]
    fn a_context_that_cannot_be_one_is_unknown() {
        for set in ["num_ctx 0", "num_ctx 255", "num_ctx 99999999999999999999999", "num_ctx -1"] {
            assert_eq!(ollama(json!({ "parameters": set }), json!({ "models": [] })).0, None, "{set}");
        }
        assert_eq!(ollama(json!({}), json!({ "models": [{ "name": "llama3.2", "context_length": 1 }] })).0, None);
        let list = raw(json!({ "data": [{ "id": "a", "max_model_len": 1 }, { "id": "b", "max_model_len": 256 }] }));
        let found: Vec<_> = models((&*list).into()).iter().map(|model| model.context_tokens).collect();
        assert_eq!(found, [None, Some(256)]);
    }

    #[test]
    fn what_is_of_another_kind_hides_no_model() {
        let list = raw(json!({ "data": [
            1, null, "x", { "id": 5 }, { "id": "a" }, { "id": "a", "context_length": 512 },
            { "id": "m", "context_length": { "a": 1 }, "supported_parameters": "tools", "top_provider": 5, "name": ["x"] },
        ] }));
        let ids: Vec<_> = models((&*list).into()).into_iter().map(|model| (model.id, model.context_tokens)).collect();
        assert_eq!(ids, [("a".into(), None), ("m".into(), None)]);
    }

    /// With a comparison of each model with each entry this would take hours.
    #[test]
    fn the_longest_lists_of_lm_studio_are_read_in_one_go() {
        let entries = |count: usize| (0..count).map(|at| json!({ "id": at.to_string() })).collect::<Vec<_>>();
        let list = raw(json!({ "data": entries(80_000) }));
        let mut listed = models((&*list).into());
        assert_eq!(listed.len(), MOST_ITEMS);
        let instances: Vec<Value> =
            (0..60_000).map(|at| json!({ "id": at.to_string(), "config": { "context_length": 1_000 } })).collect();
        let mut own = vec![json!({}); 300_000];
        own[9_999] = json!({ "key": "x", "loaded_instances": instances });
        own[10_000] = json!({ "key": "3", "type": "embedding" });
        add_lm_studio(&mut listed, (&*raw(json!({ "models": own }))).into());
        assert_eq!((listed[9_999].context_tokens, listed[3].takes_tools), (Some(1_000), None));
    }

    #[test]
    fn lm_studios_context_is_that_of_what_is_loaded_in_both_of_its_lists() {
        let new = json!({ "models": [
            { "type": "llm", "key": "qwen", "max_context_length": 262_144, "capabilities": { "trained_for_tool_use": true },
              "loaded_instances": [{ "id": "qwen:2", "config": { "context_length": 16_384 } }] },
            { "type": "embedding", "key": "nomic", "loaded_instances": [] },
        ] });
        let mut models = [named("qwen"), named("qwen:2"), named("nomic"), named("other")];
        add_lm_studio(&mut models, (&*raw(new)).into());
        let found = models.map(|model| (model.context_tokens, model.takes_tools));
        assert_eq!(found, [(Some(16_384), Some(true)), (Some(16_384), Some(true)), (None, Some(false)), (None, None)]);
        let old = json!({ "data": [
            { "id": "qwen", "type": "llm", "state": "loaded", "max_context_length": 262_144, "loaded_context_length": 8_192,
              "capabilities": ["tool_use"] },
        ] });
        let mut models = [named("qwen")];
        add_lm_studio(&mut models, (&*raw(old)).into());
        assert_eq!((models[0].context_tokens, models[0].takes_tools), (Some(8_192), Some(true)));
    }
}
