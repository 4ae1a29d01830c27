//! Which models agents may ask: aliases, tiers, and the tiers of users.

use std::collections::BTreeMap;

use drawloom_contract::{
    choice::{Choice, Fallback, ModelName},
    definition::DEFAULT_USER_TIER,
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::{
    agents::{AgentConfig, ModelChoice},
    catalog::{Inputs, choose},
    hint::did_you_mean,
    problem::Problem,
};

/// Model tiers, by quality and price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// For simple work.
    Low,
    /// For ordinary work.
    Middle,
    /// For the hardest work.
    High,
}

impl Tier {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Middle => "middle",
            Self::High => "high",
        }
    }
}

/// A model that a tier may use: an alias from `models`, or a provider and a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Candidate {
    /// An alias.
    Alias(String),
    /// A provider and a model.
    Named(ModelChoice),
}

/// The candidates of each tier, in order of preference.
pub type Tiers = BTreeMap<Tier, Vec<Candidate>>;

/// The schema of [`Tiers`]: only the names of tiers are keys.
pub fn tiers_schema(generator: &mut SchemaGenerator) -> Schema {
    let candidates = generator.subschema_for::<Vec<Candidate>>();
    json_schema!({
        "type": "object",
        "properties": { "low": candidates, "middle": candidates, "high": candidates },
        "additionalProperties": false,
    })
}

/// Model settings for a kind of users.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct UserTier {
    /// Use only these providers, in this order; defaults to the top-level list.
    #[schemars(extend("x-harmless" = "chooses among the providers, which are listed"))]
    pub provider_priority: Option<Vec<String>>,
    /// Candidates by tier, instead of the top-level ones.
    #[schemars(schema_with = "tiers_schema")]
    #[schemars(extend("x-harmless" = "chooses among the providers, which are listed"))]
    pub tiers: Tiers,
    /// Whether a run falls back to another candidate when one fails, is overloaded or rate limited.
    #[schemars(extend("x-harmless" = "chooses among the providers, which are listed"))]
    pub fallback_on_error: bool,
    /// Maximum model changes per run.
    #[schemars(range(max = 20))]
    #[schemars(extend("x-harmless" = "a limit"))]
    pub max_fallback_attempts: u32,
    /// Maximum retries of a model call after a transient error; defaults to the agent's setting.
    #[schemars(range(max = 20))]
    #[schemars(extend("x-harmless" = "a limit"))]
    pub retry_attempts: Option<u32>,
    /// Cooldown of a failed provider, in milliseconds, unless the provider sends its own.
    #[schemars(range(min = 1_000, max = 600_000))]
    #[schemars(extend("x-harmless" = "a limit"))]
    pub rate_limit_cooldown_ms: u64,
}

impl Default for UserTier {
    fn default() -> Self {
        Self {
            provider_priority: None,
            tiers: Tiers::new(),
            fallback_on_error: false,
            max_fallback_attempts: 3,
            retry_attempts: None,
            rate_limit_cooldown_ms: 30_000,
        }
    }
}

/// All that is said of models beside the agents.
pub(crate) fn check(inputs: &Inputs<'_>) -> Vec<Problem> {
    let mut problems = Vec::new();
    check_providers(inputs, &["provider_priority"], inputs.provider_priority, &mut problems);
    check_tiers(inputs, &["tiers"], inputs.tiers, &mut problems);
    for (name, tier) in inputs.user_tiers {
        let at = ["user_tiers", name];
        let listed = tier.provider_priority.as_deref().unwrap_or_default();
        check_providers(inputs, &[at[0], at[1], "provider_priority"], listed, &mut problems);
        check_tiers(inputs, &[at[0], at[1], "tiers"], &tier.tiers, &mut problems);
    }
    if !inputs.user_tiers.is_empty() && !inputs.user_tiers.contains_key(DEFAULT_USER_TIER) {
        let message = format!("the user tier `{DEFAULT_USER_TIER}` is missing; requests without `user_tier` use it");
        problems.push(Problem::new(["user_tiers"], message).with_hint("add `default: {}`"));
    }
    problems
}

pub(crate) fn check_providers(inputs: &Inputs<'_>, at: &[&str], listed: &[String], problems: &mut Vec<Problem>) {
    for (index, provider) in listed.iter().enumerate() {
        if !inputs.providers.contains(provider) {
            let at = at.iter().copied().chain([&*index.to_string()]).map(str::to_owned).collect::<Vec<_>>();
            let problem = Problem::new(at.iter().map(String::as_str), format!("unknown provider {provider:?}"))
                .of_unknown("providers", provider);
            problems.push(match did_you_mean(provider, inputs.providers.iter().map(String::as_str)) {
                Some(hint) => problem.with_hint(hint),
                None => problem.with_hint("add it under `providers`"),
            });
        }
    }
}

