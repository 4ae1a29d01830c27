//! Model servers on this machine: whether one answers, which it is, and what it has.

use std::{sync::Arc, time::Duration};

use drawloom_contract::{model::ListedModel, time::Clock};
use futures::future;

use crate::{Driver, Options, ProviderConfig, listing::Server, open_remote, openai::Openai};

/// Where they usually listen: Ollama, LM Studio, llama.cpp, vLLM.
pub const LOCAL_ADDRESSES: [&str; 4] = ["127.0.0.1:11434", "127.0.0.1:1234", "127.0.0.1:8080", "127.0.0.1:8000"];

/// How long one may take to say what it has.
const TIMEOUT: Duration = Duration::from_secs(2);

/// A model server that answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalServer {
    /// What people call it.
    pub title: &'static str,
    /// A name for it in a config.
    pub provider: &'static str,
    /// The `base_url` of driver `openai`.
    pub base_url: String,
    /// The model to use: one that takes tools and is loaded, if there is one. None, when no model can be asked by an agent.
    pub model: Option<ListedModel>,
}

/// The servers at these addresses that answer, in their order. All are asked at once.
pub async fn find_local(addresses: &[String], clock: Arc<dyn Clock>) -> Vec<LocalServer> {
    let found = addresses.iter().map(|address| find_at(address, clock.clone()));
    future::join_all(found).await.into_iter().flatten().collect()
}

async fn find_at(address: &str, clock: Arc<dyn Clock>) -> Option<LocalServer> {
    let base_url = format!("http://{address}/v1");
    let config = ProviderConfig {
        driver: Driver::Openai,
        base_url: Some(base_url.clone()),
        api_key_env: None,
        max_concurrent: None,
        options: Options::default(),
    };
    let remote = open_remote("local", &Openai, &config, None, clock).ok()?;
    let (server, models) = remote.within(TIMEOUT, remote.survey(None)).await?.ok()?;
    if models.is_empty() {
        return None;
    }
    let (title, provider) = match server {
        Server::Ollama => ("Ollama", "ollama"),
        Server::LmStudio => ("LM Studio", "lmstudio"),
        Server::LlamaCpp => ("llama.cpp", "llamacpp"),
        Server::Vllm => ("vLLM", "vllm"),
        Server::Other => ("a model server", "local"),
    };
    Some(LocalServer { title, provider, base_url, model: best(models) })
}

/// Maximum characters of a model name that `init` chooses by itself.
const MOST_NAME: usize = 200;

/// Whether a name can be shown in one line and be what it looks like: servers name their models as they like.
fn is_plain(name: &str) -> bool {
    // Signs that have no width, that break lines, or that change the direction of text.
    let is_hidden = |sign: char| {
        matches!(sign, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
            || matches!(sign, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff0}'..='\u{ffff}' | '\u{e0000}'..='\u{10ffff}')
    };
    let is_short = name.chars().nth(MOST_NAME).is_none();
    is_short && !name.trim().is_empty() && !name.chars().any(|sign| sign.is_control() || is_hidden(sign))
}

/// The first model that is surely fit for an agent, else the first that may be.
fn best(models: Vec<ListedModel>) -> Option<ListedModel> {
    let is_chat = |model: &ListedModel| !["embed", "rerank", "whisper"].iter().any(|word| model.id.contains(word));
    let is_usable = |model: &ListedModel| model.takes_tools != Some(false) && is_chat(model) && is_plain(&model.id);
    let usable = models.into_iter().filter(is_usable);
    let fitness = |model: &ListedModel| (model.takes_tools == Some(true), model.context_tokens.is_some());
    // Of equals the first: servers list the newest first.
    usable.reduce(|best, next| if fitness(&next) > fitness(&best) { next } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_that_surely_takes_tools_and_is_loaded_comes_first() {
        let model = |id: &str, takes_tools: Option<bool>, context_tokens: Option<u64>| ListedModel {
            id: id.into(),
            takes_tools,
            context_tokens,
            ..ListedModel::default()
        };
        let id = |models: Vec<ListedModel>| best(models).map(|model| model.id);
        let no = model("gemma", Some(false), Some(8));
        let unknown = model("phi", None, None);
        let loaded = model("qwen", Some(true), Some(8));
        let cold = model("llama", Some(true), None);
        let embeds = model("nomic-embed-text", None, Some(8));
        assert_eq!(
            id(vec![no.clone(), embeds.clone(), unknown.clone(), cold.clone(), loaded]).as_deref(),
            Some("qwen")
        );
        assert_eq!(id(vec![unknown.clone(), cold.clone(), model("b", Some(true), None)]).as_deref(), Some("llama"));
        assert_eq!(id(vec![unknown, no.clone()]).as_deref(), Some("phi"));
        assert_eq!(id(vec![no, embeds]), None);
    }

    #[test]
    fn a_model_whose_name_is_no_plain_line_is_not_chosen() {
        let chosen = |id: &str| best(vec![ListedModel { id: id.into(), ..ListedModel::default() }]).is_some();
        for id in
            ["", " ", "a\nb", "a\u{2028}b", "a\u{1b}[31m", "a\u{202e}b", "a\u{200b}", "a\u{9b}b", &"é".repeat(201)]
        {
            assert!(!chosen(id), "{id:?}");
        }
        for id in ["qwen3:8b", "hf.co/maker/Model-GGUF:Q4_K_M", "mein modell", "模型", "a$b", &"é".repeat(200)] {
            assert!(chosen(id), "{id:?}");
        }
    }
}
