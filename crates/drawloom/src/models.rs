//! The models that the config names, for `list_models`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use async_trait::async_trait;
use serde::Serialize;

use drawloom_contract::{
    choice::ModelName,
    definition::Definitions as _,
    failure::{Failure, FailureKind},
    ids::{AgentName, Tenant},
    model::{Model, TurnError},
};
use drawloom_models::Access;
use drawloom_server::Models;
use drawloom_substrate::{Candidate, Catalog, Finding, ModelChoice, Tiers, Weight};
use drawloom_wire::models::{Key, ListedModel, Model as Listed, ModelList, ModelPrice, Provider, UserTier};

use crate::{
    config::{Config, Loaded},
    providers,
    resolve::Resolved,
};

/// The list, and the providers that can be asked for more.
pub(crate) struct KnownModels {
    list: ModelList,
    providers: BTreeMap<String, Arc<dyn Model>>,
}

impl KnownModels {
    /// The models of a config.
    pub(crate) fn new(loaded: &Loaded, resolved: &Resolved) -> Self {
        let config = &loaded.config;
        let tiers = |tiers: &Tiers| -> BTreeMap<String, Vec<String>> {
            tiers
                .iter()
                .map(|(tier, candidates)| {
                    let names = candidates.iter().filter_map(|candidate| named(config, candidate));
                    (name_of(tier), names.map(|name| name.to_string()).collect())
                })
                .collect()
        };
        let user_tiers = config.user_tiers.iter().map(|(name, user_tier)| {
            (name.clone(), UserTier { fallback: user_tier.fallback_on_error, tiers: tiers(&user_tier.tiers) })
        });
        let list = ModelList {
            currency: config.pricing.currency.clone(),
            models: models(config, resolved),
            providers: config.providers.iter().map(|(id, provider)| provider_of(id, provider, loaded)).collect(),
            tiers: tiers(&config.tiers),
            user_tiers: user_tiers.collect(),
            remote: None,
        };
        Self { list, providers: resolved.models.clone() }
    }
}

#[async_trait]
impl Models for KnownModels {
    fn list(&self) -> ModelList {
        self.list.clone()
    }

    async fn ask(&self, provider: &str) -> Result<Vec<ListedModel>, Failure> {
        let Some(model) = self.providers.get(provider) else {
            let names: Vec<&str> = self.providers.keys().map(String::as_str).collect();
            let message = format!("unknown provider {provider:?}");
            return Err(Failure::new(FailureKind::NotFound, "unknown_provider", message)
                .with_hint(format!("there are {}", names.join(", "))));
        };
        let listed = model.list().await.map_err(|error| failure(&error))?;
        Ok(listed.into_iter().map(ListedModel::from).collect())
    }
}

