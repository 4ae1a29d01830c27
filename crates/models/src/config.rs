//! The config section `providers`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::script::Rule;

/// A provider of models.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProviderConfig {
    /// Which API it speaks.
    pub driver: Driver,
    /// Where it is, when not at the driver's usual address; with or without `/v1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// The name of the environment variable that holds the key; never the key itself. A server at a `base_url` may need
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// Most runs with a slot at once on this provider; no cap when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_concurrent: Option<u32>,
    /// What only its driver knows.
    #[serde(default)]
    pub options: Options,
}

/// A model API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Driver {
    /// Anthropic's Messages API, and servers that speak it.
    Anthropic,
    /// OpenAI's Chat Completions API, and servers that speak it.
    Openai,
    /// DeepSeek's API: Chat Completions with rules of its own for reasoning.
    Deepseek,
    /// Rules in the config choose what the model says: for demos, tests and load.
    Script,
}

/// Options of the drivers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// `script`: what chance depends on; the same seed gives the same run.
    pub seed: u64,
    /// `script`: the first rule that fits says what happens. Without rules the model repeats its prompt.
    pub rules: Vec<Rule>,
    /// All but `script`: how long an answer may take to begin, in milliseconds; 60,000 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub header_timeout_ms: Option<u64>,
    /// All but `script`: how long a stream may be silent, in milliseconds; 90,000 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub idle_timeout_ms: Option<u64>,
    /// All but `script`: what the provider's models can do, where that is not what their names say.
    #[serde(skip_serializing_if = "Capabilities::is_empty")]
    pub capabilities: Capabilities,
}

/// What the models of a provider can do; what is absent is taken from their names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Capabilities {
    /// Whether they can think before they answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supports_thinking: Option<bool>,
    /// Whether they see images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supports_vision: Option<bool>,
    /// Whether the provider keeps a cache of what it has read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub native_prompt_cache: Option<bool>,
    /// Whether they may ask for several tool calls in one turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel_tool_calls: Option<bool>,
    /// Tokens that fit in one conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_context_tokens: Option<u64>,
}

impl Capabilities {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Options {
    /// The first option that is set and that only the script knows.
    pub(crate) fn of_script(&self) -> Option<&'static str> {
        let given = [("options.seed", self.seed != 0), ("options.rules", !self.rules.is_empty())];
        given.into_iter().find_map(|(key, given)| given.then_some(key))
    }

    /// The first option that is set and that the script does not know.
    pub(crate) fn of_others(&self) -> Option<&'static str> {
        let given = [
            ("options.header_timeout_ms", self.header_timeout_ms.is_some()),
            ("options.idle_timeout_ms", self.idle_timeout_ms.is_some()),
            ("options.capabilities", !self.capabilities.is_empty()),
        ];
        given.into_iter().find_map(|(key, given)| given.then_some(key))
    }
}
