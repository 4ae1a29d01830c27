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
    /// Where it is, when not at the driver's usual address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// The name of the environment variable that holds the key; never the key itself.
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
}
