//! The config section `pricing`.

use std::collections::BTreeMap;

use drawloom_contract::{
    choice::ModelName,
    money::{Amount, Price},
};
use drawloom_substrate::{Problem, did_you_mean};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Prices of models.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Pricing {
    /// The currency of all amounts: it is shown, and nothing is converted.
    #[schemars(extend("x-harmless" = "text for people and models"))]
    pub currency: String,
    /// Prices by `provider/model`; they override the known ones.
    pub models: BTreeMap<String, ModelPrice>,
}

impl Default for Pricing {
    fn default() -> Self {
        Self { currency: "USD".into(), models: BTreeMap::new() }
    }
}

/// Price of a model per million tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelPrice {
    /// Tokens read, not from a cache.
    #[schemars(extend("x-harmless" = "only counts cost"))]
    pub input: Amount,
    /// Tokens written.
    #[schemars(extend("x-harmless" = "only counts cost"))]
    pub output: Amount,
    /// Tokens written to the provider's cache; defaults to `input`.
    #[serde(default)]
    #[schemars(extend("x-harmless" = "only counts cost"))]
    pub cache_write: Option<Amount>,
    /// Tokens read from the provider's cache; defaults to `input`.
    #[serde(default)]
    #[schemars(extend("x-harmless" = "only counts cost"))]
    pub cache_read: Option<Amount>,
}

impl Pricing {
    /// The prices by model, or what is wrong with them.
    pub(crate) fn prices(&self, providers: &[String]) -> Result<BTreeMap<ModelName, Price>, Vec<Problem>> {
        let mut prices = BTreeMap::new();
        let mut problems = Vec::new();
        for (key, price) in &self.models {
            let at = ["pricing", "models", key];
            match key.split_once('/') {
                Some((provider, model)) if providers.iter().any(|known| known == provider) => {
                    prices.insert(ModelName::new(provider, model), price.price());
                }
                Some((provider, _)) => {
                    let hint = did_you_mean(provider, providers.iter().map(String::as_str));
                    let problem = Problem::new(at, format!("unknown provider {provider:?}"));
                    problems.push(Problem {
                        hint: hint.or_else(|| Some("add it under `providers`".into())),
                        unknown: Some(("providers", provider.to_owned())),
                        ..problem
                    });
                }
                None => {
                    let problem = Problem::new(at, format!("{key:?} is not of the form provider/model"));
                    problems.push(problem.with_hint("write it like \"anthropic/claude-sonnet-4-5\""));
                }
            }
        }
        if problems.is_empty() { Ok(prices) } else { Err(problems) }
    }
}

impl ModelPrice {
    fn price(&self) -> Price {
        let or_input = |amount: Option<Amount>| amount.unwrap_or(self.input).0;
        Price {
            input: self.input.0,
            output: self.output.0,
            cache_write: or_input(self.cache_write),
            cache_read: or_input(self.cache_read),
        }
    }
}
