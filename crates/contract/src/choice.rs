//! Which model a run asks, what it asks of it, and what that costs.

use std::{
    fmt,
    ops::{Add, AddAssign},
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Number;

use crate::usage::Usage;

/// A model at a provider.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ModelName {
    /// The provider, by its id in the config.
    pub provider: String,
    /// The model's name there.
    pub model: String,
}

impl ModelName {
    /// `model` at `provider`.
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
    /// Most tries of a turn again, when the tier says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_attempts: Option<u32>,
}

/// When a run may change to another model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fallback {
    /// Most changes in one run.
    pub max_attempts: u32,
    /// How long a provider that refused is left alone, unless it says how long itself.
    pub cooldown_ms: u64,
}

/// What a run may ask of whom, as it was accepted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelPlan {
    /// The caller's user tier, when there are tiers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_tier: Option<String>,
    /// The models it may ask, in order; the accepted one alone, when empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<ModelName>,
    /// When it may change to another of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<Fallback>,
    /// Most tries of a turn again; what the definition says, when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_attempts: Option<u32>,
    /// How the model picks words: the request's wishes over the definition's.
    #[serde(skip_serializing_if = "Sampling::is_empty")]
    pub sampling: Sampling,
}

impl ModelPlan {
    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// How hard a model should think.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// Little or not at all.
    Low,
    /// Some.
    Medium,
    /// Much.
    High,
}

impl Effort {
    /// Its name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// How a model picks its words; what is absent is the provider's default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Sampling {
    /// From 0, the likeliest word, to 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<f64>", range(min = 0, max = 2))]
    pub temperature: Option<Number>,
    /// Only the likeliest words that together have this probability.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<f64>", range(min = 0, max = 1))]
    pub top_p: Option<Number>,
    /// Only this many of the likeliest words.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub top_k: Option<u32>,
    /// Against words that came often.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<f64>", range(min = -2, max = 2))]
    pub frequency_penalty: Option<Number>,
    /// Against words that came at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<f64>", range(min = -2, max = 2))]
    pub presence_penalty: Option<Number>,
    /// What chance depends on, where the provider takes one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// Texts that end a turn, at most 8.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8))]
    pub stop: Option<Vec<String>>,
}

impl Sampling {
    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// `self`, and for what it leaves out, `other`.
    #[must_use]
    pub fn or(self, other: &Self) -> Self {
        Self {
            temperature: self.temperature.or_else(|| other.temperature.clone()),
            top_p: self.top_p.or_else(|| other.top_p.clone()),
            top_k: self.top_k.or(other.top_k),
            frequency_penalty: self.frequency_penalty.or_else(|| other.frequency_penalty.clone()),
            presence_penalty: self.presence_penalty.or_else(|| other.presence_penalty.clone()),
            seed: self.seed.or(other.seed),
            stop: self.stop.or_else(|| other.stop.clone()),
        }
    }
}

/// Money: billionths of the currency that the config names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cost(pub u64);

impl Cost {
    /// That many units of the currency; nothing that is not a number from 0 up.
    pub fn from_units(units: f64) -> Option<Self> {
        let nanos = (units * 1e9).round();
        (nanos.is_finite() && (0.0..=9.2e18).contains(&nanos)).then_some(Self(nanos as u64))
    }

    /// In units of the currency.
    pub fn units(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// What a budget counts: tokens, read and written, and money.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// Tokens.
    pub tokens: u64,
    /// Money.
    pub cost: Cost,
}

impl Add for Spent {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { tokens: self.tokens.saturating_add(other.tokens), cost: self.cost + other.cost }
    }
}

/// What a million tokens of each kind cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Price {
    /// Tokens read, not from a cache.
    pub input: Cost,
    /// Tokens written.
    pub output: Cost,
    /// Tokens written to the provider's cache.
    pub cache_write: Cost,
    /// Tokens read from the provider's cache.
    pub cache_read: Cost,
}

impl Price {
    /// What `usage` costs, rounded up.
    pub fn of(&self, usage: &Usage) -> Cost {
        let parts = [
            (usage.input_tokens, self.input),
            (usage.output_tokens, self.output),
            (usage.cache_creation_input_tokens, self.cache_write),
            (usage.cache_read_input_tokens, self.cache_read),
        ];
        let millionths: u128 = parts.iter().map(|(tokens, price)| u128::from(*tokens) * u128::from(price.0)).sum();
        Cost(u64::try_from(millionths.div_ceil(1_000_000)).unwrap_or(u64::MAX))
    }

    /// The most that reading `input` tokens and writing `output` can cost, whatever the cache does.
    pub fn at_most(&self, input: u64, output: u64) -> Cost {
        let dearest = self.input.max(self.cache_write).max(self.cache_read);
        let price = Self { input: dearest, ..*self };
        price.of(&Usage { input_tokens: input, output_tokens: output, ..Usage::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_costs_what_its_tokens_cost_rounded_up() {
        let dollars = |units: f64| Cost::from_units(units).expect("a price");
        let price =
            Price { input: dollars(3.0), output: dollars(15.0), cache_write: dollars(3.75), cache_read: dollars(0.3) };
        let usage = Usage {
            input_tokens: 1_000,
            output_tokens: 100,
            cache_creation_input_tokens: 10,
            cache_read_input_tokens: 10_000,
        };
        assert_eq!(price.of(&usage), Cost(3_000_000 + 1_500_000 + 37_500 + 3_000_000));
        assert_eq!(price.at_most(1_000, 100), Cost(3_750_000 + 1_500_000));
        assert_eq!(price.of(&Usage { cache_read_input_tokens: 1, ..Usage::default() }), Cost(300));
        assert_eq!([Cost::from_units(-1.0), Cost::from_units(f64::NAN), Cost::from_units(1e300)], [None; 3]);
    }
}
