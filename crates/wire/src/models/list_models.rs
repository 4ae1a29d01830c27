//! `list_models`: the models that agents can ask.

use std::collections::BTreeMap;

use drawloom_contract::{
    model,
    money::{Amount, Price},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::request::{Changes, Request, Route};

/// Lists the models that agents can ask.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListModels {
    /// Asks this provider which models it has, too: one call, with its key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 200), pattern(r"^[A-Za-z0-9._-]+$"))]
    pub remote: Option<String>,
}

/// The models that the config names, and what is known of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelList {
    /// The currency of all prices.
    pub currency: String,
    /// Every model that an alias, a tier or an agent names.
    pub models: Vec<Model>,
    /// The providers.
    pub providers: Vec<Provider>,
    /// The candidates of each tier, in order of preference, as `provider/model`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tiers: BTreeMap<String, Vec<String>>,
    /// Settings for kinds of users, if they differ.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub user_tiers: BTreeMap<String, UserTier>,
    /// What the provider says that it has, when it was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<Vec<ListedModel>>,
}

/// A model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Model {
    /// The provider, by its id in the config.
    pub provider: String,
    /// The model's name there.
    pub model: String,
    /// Its short names.
    pub aliases: Vec<String>,
    /// Tiers that have it as a candidate.
    pub tiers: Vec<String>,
    /// Agents that ask it, or may fall back on it.
    pub agents: Vec<String>,
    /// Tokens that fit in one conversation, when that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<u64>,
    /// Output tokens of a turn, unless the agent says otherwise.
    pub max_tokens: u32,
    /// Whether it can think before it answers.
    pub thinks: bool,
    /// Whether it thinks also while tools are on offer.
    #[serde(default)]
    pub thinks_with_tools: bool,
    /// Whether it sees images.
    pub vision: bool,
    /// Price per million tokens, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<ModelPrice>,
}

/// Price of a model per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelPrice {
    /// Tokens read, not from a cache.
    pub input: Amount,
    /// Tokens written.
    pub output: Amount,
    /// Tokens written to the provider's cache.
    pub cache_write: Amount,
    /// Tokens read from the provider's cache.
    pub cache_read: Amount,
}

impl Request for ListModels {
    const NAME: &'static str = "list_models";
    const ROUTES: &'static [Route] = &[Route::get("/v1/_models"), Route::get("/v1/models")];
    const CHANGES: Changes = Changes::Nothing;
    type Output = ModelList;
}

impl From<Price> for ModelPrice {
    fn from(price: Price) -> Self {
        Self {
            input: Amount(price.input),
            output: Amount(price.output),
            cache_write: Amount(price.cache_write),
            cache_read: Amount(price.cache_read),
        }
    }
}

/// A provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Provider {
    /// Its id in the config.
    pub id: String,
    /// Which API it speaks.
    pub driver: String,
    /// Whether it has its key.
    pub key: Key,
    /// The environment variable that holds the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_env: Option<String>,
}

/// Whether a provider has its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Key {
    /// It has.
    Set,
    /// Its variable is not set, so its models cannot be asked.
    Missing,
    /// It needs none.
    None,
}

/// Settings for a kind of users.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UserTier {
    /// Whether a run asks another candidate when one fails.
    pub fallback: bool,
    /// The candidates of its tiers that differ from the common ones, in order of preference.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tiers: BTreeMap<String, Vec<String>>,
}

/// A model that a provider says it has.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListedModel {
    /// Its name there.
    pub id: String,
    /// What it is called, when it is called otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Tokens that fit in one conversation as the provider serves it now, when it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<u64>,
    /// Whether it can call tools, when the provider says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub takes_tools: Option<bool>,
    /// Price per million tokens, in dollars, when the provider says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<ModelPrice>,
}

impl From<model::ListedModel> for ListedModel {
    fn from(listed: model::ListedModel) -> Self {
        let model::ListedModel { id, title, context_tokens, takes_tools, price } = listed;
        Self { id, title, context_tokens, takes_tools, price: price.map(ModelPrice::from) }
    }
}
