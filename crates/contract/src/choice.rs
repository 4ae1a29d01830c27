//! Which model a run asks, and what it asks of it.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Number;

use crate::named::named;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ModelName {
    /// The provider, by its id in the config.
    pub provider: String,
    pub model: String,
}

impl ModelName {
    pub fn new(provider: impl Into<String>, model: impl Into<String>) -> Self {
        Self { provider: provider.into(), model: model.into() }
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.model)
    }
}

/// The models that runs of one user tier may ask, in order of preference.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// The first is asked; the others when it fails, if that is allowed.
    pub candidates: Vec<ModelName>,
    /// When a run may change to another candidate; never, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<Fallback>,
    /// Maximum retries of a turn, when the tier says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_attempts: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fallback {
    pub max_attempts: u32,
    /// How long a provider that refused is left alone, unless it says how long itself.
    pub cooldown_ms: u64,
}

/// What a run may ask of whom, as it was accepted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelPlan {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_tier: Option<String>,
    /// The models it may ask, in order; the accepted one alone, when empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<ModelName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<Fallback>,
    /// Maximum retries of a turn; what the definition says, when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_attempts: Option<u32>,
    /// The request's sampling over the definition's.
    #[serde(skip_serializing_if = "Sampling::is_empty")]
    pub sampling: Sampling,
}

named! {
    /// Reasoning effort of a model.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum Effort {
        /// Little or not at all.
        Low = "low",
        /// Some.
        Medium = "medium",
        /// Much.
        High = "high",
    }
}

/// Sampling parameters of a model. Defaults are those of the provider.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Sampling {
    /// Randomness, from 0 to 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<f64>", range(min = 0, max = 2))]
    pub temperature: Option<Number>,
    /// Consider only the likeliest tokens with this total probability.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<f64>", range(min = 0, max = 1))]
    pub top_p: Option<Number>,
    /// Consider only this many of the likeliest tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub top_k: Option<u32>,
    /// Penalty for frequent tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<f64>", range(min = -2, max = 2))]
    pub frequency_penalty: Option<Number>,
    /// Penalty for repeated tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<f64>", range(min = -2, max = 2))]
    pub presence_penalty: Option<Number>,
    /// Random seed, if the provider supports one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// Texts that end a turn, at most 8.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8))]
    pub stop: Option<Vec<String>>,
}

impl Sampling {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
