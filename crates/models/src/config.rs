//! The config section `providers`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::script::Rule;

/// A provider of models.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProviderConfig {
    /// The API of the provider.
    #[schemars(extend("x-power" = { "words": "sends prompts to {}", "as": "driver" }))]
    pub driver: Driver,
    /// Base URL, if not the driver's default; with or without `/v1`. A query in it is sent with every call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-power" = { "words": "sends prompts to {}", "as": "address" }))]
    pub base_url: Option<String>,
    /// The name of the environment variable with the API key; never the key itself. A server at a `base_url` may need
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-power" = { "words": "sends the provider the key in {}", "as": "variable" }))]
    pub api_key_env: Option<String>,
    /// Maximum concurrent runs on this provider; no limit by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    #[schemars(extend("x-harmless" = "a limit"))]
    pub max_concurrent: Option<u32>,
    /// Driver-specific options.
    #[serde(default)]
    pub options: Options,
}

/// A model API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Driver {
    /// Anthropic's Messages API, and compatible servers.
    Anthropic,
    /// OpenAI's Chat Completions API, and compatible servers.
    Openai,
    /// DeepSeek's API: Chat Completions with its own rules for reasoning.
    Deepseek,
    /// Responses scripted by rules in the config, for demos, tests and load tests.
    Script,
}

/// Options of the drivers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// `script`: seed for random choices; the same seed gives the same run.
    #[schemars(extend("x-harmless" = "a script in place of a model"))]
    pub seed: u64,
    /// `script`: the first matching rule applies. Without rules the model repeats its prompt.
    #[schemars(extend("x-harmless" = "a script in place of a model: the tools that it calls have the gates of its agent"))]
    pub rules: Vec<Rule>,
    /// `openai`: which of OpenAI's APIs to use. `responses` is the default at OpenAI's own address, `chat` (Chat Completions) elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-harmless" = "how requests to the model are written"))]
    pub api: Option<OpenaiApi>,
    /// `openai` with `responses`: how summaries of the reasoning are asked for; default `auto`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-harmless" = "what requests to the model contain"))]
    pub reasoning_summary: Option<Summary>,
    /// All but `script`: the header that carries the API key, such as `api-key` of Azure; as the driver usually sends it by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-harmless" = "the same key goes to the same address"))]
    pub key_header: Option<String>,
    /// All but `script`: timeout until a response starts, in milliseconds; default 60,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    #[schemars(extend("x-harmless" = "a limit"))]
    pub header_timeout_ms: Option<u64>,
    /// All but `script`: timeout without data in a response stream, in milliseconds; default 90,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    #[schemars(extend("x-harmless" = "a limit"))]
    pub idle_timeout_ms: Option<u64>,
    /// All but `script`: capabilities of the provider's models, to override what their names imply.
    #[serde(skip_serializing_if = "Capabilities::is_empty")]
    pub capabilities: Capabilities,
}

/// One of OpenAI's APIs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OpenaiApi {
    /// The Responses API: models think also with tools.
    Responses,
    /// Chat Completions, which many servers speak.
    Chat,
}

/// How summaries of the reasoning are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Summary {
    /// The best that the model has.
    Auto,
    /// Short.
    Concise,
    /// Long.
    Detailed,
    /// Not at all: OpenAI shows summaries of some models only to organizations that it has verified.
    None,
}

impl Summary {
    pub(crate) fn name(self) -> Option<&'static str> {
        match self {
            Self::Auto => Some("auto"),
            Self::Concise => Some("concise"),
            Self::Detailed => Some("detailed"),
            Self::None => None,
        }
    }
}

/// Capabilities of the models of a provider. Defaults are derived from the model names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Capabilities {
    /// Whether they support reasoning.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-harmless" = "what requests to the model contain"))]
    pub supports_thinking: Option<bool>,
    /// Whether they support images.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-harmless" = "what requests to the model contain"))]
    pub supports_vision: Option<bool>,
    /// Whether the provider has a prompt cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-harmless" = "what requests to the model contain"))]
    pub native_prompt_cache: Option<bool>,
    /// Whether they support several tool calls in one turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-harmless" = "what requests to the model contain"))]
    pub parallel_tool_calls: Option<bool>,
    /// Whether they can call tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-harmless" = "what requests to the model contain"))]
    pub supports_tools: Option<bool>,
    /// Context window, in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    #[schemars(extend("x-harmless" = "what requests to the model contain"))]
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

    /// The first option that is set and that only the driver `openai` knows.
    pub(crate) fn of_openai(&self) -> Option<&'static str> {
        let given =
            [("options.api", self.api.is_some()), ("options.reasoning_summary", self.reasoning_summary.is_some())];
        given.into_iter().find_map(|(key, given)| given.then_some(key))
    }

    /// The first option that is set and that only the Responses API knows.
    pub(crate) fn of_responses(&self) -> Option<&'static str> {
        let given = [
            ("options.api", self.api == Some(OpenaiApi::Responses)),
            ("options.reasoning_summary", self.reasoning_summary.is_some()),
        ];
        given.into_iter().find_map(|(key, given)| given.then_some(key))
    }

    /// The first option that is set and that the script does not know.
    pub(crate) fn of_others(&self) -> Option<&'static str> {
        let given = [
            ("options.api", self.api.is_some()),
            ("options.reasoning_summary", self.reasoning_summary.is_some()),
            ("options.key_header", self.key_header.is_some()),
            ("options.header_timeout_ms", self.header_timeout_ms.is_some()),
            ("options.idle_timeout_ms", self.idle_timeout_ms.is_some()),
            ("options.capabilities", !self.capabilities.is_empty()),
        ];
        given.into_iter().find_map(|(key, given)| given.then_some(key))
    }
}