pub(crate) fn check_tiers(inputs: &Inputs<'_>, at: &[&str], tiers: &Tiers, problems: &mut Vec<Problem>) {
    for (tier, candidates) in tiers {
        for (index, candidate) in candidates.iter().enumerate() {
            let index = index.to_string();
            let at: Vec<&str> = at.iter().copied().chain([tier.as_str(), &*index]).collect();
            problems.extend(resolve(inputs, &at, candidate).err());
        }
    }
}

fn resolve(inputs: &Inputs<'_>, at: &[&str], candidate: &Candidate) -> Result<ModelName, Problem> {
    let choice = match candidate {
        Candidate::Alias(alias) => ModelChoice { provider: None, model: Some(alias.clone()) },
        Candidate::Named(choice) => choice.clone(),
    };
    choose(inputs, at, &choice).map(|(provider, model)| ModelName { provider, model })
}

/// The choices of an agent with a tier, by user tier; or what leaves it without a model. Mistakes in the lists
/// themselves are reported where they stand.
pub(crate) fn choices(
    inputs: &Inputs<'_>,
    config: &AgentConfig,
    tier: Tier,
) -> Result<BTreeMap<String, Choice>, String> {
    let mut choices = BTreeMap::new();
    let plain = BTreeMap::from([(DEFAULT_USER_TIER.to_owned(), UserTier::default())]);
    let user_tiers = if inputs.user_tiers.is_empty() { &plain } else { inputs.user_tiers };
    for (name, user_tier) in user_tiers {
        let lists = [Some(&config.models), Some(&user_tier.tiers), Some(inputs.tiers)];
        let candidates = lists.into_iter().flatten().find_map(|tiers| tiers.get(&tier)).map_or(&[][..], Vec::as_slice);
        let named = candidates.iter().filter_map(|candidate| resolve(inputs, &[], candidate).ok());
        let order = order(inputs, config, user_tier);
        let mut named: Vec<ModelName> = named.collect();
        if let Some(order) = &order {
            named.retain(|name| order.contains(&name.provider));
            named.sort_by_key(|name| order.iter().position(|provider| *provider == name.provider));
        }
        // Where no key at all is set, the config is still right; a finding says which keys are missing.
        let usable = |name: &ModelName| !inputs.unusable.contains(&name.provider);
        if named.iter().any(usable) {
            named.retain(usable);
        }
        if named.is_empty() {
            return Err(match candidates.is_empty() {
                true => format!("tier `{}` has no candidates for user tier `{name}`", tier.as_str()),
                false => format!(
                    "user tier `{name}` cannot use any candidate of tier `{}`: their providers are not in its \
                     priority list",
                    tier.as_str()
                ),
            });
        }
        choices.insert(name.clone(), choice(named, user_tier));
    }
    Ok(choices)
}

/// The choices of an agent with a model of its own: that one for everybody.
pub(crate) fn pinned(inputs: &Inputs<'_>, model: &ModelName) -> BTreeMap<String, Choice> {
    let choice = |tier: &UserTier| Choice { fallback: None, ..choice(vec![model.clone()], tier) };
    inputs.user_tiers.iter().map(|(name, tier)| (name.clone(), choice(tier))).collect()
}

fn choice(candidates: Vec<ModelName>, tier: &UserTier) -> Choice {
    let fallback = Fallback { max_attempts: tier.max_fallback_attempts, cooldown_ms: tier.rate_limit_cooldown_ms };
    Choice { candidates, fallback: tier.fallback_on_error.then_some(fallback), retry_attempts: tier.retry_attempts }
}

/// The providers that may be asked, in order; nothing when no list says so. An agent's own list replaces that of the top
/// level and is narrowed by the user tier's.
fn order(inputs: &Inputs<'_>, config: &AgentConfig, user_tier: &UserTier) -> Option<Vec<String>> {
    let top = (!inputs.provider_priority.is_empty()).then_some(inputs.provider_priority);
    let own = config.providers.as_deref();
    match (own, user_tier.provider_priority.as_deref()) {
        (Some(own), Some(tier)) => Some(own.iter().filter(|provider| tier.contains(provider)).cloned().collect()),
        (Some(one), None) | (None, Some(one)) => Some(one.to_vec()),
        (None, None) => top.map(<[String]>::to_vec),
    }
}