/// What a provider's failure means for the command that asked for its models.
pub(crate) fn failure(error: &TurnError) -> Failure {
    let kind = match error {
        TurnError::Throttled { .. } | TurnError::Overloaded { .. } => FailureKind::Throttled,
        TurnError::Unavailable { .. } | TurnError::Cut { .. } => FailureKind::Unavailable,
        TurnError::Auth { .. } => FailureKind::Denied,
        TurnError::Refused { .. }
        | TurnError::BadRequest { .. }
        | TurnError::ContextTooLong { .. }
        | TurnError::NoTools { .. } => FailureKind::Invalid,
    };
    let failure = Failure::new(kind, error.code(), error.to_string());
    match error.hint() {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}

/// The model that a candidate names; a config that was resolved has no other.
fn named(config: &Config, candidate: &Candidate) -> Option<ModelName> {
    let choice = match candidate {
        Candidate::Alias(alias) => config.models.get(alias)?,
        Candidate::Named(choice) => choice,
    };
    match (&choice.provider, &choice.model) {
        (Some(provider), Some(model)) => Some(ModelName::new(provider, model)),
        (None, Some(alias)) => match config.models.get(alias)? {
            ModelChoice { provider: Some(provider), model: Some(model) } => Some(ModelName::new(provider, model)),
            _ => None,
        },
        _ => None,
    }
}

/// The models that agents with tools ask, or may fall back on.
pub(crate) fn asked_with_tools(catalog: &Catalog) -> BTreeSet<(AgentName, ModelName)> {
    let mut asked = BTreeSet::new();
    for agent in catalog.list(&Tenant::default_tenant()).iter().filter(|agent| !agent.tools.is_empty()) {
        let chosen = agent.choices.values().flat_map(|choice| choice.candidates.iter().cloned());
        let names = chosen.chain([ModelName::new(&agent.provider, &agent.model)]);
        asked.extend(names.map(|name| (agent.name.clone(), name)));
    }
    asked
}

/// What is said of an agent with tools whose model takes none.
pub(crate) fn takes_none(agent: &AgentName, model: &ModelName) -> String {
    format!("agent {agent} has tools, but its model {model} takes none")
}

/// Agents with tools whose model takes none, as the config says.
pub(crate) fn findings(catalog: &Catalog, models: &BTreeMap<String, Arc<dyn Model>>) -> Vec<Finding> {
    let card = |name: &ModelName| Some(models.get(&name.provider)?.card(&name.model));
    let asked = asked_with_tools(catalog).into_iter();
    let mistaken = asked.filter(|(_, name)| card(name).is_some_and(|card| card.takes_tools == Some(false)));
    let finding = |(agent, name): (AgentName, ModelName)| Finding {
        weight: Weight::Warning,
        at: ["agents", agent.as_str(), "tools"].map(str::to_owned).to_vec(),
        message: takes_none(&agent, &name),
    };
    mistaken.map(finding).collect()
}

#[derive(Default)]
struct Uses {
    aliases: BTreeSet<String>,
    tiers: BTreeSet<String>,
    agents: BTreeSet<String>,
}

fn models(config: &Config, resolved: &Resolved) -> Vec<Listed> {
    let mut uses: BTreeMap<ModelName, Uses> = BTreeMap::new();
    for (alias, choice) in &config.models {
        if let Some(name) = named(config, &Candidate::Named(choice.clone())) {
            uses.entry(name).or_default().aliases.insert(alias.clone());
        }
    }
    let user_tiers = config.user_tiers.values().map(|user_tier| &user_tier.tiers);
    for (tier, candidates) in std::iter::once(&config.tiers).chain(user_tiers).flatten() {
        for name in candidates.iter().filter_map(|candidate| named(config, candidate)) {
            uses.entry(name).or_default().tiers.insert(name_of(tier));
        }
    }
    for definition in resolved.catalog.list(&Tenant::default_tenant()) {
        let own = ModelName::new(&definition.provider, &definition.model);
        let others = definition.choices.values().flat_map(|choice| choice.candidates.iter().cloned());
        for name in others.chain([own]) {
            uses.entry(name).or_default().agents.insert(definition.name.to_string());
        }
    }
    uses.into_iter().filter_map(|(name, uses)| listed(resolved, name, uses)).collect()
}

fn listed(resolved: &Resolved, name: ModelName, uses: Uses) -> Option<Listed> {
    let card = resolved.models.get(&name.provider)?.card(&name.model);
    let price = resolved.prices.get(&name).copied().or(card.price);
    Some(Listed {
        provider: name.provider,
        model: name.model,
        aliases: uses.aliases.into_iter().collect(),
        tiers: uses.tiers.into_iter().collect(),
        agents: uses.agents.into_iter().collect(),
        context_tokens: card.context_tokens,
        max_tokens: card.max_tokens,
        thinks: card.thinks,
        thinks_with_tools: card.thinks_with_tools,
        vision: card.vision,
        price: price.map(ModelPrice::from),
    })
}

fn provider_of(id: &str, config: &drawloom_models::ProviderConfig, loaded: &Loaded) -> Provider {
    let key = match providers::access(loaded, config) {
        Access::Key => Key::Set,
        Access::Missing => Key::Missing,
        Access::NotNeeded | Access::Unset => Key::None,
    };
    Provider { id: id.to_owned(), driver: name_of(&config.driver), key, key_env: config.api_key_env.clone() }
}

/// A word of the config, as the config writes it.
fn name_of(word: &impl Serialize) -> String {
    let name = serde_json::to_value(word).unwrap_or_default();
    name.as_str().unwrap_or_default().to_owned()
}
