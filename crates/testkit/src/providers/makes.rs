//! Servers of others that speak Chat Completions, each in its own way: what they say of their models, what they reject, and what they add
//! to an answer.

mod azure;
mod llama_cpp;
mod lm_studio;
mod ollama;
mod openrouter;
mod vllm;

use hyper::Method;
use serde_json::{Value, json};

use super::{
    Asked, Refusal, Reply, Settings,
    chat::{self, Calls, Voice},
    openai,
};

/// Who made a server that speaks Chat Completions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Make {
    /// OpenAI.
    #[default]
    Openai,
    /// Azure OpenAI: a deployment in the path, a version in the query, the key in `api-key`.
    Azure,
    /// OpenRouter.
    OpenRouter,
    /// Ollama.
    Ollama,
    /// llama.cpp's `llama-server`.
    LlamaCpp,
    /// vLLM.
    Vllm,
    /// LM Studio.
    LmStudio,
}

/// A model that a server has.
#[derive(Debug, Clone)]
pub struct ServedModel {
    /// Its name there.
    pub id: String,
    /// The tokens that fit, as it is loaded.
    pub context: u64,
    /// Whether it can call tools.
    pub takes_tools: bool,
    /// Whether it is in memory, for servers that load models when they are asked.
    pub is_loaded: bool,
}

impl ServedModel {
    /// A model that is loaded and takes tools.
    pub fn new(id: &str, context: u64) -> Self {
        Self { id: id.into(), context, takes_tools: true, is_loaded: true }
    }

    /// The same, without tools.
    #[must_use]
    pub fn without_tools(mut self) -> Self {
        self.takes_tools = false;
        self
    }

    /// The same, not in memory.
    #[must_use]
    pub fn not_loaded(mut self) -> Self {
        self.is_loaded = false;
        self
    }
}

/// Answers a request that asks for no turn: its models, method, path, query and body. Nothing, when the server has no such address.
pub(super) type Own = fn(&[ServedModel], &Method, &str, &str, &Value) -> Option<Result<Value, Refusal>>;

/// The ways of a server.
pub(super) struct Ways {
    /// Where turns are asked for.
    pub(super) is_turn: fn(&str) -> bool,
    /// The header with the key; a bearer when absent.
    pub(super) key_header: Option<&'static str>,
    /// What it answers elsewhere.
    pub(super) own: Own,
    /// Rejects what the real one rejects.
    pub(super) check: fn(&[ServedModel], &Asked) -> Result<(), Refusal>,
    /// What it does with a request before the model sees it.
    pub(super) prepare: fn(&[ServedModel], &mut Asked),
    /// How it speaks.
    pub(super) voice: fn(&Asked, &Reply) -> Voice,
    pub(super) error: fn(&Refusal) -> Value,
}

/// OpenAI's own.
static OPENAI: Ways = Ways {
    is_turn: |path| path == "/v1/chat/completions",
    key_header: None,
    own: |_, method, path, _, _| {
        let is_list = *method == Method::GET && matches!(path, "/v1/models" | "/models");
        is_list.then(|| Ok(openai::models()))
    },
    check: |_, asked| openai::check(asked),
    prepare: |_, _| {},
    voice: |asked, _| openai::voice(asked),
    error: chat::error,
};

impl Make {
    pub(super) fn ways(self) -> &'static Ways {
        match self {
            Self::Openai => &OPENAI,
            Self::Azure => &azure::WAYS,
            Self::OpenRouter => &openrouter::WAYS,
            Self::Ollama => &ollama::WAYS,
            Self::LlamaCpp => &llama_cpp::WAYS,
            Self::Vllm => &vllm::WAYS,
            Self::LmStudio => &lm_studio::WAYS,
        }
    }
}

impl Settings {
    /// A server of this make with these models.
    pub fn of(make: Make, models: impl IntoIterator<Item = ServedModel>) -> Self {
        Self { make, models: models.into_iter().collect(), ..Self::new(super::Shape::Openai) }
    }

    /// The same, which never says what a turn took.
    #[must_use]
    pub fn without_usage(mut self) -> Self {
        self.counts = false;
        self
    }
}

/// How a server speaks that has nothing of its own.
fn plain_voice(reply: &Reply, reasoning_key: &'static str) -> Voice {
    Voice {
        reasoning: reply.thinking.clone(),
        reasoning_key,
        thinks: None,
        calls: Calls::InPieces,
        before: Vec::new(),
        counts: true,
        count: |usage, [_, _, _, read]| usage["prompt_tokens_details"] = json!({ "cached_tokens": read }),
    }
}

fn find<'a>(models: &'a [ServedModel], id: &str) -> Option<&'a ServedModel> {
    models.iter().find(|model| model.id == id)
}

fn wants_tools(asked: &Asked) -> bool {
    !asked.tools().is_empty()
}

/// About as many tokens as a request has.
fn prompt_tokens(asked: &Asked) -> u64 {
    asked.body["messages"].to_string().len() as u64 / 4
}
